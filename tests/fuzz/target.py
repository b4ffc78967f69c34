"""What made-up requests are sent to: an API in this process, or a server."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import httpx

from services.query_api.app import make_api
from services.query_api.http.openapi import described
from services.standalone.serve import start
from shared.settings import Settings
from tests.e2e.harness import Server
from tests.integration.api import a_client
from tests.loop_holds import loop_holds

_GAP = "sluice_event_loop_longest_gap_seconds"
_PATIENCE_S = 180  # a file waits up to a minute for a parser, and may then take 30 s of CPU time on a busy machine


class Target(Protocol):
    """An API with its description."""

    spec: dict[str, Any]

    def send_or_fail(self, request: httpx.Request) -> httpx.Response | Exception:
        """Return the whole reply, or why there is none. Called from several threads."""
        ...

    def held(self) -> tuple[float, str]:
        """Return for how many seconds the event loop was held up since this was last asked, at longest, and by what."""
        ...


class _Sender:
    """Sends requests; what a reply lacks is returned, not raised."""

    def send(self, request: httpx.Request) -> httpx.Response:
        """Return the whole reply."""
        raise NotImplementedError

    def send_or_fail(self, request: httpx.Request) -> httpx.Response | Exception:
        """Return the whole reply, or why there is none."""
        try:
            return self.send(request)
        except (httpx.HTTPError, TimeoutError) as error:
            return error


class _InProcess(_Sender):
    """An API whose parts run in a thread of their own. There is no HTTP, so a case costs a tenth."""

    def __init__(self, folder: Path) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._stack = AsyncExitStack()
        self._client, self.spec = self._run(self._started(folder))
        self._holds = self._stack.enter_context(loop_holds())  # now: making the API isn't an answer

    async def _started(self, folder: Path) -> tuple[httpx.AsyncClient, dict[str, Any]]:
        parts = await start(Settings(data=folder, samples="off", chat="extractive:"), self._stack)
        app = make_api(parts)
        return await self._stack.enter_async_context(a_client(app)), described(app)

    def send(self, request: httpx.Request) -> httpx.Response:
        """Return the whole reply."""
        reply: httpx.Response = self._run(self._client.send(request))
        return reply

    def held(self) -> tuple[float, str]:
        """Return the CPU time of the longest callback, and what it was."""
        return self._holds.look()

    def stop(self) -> None:
        """Stop the parts."""
        self._run(self._stack.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(_PATIENCE_S)


class _OverHttp(_Sender):
    """A server's process."""

    def __init__(self, server: Server) -> None:
        self._server = server
        # The server closes a connection that was idle for 5 s; a request that crosses that would have no reply. On a
        # busy machine 3 s can pass between the look at a connection and its use, so each request has a new one.
        limits = httpx.Limits(max_keepalive_connections=0)
        self._client = httpx.Client(base_url=server.url, timeout=_PATIENCE_S, limits=limits)
        self.spec = self._client.get("/openapi.json").json()

    def send(self, request: httpx.Request) -> httpx.Response:
        """Return the whole reply."""
        request.url = request.url.copy_with(port=httpx.URL(self._server.url).port)
        request.headers["Host"] = request.url.netloc.decode()
        return self._client.send(request)

    def held(self) -> tuple[float, str]:
        """Return the longest gap of the server's loop; by what isn't known."""
        lines = self._client.get("/metrics").text.splitlines()
        return max((float(line.split()[1]) for line in lines if line.startswith(_GAP)), default=0.0), ""


@contextmanager
def in_process(folder: Path) -> Iterator[Target]:
    """Give an API in this process."""
    target = _InProcess(folder)
    try:
        yield target
    finally:
        target.stop()


@contextmanager
def over_http(folder: Path) -> Iterator[Target]:
    """Give a server; fail if it doesn't live and isn't ready at the end."""
    server = Server(folder, CHAT="extractive:").start()
    try:
        yield _OverHttp(server)
        assert server.alive, server.tail()
        assert server.ready()
    finally:
        server.stop()
