"""A small HTTP server on loopback, in the test's own loop, that can fail as servers of models were seen to."""

import asyncio
import json
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

HANG = "hang"  # takes the request and never answers
HTML = "html"  # a proxy's page with status 200
LIST = "list"  # JSON of another shape
HALF = "half"  # the connection closes within the body
REDIRECT = "redirect"  # and three digits: that status


class Connection:
    """One client's; it ends with the client."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, left: asyncio.Event) -> None:
        self.reader = reader
        self._writer = writer
        self._left = left

    async def send(self, status: int, body: bytes, *headers: str, cut: bool = False) -> None:
        head = "\r\n".join((f"HTTP/1.1 {status} Status", f"content-length: {len(body)}", *headers))
        await self._write(head.encode() + b"\r\n\r\n" + body[: len(body) // 2 if cut else None])

    async def begin(self, content_type: str) -> None:
        await self._write(
            f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n".encode()
        )

    async def chunk(self, data: bytes) -> None:
        await self._write(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    async def end(self) -> None:
        await self._write(b"0\r\n\r\n")

    async def until_left(self) -> None:
        with suppress(ConnectionError):
            await self.reader.read()
        self._left.set()

    def close(self) -> None:
        self._writer.close()

    async def _write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


class LoopbackServer:
    """The server; tests set `fault`, and read `requests` and `left`."""

    def __init__(self) -> None:
        self.url = ""
        self.host = ""
        self.fault: str | None = None
        self.headers: dict[str, str] = {}  # of the latest request, by lower-case names
        self.extra: tuple[str, ...] = ()  # header lines of an error's answer
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.at_once = 0
        self.arrived: asyncio.Queue[str] = asyncio.Queue()  # the path of every request, as it comes
        self.left = asyncio.Event()  # a client went before its answer was complete

    def bodies(self, path: str) -> list[dict[str, Any]]:
        return [body for asked, body in self.requests if asked == path]

    async def answer(self, path: str, body: dict[str, Any], connection: Connection) -> bool:
        """Answer; return whether the connection goes on."""
        raise NotImplementedError

    async def serve(self, connection: Connection) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while head := await connection.reader.readuntil(b"\r\n\r\n"):
                first, *lines = head.decode().strip().split("\r\n")
                self.headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
                path = first.split()[1]
                raw = await connection.reader.readexactly(int(self.headers.get("content-length", 0)))
                body = json.loads(raw) if raw else {}
                self.requests.append((path, body))
                self.arrived.put_nowait(path)
                self.at_once += 1
                try:
                    goes_on = await self._fail(connection) or await self.answer(path, body, connection)
                finally:
                    self.at_once -= 1
                if not goes_on:
                    break

    async def _fail(self, connection: Connection) -> bool:
        """Return whether a fault was the answer; a hanging one ends with the client."""
        match self.fault:
            case "hang":
                await connection.until_left()
            case "html":
                await connection.send(200, b"<html>welcome</html>")
            case "list":
                await connection.send(200, b"[1, 2]\n")
            case "redirect":
                await connection.send(307, b"", "location: http://127.0.0.1:9/")
            case str() as status if re.fullmatch(r"\d{3}", status):
                await connection.send(int(status), json.dumps({"error": f"fault {status}"}).encode(), *self.extra)
            case _:
                return False
        return True


Server = TypeVar("Server", bound=LoopbackServer)


@asynccontextmanager
async def running(fake: Server, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    """Give the server, running on a free port of loopback."""
    serving: set[asyncio.Task[None]] = set()

    # No coroutine: one that is cancelled before it begins would leave its connection open, in a loop that has ended.
    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = Connection(reader, writer, fake.left)
        task = asyncio.create_task(served(connection))
        serving.add(task)
        task.add_done_callback(serving.discard)
        task.add_done_callback(lambda _: connection.close())

    async def served(connection: Connection) -> None:
        with suppress(asyncio.CancelledError):  # the test has ended
            await fake.serve(connection)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    host, port = server.sockets[0].getsockname()[:2]
    fake.host, fake.url = f"{host}:{port}", f"{'https' if tls else 'http'}://{host}:{port}"
    try:
        yield fake
    finally:
        for listening in server.sockets:
            asyncio.get_running_loop().remove_reader(listening.fileno())
        for _ in range(3):  # turns of the loop, in which one that was taken a moment ago is connected
            await asyncio.sleep(0)
        server.close()
        for task in list(serving):
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)
        await server.wait_closed()
