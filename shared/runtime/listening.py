"""Binds a port at the start, and serves an application on it later."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import cast

import uvicorn
from litestar.types import ASGIApp

from shared.runtime.connections import AT_ONCE, WAITING, Connections, LimitedProtocol, connections_within_file_limit
from shared.settings import ConfigurationError, Settings, networks_of

_STOP_S = 5  # requests still running get this long: a refusal that the stop brings may have to be read to its end


def url_of(listener: socket.socket) -> str:
    """Return the listener's address as a URL."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def bound(
    host: str, port: int, *, host_from: str = "SLUICE_HOST", port_from: str = "SLUICE_PORT"
) -> Iterator[socket.socket]:
    """Bind the port while the block runs, without accepting connections; 0 is any free port.

    Raises:
        ConfigurationError: the port is taken, or the address isn't this machine's; the sentence names both settings.
    """
    with ExitStack() as stack:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            listener = stack.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError as error:
            reason = error.strerror or error
            raise ConfigurationError(f"{host_from}={host} {port_from}={port} can't be listened on: {reason}") from error
        yield listener


def connections_of(settings: Settings) -> Connections:
    """Return the limits on connections to SLUICE_PORT."""
    return Connections(
        connections_within_file_limit(settings.max_connections),
        per_address=settings.max_connections_per_address,
        proxies=networks_of(settings.proxies),
    )


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: `process.run` handles signals."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def answered(
    app: ASGIApp, listener: socket.socket, connections: Connections, *more: socket.socket
) -> AsyncIterator["asyncio.Task[None]"]:
    """Serve `app` on the port and at `more` in the block, then wait for running requests; yields the server's task."""
    limited = cast("type[asyncio.Protocol]", partial(LimitedProtocol, limits=connections))  # uvicorn only calls it
    server = _Server(
        uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            http=limited,
            backlog=AT_ONCE,  # asyncio takes as many in one turn of its loop, 0.3 ms of CPU each
            ws="none",
            server_header=False,
            proxy_headers=bool(connections.proxies),  # only they may say in X-Forwarded-For and -Proto who calls
            forwarded_allow_ips=[str(each) for each in connections.proxies],
            timeout_graceful_shutdown=_STOP_S,
        )
    )
    answering = asyncio.create_task(server.serve(sockets=[listener, *more]))
    while not server.started and not answering.done():  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    if server.started:
        listener.listen(WAITING)  # uvicorn has just set the queue's length to `backlog`
    try:
        yield answering
    finally:
        server.should_exit = True
        await answering
