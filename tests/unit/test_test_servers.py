"""Servers of the tests leave no connection behind, whose collection would fail some later test."""

import asyncio
import gc
import socket
import threading
from contextlib import ExitStack

from tests.servers.loopback import LoopbackServer, running
from tests.servers.proxy import Proxy


def test_a_connection_taken_while_the_proxy_ends_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as target, ExitStack() as clients:
        for _ in range(10):
            proxy = Proxy(*target.getsockname())
            go_on = threading.Event()
            proxy._loop.call_soon_threadsafe(go_on.wait)
            for _ in range(3):  # stand in the backlog, to be taken in the turn in which the proxy ends
                clients.enter_context(socket.create_connection(("127.0.0.1", proxy.port)))
            ending = threading.Thread(target=proxy.close)
            ending.start()
            go_on.set()
            ending.join()
        del proxy
        gc.collect()  # whose warnings pytest takes for failures


def test_a_connection_taken_while_a_loopback_server_ends_is_closed() -> None:
    async def connected(turns: int) -> socket.socket:
        async with running(LoopbackServer()) as server:
            host, _, port = server.host.partition(":")
            client = socket.create_connection((host, int(port)))
            for _ in range(turns):
                await asyncio.sleep(0)
            return client

    for turns in range(5):
        asyncio.run(connected(turns)).close()
        gc.collect()  # as above
