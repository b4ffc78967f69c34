"""A port of this process: held from the start, answered when there is something to say."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from litestar import Litestar

from shared.settings import ConfigurationError

_STOP_S = 3  # requests still running get this long


def url_of(listener: socket.socket) -> str:
    """Return the address as a browser takes it."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def bound(
    host: str, port: int, *, host_from: str = "SLUICE_HOST", port_from: str = "SLUICE_PORT"
) -> Iterator[socket.socket]:
    """Hold the port while the block runs; nobody is let in before it is answered. 0 is any free one.

    Raises:
        ConfigurationError: it is taken, or isn't this machine's; the sentence names the two settings.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise ConfigurationError(f"{host_from}={host} {port_from}={port} can't be listened on: {reason}") from None
    try:
        yield listener
    finally:
        listener.close()


class _Server(uvicorn.Server):
    """uvicorn without signal handlers: one owner decides when all of it ends."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def answered(app: Litestar, listener: socket.socket) -> AsyncIterator["asyncio.Task[None]"]:
    """Answer on the port while the block runs, then let running requests end; gives the task that does it."""
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            http="httptools",
            ws="none",
            server_header=False,
            timeout_graceful_shutdown=_STOP_S,
        )
    )
    answering = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started and not answering.done():  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    try:
        yield answering
    finally:
        server.should_exit = True
        await answering
