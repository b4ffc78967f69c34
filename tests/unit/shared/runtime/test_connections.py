"""Limits on connections and headers, over real sockets."""

import asyncio
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress
from ipaddress import ip_network
from typing import ClassVar

import pytest
from litestar import Litestar, Request, get, post
from litestar.response import Stream
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from shared.runtime.connections import (
    AT_ONCE,
    HEADER_BYTES,
    HEADER_FIELDS,
    Connections,
    LimitedProtocol,
    connections_within_file_limit,
)
from shared.runtime.listening import answered, bound, connections_of
from shared.settings import Settings

HANG_S = 20
HEAD = b"GET /hello HTTP/1.1\r\nHost: x\r\n"


@get("/hello")
async def hello() -> str:
    return "hello"


@post("/echo")
async def echo(request: Request[None, None, None]) -> str:  # type: ignore[type-var]
    return str(len(await request.body()))


STARTED: list[str] = []


@get(["/started", "/livez"])
async def started(request: Request[None, None, None]) -> str:  # type: ignore[type-var]
    STARTED.append("probe" if request.url.path == "/livez" else request.headers["authorization"])
    return "started"


@get("/watch")
async def watch() -> Stream:
    async def ticks() -> AsyncIterator[bytes]:
        try:
            yield b"tick\n"
            await asyncio.Event().wait()
        finally:
            Server.left.put_nowait(None)

    return Stream(ticks())


@get("/caller", media_type="text/plain")
async def caller(request: Request[None, None, None]) -> str:  # type: ignore[type-var]
    assert request.client is not None
    return f"{request.url.scheme} {request.client.host}"


@get("/late")
async def late() -> Stream:
    async def silence() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    return Stream(silence())


LARGE = 16 << 20  # bytes, more than the system's own buffers hold


@get("/large")
async def large() -> bytes:
    return bytes(LARGE)


@get("/endless")
async def endless() -> Stream:
    async def blanks() -> AsyncIterator[bytes]:
        try:
            while True:
                yield bytes(65536)
                await asyncio.sleep(0)  # a model's next piece has to be waited for
        finally:
            Server.left.put_nowait(None)

    return Stream(blanks())


class Peer:
    """One connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def reply(self) -> bytes:
        """Return everything that comes until the server closes the connection; b"" for nothing."""
        found = b""
        async with asyncio.timeout(HANG_S):
            with suppress(ConnectionResetError):
                while piece := await self._reader.read(65536):
                    found += piece
        return found

    async def exactly(self, size: int) -> bytes:
        async with asyncio.timeout(HANG_S):
            return await self._reader.readexactly(size)

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()

    async def until(self, mark: bytes) -> bytes:
        async with asyncio.timeout(HANG_S):
            return await self._reader.readuntil(mark)


class Server:
    left: ClassVar[asyncio.Queue[None]]  # an item for each stream that has ended

    def __init__(self, port: int) -> None:
        self.port = port
        self.peers: list[Peer] = []

    async def connect(self, data: bytes = b"", host: str = "127.0.0.1") -> Peer:
        peer = Peer(*await asyncio.open_connection(host, self.port))
        self.peers.append(peer)
        peer.send(data)
        return peer


@asynccontextmanager
async def serving(limits: Connections) -> AsyncIterator[Server]:
    routes = [hello, echo, started, watch, late, large, endless, caller]
    app = Litestar(routes, openapi_config=None, logging_config=None)
    with bound("127.0.0.1", 0) as listener:
        async with answered(app, listener, limits):
            server = Server(listener.getsockname()[1])
            Server.left = asyncio.Queue()
            try:
                yield server
            finally:
                for peer in server.peers:
                    await peer.close()


@pytest.mark.parametrize(
    ("proxies", "seen"),
    [
        ("", b"http 127.0.0.1"),
        ("10.0.0.7", b"http 127.0.0.1"),
        ("127.0.0.1", b"https 203.0.113.7"),
        ("127.0.0.0/8,10.0.0.0/8", b"https 203.0.113.7"),
    ],
)
async def test_only_a_listed_proxy_says_who_calls(monkeypatch: pytest.MonkeyPatch, proxies: str, seen: bytes) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")  # of the server's library
    said = (
        b"X-Forwarded-For: 127.0.0.1, 203.0.113.7, 127.0.0.1\r\nX-Forwarded-Proto: https\r\nConnection: close\r\n\r\n"
    )

    async with serving(connections_of(Settings(proxies=proxies))) as server:
        reply = await (await server.connect(b"GET /caller HTTP/1.1\r\nHost: x\r\n" + said)).reply()

    assert reply.endswith(b"\r\n\r\n" + seen)


async def test_large_and_many_headers_pass() -> None:
    fields = b"".join(b"X-%d: %s\r\n" % (number, b"v" * 600) for number in range(HEADER_FIELDS - 2))

    async with serving(Connections(10)) as server:
        peer = await server.connect(HEAD + fields + b"Connection: close\r\n\r\n")

        assert (await peer.reply()).endswith(b"hello")


@pytest.mark.parametrize(
    ("headers", "sentence"),
    [
        pytest.param(b"X: " + b"v" * HEADER_BYTES + b"\r\n\r\n", b"larger than 65536 bytes", id="one large field"),
        pytest.param(b"X: " + b"v" * 3 * HEADER_BYTES, b"larger than 65536 bytes", id="a field without an end"),
        pytest.param(b"X" * 3 * HEADER_BYTES, b"larger than 65536 bytes", id="a name without an end"),
        pytest.param(b"".join(b"X%d: v\r\n" % n for n in range(120)), b"more than 100 headers", id="many fields"),
        pytest.param(b"X: v\r\n" * 20_000, b"more than 100 headers", id="fields without an end"),
    ],
)
async def test_headers_beyond_the_limits_are_refused_with_a_sentence(headers: bytes, sentence: bytes) -> None:
    async with serving(Connections(10)) as server:
        reply = await (await server.connect(HEAD + headers)).reply()

    assert reply.startswith(b"HTTP/1.1 431 ")
    assert sentence in reply


@pytest.mark.parametrize("host", [b"[", b"[::1", b"[x]", b"x:y", b"127.0.0.1:99999", b"a:b:c", b"\xff"])
async def test_a_host_that_no_url_can_hold_is_refused(host: bytes) -> None:
    async with serving(Connections(10)) as server:
        reply = await (await server.connect(b"GET / HTTP/1.1\r\nhost: " + host + b"\r\n\r\n")).reply()

    assert reply.startswith(b"HTTP/1.1 400 ")
    assert b"Host is not a name with a port" in reply


async def test_an_address_without_an_end_is_refused() -> None:
    async with serving(Connections(10)) as server:
        reply = await (await server.connect(b"GET /" + b"a" * 3 * HEADER_BYTES)).reply()

    assert reply.startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(b"2\r\nhi\r\n0\r\nX: " + b"v" * 3 * HEADER_BYTES, id="trailer without an end"),
        pytest.param(b"2\r\nhi\r\n0\r\n" + b"X: v\r\n" * 20_000, id="trailers without an end"),
        pytest.param(b"2;" + b"e" * 3 * HEADER_BYTES, id="chunk extension without an end"),
    ],
)
async def test_what_follows_a_chunked_body_is_bounded_as_headers_are(rest: bytes) -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"

    async with serving(Connections(10)) as server:
        reply = await (await server.connect(head + rest)).reply()

    assert reply == b"" or reply.startswith(b"HTTP/1.1 431 ")


async def test_a_large_body_is_no_header() -> None:
    size = 20 * HEADER_BYTES
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % size
    chunked = b"POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"

    async with serving(Connections(10)) as server:
        plain = await (await server.connect(head + b"b" * size)).reply()
        pieces = await (await server.connect(chunked + b"%x\r\n%s\r\n0\r\n\r\n" % (size, b"b" * size))).reply()

    assert plain.endswith(b"%d" % size)
    assert pieces.endswith(b"%d" % size)


CHUNKED = b"POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_small_chunks_are_passed_on_together(monkeypatch: pytest.MonkeyPatch) -> None:
    passed, on_body = list[int](), HttpToolsProtocol.on_body

    def counted(self: HttpToolsProtocol, body: bytes) -> None:
        passed.append(len(body))
        on_body(self, body)

    monkeypatch.setattr(HttpToolsProtocol, "on_body", counted)
    async with serving(Connections(8)) as server:
        peer = await server.connect(CHUNKED + b"10\r\n0123456789abcdef\r\n" * 20_000 + b"0\r\n\r\n")

        assert (await peer.reply()).endswith(b"320000")
    assert len(passed) < 200


async def test_headers_that_are_never_complete_are_answered_in_time_and_silence_is_closed() -> None:
    async with serving(Connections(10, headers_s=0.2)) as server:
        silent, slow = await server.connect(), await server.connect(HEAD)

        assert await silent.reply() == b""
        assert (await slow.reply()).startswith(b"HTTP/1.1 408 ")


async def test_a_second_request_has_the_same_time_and_a_long_reply_has_any() -> None:
    async with serving(Connections(10, headers_s=0.2)) as server:
        again, watcher = await server.connect(HEAD + b"\r\n"), await server.connect(b"GET /watch HTTP/1.1\r\n\r\n")
        await watcher.until(b"tick\n")
        await again.until(b"hello")
        again.send(HEAD)

        assert b"408 Request Timeout" in await again.reply()
        watcher.send(b"\r\n")
        later = await server.connect(HEAD + b"Connection: close\r\n\r\n")
        assert (await later.reply()).endswith(b"hello")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await watcher.reply()


async def test_half_open_connections_make_room_for_others() -> None:
    async with serving(Connections(3)) as server:
        halves = [await server.connect(HEAD) for _ in range(3)]
        peer = await server.connect(HEAD + b"Connection: close\r\n\r\n")

        assert (await peer.reply()).endswith(b"hello")
        assert await halves[0].reply() == b""  # the oldest
        halves[1].send(b"Connection: close\r\n\r\n")
        assert (await halves[1].reply()).endswith(b"hello")


async def test_replies_that_nobody_reads_make_room_for_others() -> None:
    async with serving(Connections(10, unread_bytes=LARGE)) as server:
        peers = []
        for _ in range(3):
            peers.append(await server.connect(b"GET /large HTTP/1.1\r\nConnection: close\r\n\r\n"))
            await peers[-1].until(b"\r\n\r\n")

        last, *others = [len(await peer.reply()) for peer in reversed(peers)]

    assert last == LARGE
    assert max(others) < LARGE


async def test_a_client_that_reads_nothing_is_left_after_a_while() -> None:
    async with serving(Connections(10, unread_s=0.2)) as server:
        await server.connect(b"GET /endless HTTP/1.1\r\n\r\n")
        async with asyncio.timeout(HANG_S):
            await server.left.get()


async def test_a_client_that_reads_slowly_is_not_left() -> None:
    async with serving(Connections(10, unread_s=1.0)) as server:
        peer = await server.connect(b"GET /endless HTTP/1.1\r\n\r\n")
        for _ in range(30):  # of what the kernel holds, a third would be read in more than a second
            await peer.exactly(32768)
            await asyncio.sleep(0.1)  # such a client is what is tested

        assert Server.left.empty()


async def test_a_request_waits_until_the_reply_before_it_is_read() -> None:
    async with serving(Connections(10)) as server:
        peer = await server.connect(b"GET /large HTTP/1.1\r\n\r\n")
        peer.send(b"GET /started HTTP/1.1\r\nAuthorization: after\r\nConnection: close\r\n\r\n")
        await peer.until(b"\r\n\r\n")
        other = await server.connect(HEAD + b"Connection: close\r\n\r\n")
        assert (await other.reply()).endswith(b"hello")

        assert "after" not in STARTED
        assert (await peer.reply()).endswith(b"started")


class CountedConnections(Connections):
    """Counts the connections that were taken."""

    taken = 0

    def admit(self, connection: LimitedProtocol) -> bool:
        self.taken += 1
        return super().admit(connection)


async def test_many_new_connections_are_taken_a_few_in_each_turn_of_the_loop() -> None:
    """Otherwise a request that needs ten turns waits for ten times 256 connections."""
    limits = CountedConnections(1000)
    async with serving(limits) as server:
        with ExitStack() as stack:
            for _ in range(10 * AT_ONCE):  # without a turn of the loop
                stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
            turns: list[int] = []
            while sum(turns) < 10 * AT_ONCE:
                before = limits.taken
                await asyncio.sleep(0)
                turns.append(limits.taken - before)

    assert max(turns) <= AT_ONCE


async def test_the_system_takes_many_connections_while_the_loop_is_busy() -> None:
    """Beyond its queue it drops the first packet of a client, which then tries again only after a second."""
    async with serving(CountedConnections(1000)) as server:
        with ExitStack() as stack:
            for _ in range(300):  # without a turn of the loop
                stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=HANG_S))


@pytest.mark.parametrize(
    ("path", "caller", "told"), [(b"/started", b"other", "Bearer other"), (b"/livez", b"crowd", "probe")]
)
async def test_a_crowd_of_one_caller_starts_in_turn_with_another_ones_request_and_its_own_probe(
    path: bytes, caller: bytes, told: str
) -> None:
    """All of them are there before the loop reads the first one."""
    crowd = 60
    STARTED.clear()
    async with serving(CountedConnections(1000)) as server:
        with ExitStack() as stack:
            for number in range(crowd + 1):
                peer = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=HANG_S))
                asked = (path, caller) if number == crowd else (b"/started", b"crowd")
                peer.sendall(b"GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n" % asked)
            async with asyncio.timeout(HANG_S):
                while len(STARTED) <= crowd:  # noqa: ASYNC110 - the server runs in this loop
                    await asyncio.sleep(0)

    # It is read last, as it came, and starts next.
    assert STARTED.index(told) < crowd / 2


async def test_running_requests_keep_their_connections_and_one_more_is_told_so() -> None:
    async with serving(Connections(2)) as server:
        watchers = [await server.connect(b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(2)]
        for watcher in watchers:
            await watcher.until(b"tick\n")
        refused = await (await server.connect(HEAD)).reply()

        assert refused.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 2" in refused
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await watchers[0].reply()


async def test_requests_that_wait_for_a_reply_are_few() -> None:
    async with serving(Connections(10)) as server:
        peer = await server.connect(b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n" + (HEAD + b"\r\n") * 50)

        assert b"hello" not in await peer.reply()


async def test_a_client_that_leaves_ends_its_request_although_others_are_queued() -> None:
    async with serving(Connections(10)) as server:
        peer = await server.connect(b"GET /watch HTTP/1.1\r\nHost: x\r\n\r\n" + HEAD + b"\r\n")
        await peer.until(b"tick\n")
        await peer.close()

        async with asyncio.timeout(HANG_S):
            await server.left.get()


class Other:
    """A connection of another machine, as the limits see it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.closed = False

    def close_idle(self) -> None:
        self.closed = True


@pytest.mark.parametrize(
    ("address", "admitted"),
    [("203.0.113.7", [True, True, False]), ("10.0.0.9", [True] * 3), ("::1", [True] * 3), ("", [True] * 3)],
)
def test_one_address_has_its_share_unless_it_is_a_proxy_or_this_machine(address: str, admitted: list[bool]) -> None:
    limits = Connections(10, per_address=2, proxies=[ip_network("10.0.0.0/24")])
    others = [Other(address) for _ in range(3)]

    found = []
    for other in others:
        found.append(limits.admit(other))  # type: ignore[arg-type]
        limits.busy(other)  # type: ignore[arg-type]

    assert found == admitted


def test_an_address_at_its_share_loses_its_own_oldest_idle_connection() -> None:
    limits = Connections(10, per_address=2)
    neighbour, *own = Other("203.0.113.1"), *(Other("203.0.113.7") for _ in range(3))

    assert all(limits.admit(each) for each in (neighbour, *own))  # type: ignore[arg-type]
    assert [each.closed for each in (neighbour, *own)] == [False, True, False, False]


@pytest.mark.parametrize(
    ("soft", "hard", "most", "raised"),
    [
        (256, 1_000_000, 2000, 2000 + 512),
        (1024, 1024, 512, 1024),
        (1_000_000, 1_000_000, 2000, 1_000_000),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 2000, resource.RLIM_INFINITY),
    ],
)
def test_connections_leave_room_for_other_files(
    soft: int, hard: int, most: int, raised: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [soft]
    monkeypatch.setattr(resource, "getrlimit", lambda _: (found[0], hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: found.__setitem__(0, limits[0]))

    assert connections_within_file_limit(2000) == most
    assert found == [raised]


async def test_a_head_does_not_wait_for_a_body_that_comes_later() -> None:
    async with serving(Connections(10)) as server:
        peer = await server.connect(b"GET /late HTTP/1.1\r\nHost: x\r\n\r\n")

        assert (await peer.until(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")


async def test_a_reply_without_a_body_is_whole() -> None:
    async with serving(Connections(10)) as server:
        peer = await server.connect(b"OPTIONS /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        reply = await peer.reply()

    assert reply.startswith(b"HTTP/1.1 204 ")
    assert reply.endswith(b"\r\n\r\n")


async def test_a_client_that_asks_first_is_told_to_go_on() -> None:
    head = b"POST /echo HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nConnection: close\r\nContent-Length: 2\r\n\r\n"
    async with serving(Connections(10)) as server:
        peer = await server.connect(head)
        assert await peer.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        peer.send(b"hi")

        assert (await peer.reply()).endswith(b"\r\n\r\n2")
