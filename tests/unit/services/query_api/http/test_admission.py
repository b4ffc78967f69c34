"""What is let in, by an application whose requests are held by hand."""

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from litestar import Litestar, Request
from litestar import post as plain_post

from services.query_api.http import admission, linger
from services.query_api.http.admission import Admission, AdmissionLimits, AnswerRate, TokenBuckets
from services.query_api.http.auth import Caller
from services.query_api.http.linger import Linger
from services.query_api.http.problems import HANDLERS, Problem
from services.query_api.http.route_decorator import WHOLE, BodyLimit, get, post
from services.query_api.http.stopping import Stopping
from shared.runtime.connections import ON_CLOSE
from shared.runtime.probes import OPEN
from shared.settings import Settings
from tests.contract.logs import until
from tests.fakes.clock import SetClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

HANG_S = 30.0  # a guard: nothing here takes that long


class Api:
    """An application with a door for documents, one that streams, a question and a probe."""

    def __init__(self, *, several: bool = False, **settings: Any) -> None:
        self.held = asyncio.Event()  # what its answers wait for
        self.stopping = Stopping()
        self.limits = AdmissionLimits(Settings(**settings), self.stopping, several=lambda: several)

        @post("/rag/ingest", role=None, lane="bring", takes=WHOLE)
        async def ingest(request: Request[Any, Any, Any]) -> int:
            size = len(await request.body())
            await self.held.wait()
            return size

        @post("/rag/ingest/upload", role=None, lane="bring", takes=WHOLE, holds=100)
        async def upload(request: Request[Any, Any, Any]) -> int:
            return sum([len(piece) async for piece in request.stream()])

        @post("/rag/search", role=None, reads=True)
        async def search(request: Request[Any, Any, Any]) -> int:
            return len(await request.body())

        @get("/rag/documents", role=None)
        async def documents() -> str:
            await self.held.wait()
            return "[]"

        @get("/livez", open=True)
        async def livez() -> str:
            return "alive"

        @plain_post("/console/session", status_code=200, opt={OPEN: True, "takes": BodyLimit(100)})
        async def session(request: Request[Any, Any, Any]) -> int:
            return len(await request.body())

        self.app = Litestar(
            [ingest, upload, search, documents, livez, session],
            request_max_body_size=None,
            middleware=[Linger(), Admission(self.limits)],
            exception_handlers=HANDLERS,
            openapi_config=None,
            logging_config=None,
        )

    def call(self, path: str, size: int | None = None, tenant: str = "t") -> "Call":
        """Return a request under way; with a size, a POST of so many bytes that are still to be sent."""
        return Call(self.app, path, size, tenant)

    @property
    def taken(self) -> list[int]:
        limits = self.limits
        return [lane.taken for lane in (*limits.lanes.values(), limits.slow, limits.bodies)]


class Call:
    """A request whose body is sent by hand."""

    def __init__(self, app: Litestar, path: str, size: int | None, tenant: str) -> None:
        self._body: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._told: list[dict[str, Any]] = []
        self._on_close: list[Callable[[], None]] = []
        headers = [] if size is None else [(b"content-length", str(size).encode())]
        if size is None:
            self._body.put_nowait({"type": "http.request", "body": b"", "more_body": False})
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET" if size is None else "POST",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": headers,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 3000),
            "user": Caller(tenant, frozenset()),
            ON_CLOSE: self._on_close,
        }

        async def send(message: dict[str, Any]) -> None:
            self._told.append(message)

        called = cast("Callable[..., Awaitable[None]]", app)
        self._running = asyncio.ensure_future(called(scope, self._body.get, send))

    def send(self, data: bytes, *, last: bool = False) -> None:
        self._body.put_nowait({"type": "http.request", "body": data, "more_body": not last})

    async def close(self) -> None:
        """Close the connection once the answer has begun, and return when the request has ended."""
        await until(lambda: bool(self._told))
        for left in self._on_close:
            left()
        await self._running

    def leave(self) -> None:
        self._body.put_nowait({"type": "http.disconnect"})

    async def answer(self) -> tuple[int, dict[str, str], Any]:
        """Return status, headers and body once the answer has gone out."""
        async with asyncio.timeout(HANG_S):
            await self._running
        start, *pieces = self._told
        headers = {key.decode(): value.decode() for key, value in start["headers"]}
        text = b"".join(piece.get("body", b"") for piece in pieces).decode()
        return start["status"], headers, json.loads(text) if "json" in headers["content-type"] else text


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Call a body slow that isn't here at once."""
    monkeypatch.setattr(admission, "MOMENT_S", 0.01)
    monkeypatch.setattr(linger, "LINGER_S", 0.01)


async def test_those_above_the_limit_are_told_to_come_again_and_nobody_else() -> None:
    api = Api(max_requests=2)
    inside = [api.call("/rag/ingest", 2) for _ in range(2)]
    for call in inside:
        call.send(b"{}", last=True)
    await until(lambda: api.limits.lanes["bring"].taken == 2)

    refused = api.call("/rag/ingest", 2)
    refused.send(b"{}", last=True)
    status, headers, body = await refused.answer()
    asked = api.call("/rag/documents")
    probed, *_ = await api.call("/livez").answer()
    api.held.set()

    assert (status, body["code"], headers["retry-after"]) == (429, "TOO_MANY_REQUESTS", "2")
    assert "SLUICE_MAX_REQUESTS" in body["detail"]
    assert probed == 200
    assert [(await call.answer())[0] for call in (*inside, asked)] == [200] * 3
    assert api.taken == [0] * 5


async def test_who_leaves_while_a_refused_body_still_arrives_is_no_error() -> None:
    await Api().call("/rag/search", 100_000).close()


async def test_a_body_on_its_way_holds_no_place() -> None:
    api = Api(max_requests=1)
    coming = [api.call("/rag/ingest", 2) for _ in range(3)]
    for call in coming:
        call.send(b"{")
    await until(lambda: api.limits.bodies.taken == 3)

    whole = api.call("/rag/ingest", 2)
    whole.send(b"{}", last=True)
    await until(lambda: api.limits.lanes["bring"].taken == 1)
    for call in coming:
        call.send(b"}", last=True)
    refused = [(await call.answer())[0] for call in coming]
    api.held.set()

    assert (await whole.answer())[0] == 200
    assert refused == [429] * 3  # their bodies came while the place was taken
    assert api.taken == [0] * 5


@pytest.mark.usefixtures("brief")
async def test_only_so_many_may_be_slow() -> None:
    api = Api(max_slow=2, body_timeout=HANG_S)
    slow = [api.call("/rag/ingest", 2) for _ in range(2)]
    await until(lambda: api.limits.slow.taken == 2)

    status, headers, body = await api.call("/rag/ingest", 2).answer()
    for call in slow:
        call.send(b"{}", last=True)
    api.held.set()

    assert (status, headers["connection"]) == (429, "close")
    assert "SLUICE_MAX_SLOW" in body["detail"]
    assert [(await call.answer())[0] for call in slow] == [200] * 2
    assert api.taken == [0] * 5


@pytest.mark.usefixtures("brief")
async def test_a_body_that_does_not_come_is_a_408() -> None:
    api = Api(body_timeout=0.05)
    call = api.call("/rag/ingest", 10)
    call.send(b"12345")

    status, headers, body = await call.answer()

    assert (status, headers["connection"], body["code"]) == (408, "close", "TOO_SLOW")
    assert body["detail"].startswith("the body came too slowly: 5 bytes in ")
    assert api.taken == [0] * 5


@pytest.mark.usefixtures("brief")
async def test_a_body_that_does_not_come_to_a_door_that_streams_is_a_408_too() -> None:
    assert (await Api(body_timeout=0.05).call("/rag/ingest/upload", 10).answer())[0] == 408


async def test_a_body_that_still_arrives_when_the_server_stops_is_a_503_with_the_reason() -> None:
    api = Api(body_timeout=HANG_S)
    calls = [api.call(path, 10) for path in ("/rag/ingest", "/rag/ingest/upload")]
    for call in calls:
        call.send(b"12345")
    await until(lambda: api.limits.bodies.taken == 10)

    api.stopping.end(answers_s=0.0)
    await until(lambda: all(len(call._told) == 2 for call in calls))  # the answers are out, the rest is awaited
    for call in calls:
        call.leave()
    answers = [await call.answer() for call in calls]

    assert [(status, body["detail"]) for status, _, body in answers] == [(503, "the server is stopping")] * 2
    assert {headers["connection"] for _, headers, _ in answers} == {"close"}
    assert all("retry-after" in headers for _, headers, _ in answers)
    assert api.taken == [0] * 5


async def test_bodies_in_memory_have_one_limit_together() -> None:
    api = Api(max_body=1024)
    inside = [api.call("/rag/ingest", 1000) for _ in range(8)]
    for call in inside:
        call.send(b"x" * 1000, last=True)
    await until(lambda: api.limits.lanes["bring"].taken == 8)

    above = api.call("/rag/ingest", 200)
    above.send(b"x" * 200, last=True)
    refused = await above.answer()
    streamed = api.call("/rag/ingest/upload", 1024)
    streamed.send(b"x" * 1024, last=True)
    passed = await streamed.answer()
    api.held.set()

    assert (refused[0], "bytes of request bodies" in refused[2]["detail"]) == (429, True)
    assert (passed[0], passed[2]) == (200, 1024)
    assert [(await call.answer())[0] for call in inside] == [200] * 8
    assert api.taken == [0] * 5


async def test_a_sender_who_leaves_gives_all_back() -> None:
    api = Api()
    call = api.call("/rag/ingest", 10)
    call.send(b"12345")
    await until(lambda: api.limits.bodies.taken == 5)

    call.leave()
    await call.answer()

    assert api.taken == [0] * 5


async def test_a_refused_body_is_taken_in_before_the_connection_ends() -> None:
    api = Api(max_requests=1)
    inside = api.call("/rag/documents")
    other = api.call("/rag/ingest", 2)
    other.send(b"{}", last=True)
    await until(lambda: api.limits.lanes["bring"].taken == 1)

    refused = api.call("/rag/ingest", 3000)
    for _ in range(2):
        refused.send(b"x" * 1000)
    await until(lambda: len(refused._told) == 2)
    assert not refused._running.done()  # the answer is out, the rest is awaited
    refused.send(b"x" * 1000, last=True)
    status, headers, _ = await refused.answer()
    api.held.set()

    assert (status, headers["connection"]) == (429, "close")
    assert [(await call.answer())[0] for call in (inside, other)] == [200] * 2


@pytest.mark.feature(253)
async def test_of_several_tenants_one_has_its_share_and_others_go_on() -> None:
    api = Api(several=True, max_requests=4, tenant_share=50)
    inside = [api.call("/rag/documents", tenant=tenant) for tenant in "aa"]
    await until(lambda: api.limits.lanes["ask"].taken == 2)

    status, headers, body = await api.call("/rag/documents", tenant="a").answer()
    other = api.call("/rag/documents", tenant="b")
    await until(lambda: api.limits.lanes["ask"].taken == 3)
    api.held.set()

    assert (status, headers["retry-after"]) == (429, "2")
    assert body["detail"].startswith("of this tenant, 2 requests are being answered at once, and 2 is its share")
    assert [(await call.answer())[0] for call in (*inside, other)] == [200] * 3
    assert api.taken == [0] * 5


async def test_a_tenant_alone_has_everything() -> None:
    api = Api(max_requests=4, tenant_share=50)
    inside = [api.call("/rag/documents", tenant="a") for _ in range(4)]
    await until(lambda: api.limits.lanes["ask"].taken == 4)
    api.held.set()

    assert [(await call.answer())[0] for call in inside] == [200] * 4


async def test_a_share_of_the_memory_is_at_least_one_body() -> None:
    api = Api(several=True, max_body=1024, tenant_share=1)
    api.held.set()
    call = api.call("/rag/ingest", 1024, tenant="a")
    call.send(b"x" * 1024, last=True)

    assert (await call.answer())[0] == 200


@pytest.mark.feature(253)
async def test_who_has_sent_too_much_waits_and_may_still_ask() -> None:
    api = Api(tenant_bytes=600, tenant_documents=60)
    api.held.set()

    async def sent(tenant: str) -> tuple[int, str | None]:
        call = api.call("/rag/ingest", 700, tenant=tenant)
        call.send(b"x" * 700, last=True)
        status, headers, _ = await call.answer()
        return status, headers.get("retry-after")

    assert await sent("a") == (200, None)
    status, again = await sent("a")
    assert (status, 9 <= int(again or 0) <= 11) == (429, True)
    assert await sent("b") == (200, None)
    assert (await api.call("/rag/documents", tenant="a").answer())[0] == 200
    api.limits.documents.spend("c", 60)
    assert await sent("c") == (429, "1")


@pytest.mark.parametrize(("path", "limit"), [("/console/session", 100), ("/rag/ingest", 2000)])
async def test_a_body_is_refused_by_its_route_s_limit_before_it_is_read(path: str, limit: int, brief: None) -> None:
    api = Api(max_body=2000)
    announced = api.call(path, limit + 1)  # nothing of it comes
    unannounced = api.call(path, limit)
    unannounced.send(b"x" * limit)
    unannounced.send(b"x", last=True)
    api.held.set()
    whole = api.call(path, limit)
    whole.send(b"x" * limit, last=True)

    for call in (announced, unannounced):
        status, _, body = await call.answer()
        assert (status, body["code"], body["details"]) == (413, "TOO_LARGE", {"limit": limit})
    assert (await whole.answer())[0] == 200
    assert api.taken == [0] * 5


async def test_a_slow_body_of_an_open_route_has_its_time_and_probes_need_none(brief: None) -> None:
    api = Api(max_slow=1, max_requests=1, body_timeout=0.05)
    slow = api.call("/console/session", 50)
    slow.send(b"x")

    status, _, body = await slow.answer()

    assert (status, body["code"]) == (408, "TOO_SLOW")
    assert [(await api.call("/livez").answer())[0] for _ in range(3)] == [200] * 3
    assert api.taken == [0] * 5


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_minute_s_tokens_are_there_at_once_and_come_back_evenly(clock: Clock) -> None:
    buckets = TokenBuckets(6, clock)
    buckets.spend("a", 6)

    assert buckets.wait_s("a") == pytest.approx(10)
    clock.now += 10
    assert buckets.wait_s("a") == 0
    clock.now += 1000
    buckets.spend("a", 6)
    assert buckets.wait_s("a") == pytest.approx(10)  # never more than a minute's


def test_a_debt_is_paid_first_and_others_have_their_own(clock: Clock) -> None:
    buckets = TokenBuckets(60, clock)
    buckets.spend("a", 160)

    assert buckets.wait_s("a") == pytest.approx(101)
    assert buckets.wait_s("b") == 0


def test_without_a_rate_there_is_no_limit(clock: Clock) -> None:
    buckets = TokenBuckets(0, clock)
    buckets.spend("a", 10**9)

    assert buckets.wait_s("a") == 0


@pytest.mark.feature(253)
def test_a_key_gets_its_answers_and_then_is_told_when_to_come_again() -> None:
    clock = SetClock()
    rate = AnswerRate(3, clock)

    for _ in range(3):
        rate.take("mine")
    with pytest.raises(Problem) as refused:
        rate.take("mine")
    rate.take("yours")

    assert (refused.value.status, refused.value.headers["Retry-After"]) == (429, "20")
    assert "SLUICE_CHAT_RATE" in refused.value.sentence

    clock.now += 19.5
    with pytest.raises(Problem):
        rate.take("mine")
    clock.now += 0.5
    rate.take("mine")


def test_without_a_rate_nobody_is_refused() -> None:
    rate = AnswerRate(0)

    for _ in range(1000):
        rate.take("mine")
