"""The sender of callbacks on parts in memory: when it calls, how often, and what it refuses."""

import asyncio
import base64
import hashlib
import hmac
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from services.ingest_worker.callback_sender import (
    AT_ONCE,
    AT_ONCE_PER_TENANT,
    MOST_AGE_MS,
    PAUSES_S,
    CallbackSender,
    FailedTry,
    body_of,
    post_callback,
)
from services.ingest_worker.fetch.guard import Guard
from shared.contracts import ERASED, LogPosition, Status, StatusNotice
from shared.errors import Unavailable
from shared.log.background import repeat
from shared.state.callbacks import COLLECTION, Callback, Callbacks, callback_key
from shared.state.ledger import Accepted, Entry, Last, Ledger, MovedTo
from shared.state.signing_secret import submission_token
from shared.store import Filter, Ids, Payload, Point
from tests.fakes.store import MemoryStore
from tests.servers import loopback
from tests.servers.website import Answer, Website, to

NAME, OTHER = "11111111-1111-5111-8111-111111111111", "22222222-2222-5222-8222-222222222222"
YEAR_MS = 365 * 86_400_000
PLACE = LogPosition(partition=1, offset=5, time=5000)
SECRET = b"the installation's"
TOKEN = submission_token(SECRET, "t", PLACE)


class FailingStore(MemoryStore):
    """A store that may fail at any call of the sender's."""

    def __init__(self) -> None:
        super().__init__()
        self.called: Callable[[], Awaitable[None]] = nothing
        self.full = False  # it can be read and takes no write
        self.refused = 0  # writes

    async def retrieve(
        self, name: str, ids: Sequence[str], *, vectors: bool = False, fields: Sequence[str] | None = None
    ) -> list[Point]:
        await self.called()
        return await super().retrieve(name, ids, vectors=vectors, fields=fields)

    async def set_payload(self, name: str, payload: Payload, where: Filter) -> None:
        await self.called()
        if self.full:
            self.refused += 1
            raise Unavailable("the disk is full")
        await super().set_payload(name, payload, where)


async def nothing() -> None: ...


class Receiver:
    """Takes callbacks, or fails as `failing` says; None: it takes them."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, Any], dict[str, str]]] = []
        self.failing: dict[str, FailedTry] = {}
        self.hangs = asyncio.Event()
        self.hanging: set[str] = set()

    async def __call__(self, tenant: str, url: str, body: bytes, headers: dict[str, str]) -> FailedTry | None:
        self.got.append((url, msgspec.json.decode(body), headers))
        if url in self.hanging:
            await self.hangs.wait()
        return self.failing.get(url)

    def of(self, url: str) -> list[dict[str, Any]]:
        return [body for asked, body, _ in self.got if asked == url]


class Bench:
    """A sender and its parts; its clock moves by `pass_s`."""

    def __init__(self) -> None:
        self.now = 10_000_000
        self.store = FailingStore()
        self.callbacks = Callbacks(self.store, lambda: self.now)
        self.ledger = Ledger(self.store)
        self.receiver = Receiver()

    async def begun(self) -> "Bench":
        await asyncio.gather(self.callbacks.create(), self.ledger.create())
        return self

    def sender(self, poll_s: float) -> CallbackSender:
        return CallbackSender(
            callbacks=self.callbacks,
            ledger=self.ledger,
            post=self.receiver,
            secret=SECRET,
            clock=lambda: self.now,
            poll_s=poll_s,
        )

    @asynccontextmanager
    async def sending(self) -> AsyncIterator[CallbackSender]:
        sender = self.sender(poll_s=0.005)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(sender.stop)
            repeat(stack, sender.turn, 0.0)
            yield sender

    async def registered(
        self, url: str = "https://a.test/1", name: str = NAME, place: LogPosition = PLACE, tenant: str = "t"
    ) -> None:
        await self.callbacks.register(name, tenant, place, url)

    async def ended(self, status: Status = "created", name: str = NAME, **fields: Any) -> StatusNotice:
        last = Last(version=3, place=PLACE, status=status, at=self.now, **fields)
        entry = Entry(
            document_id=name,
            tenant="t",
            source="wiki",
            path="a.md",
            rev=0,
            writer="",
            accepted=Accepted(),
            last=last,
            created_at=1,
            updated_at=1,
        )
        await self.ledger.update(name, lambda seen: msgspec.structs.replace(seen or entry, last=last))
        return StatusNotice(document_id=name, tenant="t", version=3, place=PLACE, status=status)

    async def only(self, name: str = NAME) -> Callback:
        (found,) = await self.callbacks.of_document(name)
        return found

    async def until(self, there: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(20):
            while not await there():  # noqa: ASYNC110 - the store tells nobody
                await asyncio.sleep(0.002)

    async def until_state(self, state: str) -> None:
        async def there() -> bool:
            return (await self.only()).state == state

        await self.until(there)

    async def until_delivered(self) -> None:
        """As `until_state`, without a call of the store."""

        async def there() -> bool:
            return [each.payload["state"] for each in self.store.points(COLLECTION).values()] == ["delivered"]

        await self.until(there)

    async def until_tries(self, tries: int) -> None:
        async def there() -> bool:
            return (await self.only()).tries >= tries

        await self.until(there)


@pytest.fixture
async def bench() -> Bench:
    return await Bench().begun()


async def test_a_notice_makes_it_call_at_once_and_only_once(bench: Bench) -> None:
    async with bench.sending() as sender:
        await bench.registered()
        notice = await bench.ended(chunk_count=4)
        sender.heard(notice)
        await bench.until_state("delivered")
        sender.heard(notice)
        bench.now += 3_600_000
        await asyncio.sleep(0.05)

    ((url, body, headers),) = bench.receiver.got
    assert url == "https://a.test/1"
    assert body == {
        "type": "document.ended",
        "at": "1970-01-01T02:46:40.000Z",
        "documentId": NAME,
        "submission": TOKEN,
        "source": "wiki",
        "path": "a.md",
        "status": "created",
        "version": 3,
        "chunkCount": 4,
    }
    assert headers["webhook-timestamp"] == "10000"


async def test_the_receiver_can_verify_it(bench: Bench) -> None:
    await bench.registered()
    await bench.ended()
    async with bench.sending():
        await bench.until_state("delivered")

    callback = await bench.only()
    assert callback.end is not None
    ((_, _, headers),) = bench.receiver.got
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body_of(
        callback, callback.end, TOKEN
    )
    wanted = hmac.new(callback_key(SECRET, "t"), signed, hashlib.sha256).digest()
    assert headers["webhook-id"] == TOKEN
    assert headers["webhook-signature"] == "v1," + base64.b64encode(wanted).decode()


async def test_given_a_restart_between_the_end_and_the_call_then_it_is_made_at_once(bench: Bench) -> None:
    async with bench.sending():
        await bench.registered()
        bench.now += 400_000
        await bench.until(lambda: looked(bench))  # so its next look is minutes away
    await bench.ended()

    async with bench.sending():
        await bench.until_state("delivered")

    assert len(bench.receiver.got) == 1


async def looked(bench: Bench) -> bool:
    return (await bench.only()).looks > 0


async def test_given_a_worker_that_died_while_it_called_then_another_one_calls_after_its_lease(bench: Bench) -> None:
    await bench.registered()
    await bench.ended()
    bench.receiver.hanging.add("https://a.test/1")
    async with bench.sending():
        await bench.until(lambda: called(bench, 1))
    bench.receiver.hanging.clear()

    async with bench.sending():
        await asyncio.sleep(0.05)
        assert (await bench.only()).state == "sending"
        bench.now += 61_000
        await bench.until_state("delivered")

    assert len(bench.receiver.got) == 2


async def called(bench: Bench, times: int) -> bool:
    return len(bench.receiver.got) >= times


async def test_a_target_that_fails_is_tried_with_growing_pauses_and_then_shown_as_failed(bench: Bench) -> None:
    bench.receiver.failing["https://a.test/1"] = FailedTry("a.test answered 500")
    await bench.registered()
    await bench.ended()
    async with bench.sending():
        for tries, pause_s in enumerate(PAUSES_S, start=1):
            await bench.until_tries(tries)
            due = (await bench.only()).next
            assert due == bench.now + pause_s * 1000
            bench.now += int(pause_s * 1000)
        await bench.until_state("failed")

    failed = await bench.only()
    assert (failed.tries, failed.error, failed.next) == (len(PAUSES_S) + 1, "a.test answered 500", None)
    assert len({headers["webhook-id"] for _, _, headers in bench.receiver.got}) == 1


async def test_one_that_fails_twice_gets_it_the_third_time(bench: Bench) -> None:
    bench.receiver.failing["https://a.test/1"] = FailedTry("a.test answered 404")
    await bench.registered()
    await bench.ended()
    async with bench.sending():
        await bench.until_tries(1)
        bench.now += 1000
        await bench.until_tries(2)
        bench.receiver.failing.clear()
        bench.now += 5000
        await bench.until_state("delivered")

    assert (await bench.only()).tries == 3
    assert (await bench.only()).error is None


async def test_a_target_that_hangs_holds_nobody_else_up(bench: Bench) -> None:
    names = [f"{number:08x}-1111-5111-8111-111111111111" for number in range(100)]
    bench.receiver.hanging |= {f"https://hangs.test/{name}" for name in names}
    for name in names:
        await bench.registered(f"https://hangs.test/{name}", name)
        await bench.ended(name=name)
    await bench.registered("https://a.test/1")
    await bench.ended()
    async with bench.sending():
        await bench.until(lambda: called(bench, 4))
        for _ in range(200):
            bench.now += 1000
            await asyncio.sleep(0.005)
            if (await bench.only()).state == "delivered":
                break

    assert (await bench.only()).state == "delivered"
    assert len(bench.receiver.got) == 5, "four at once of one host, and the other one's"


@pytest.mark.parametrize("turns", range(5))
async def test_it_stops_in_whatever_moment_it_is_woken(bench: Bench, turns: int) -> None:
    await bench.registered("https://hangs.test/1")
    bench.receiver.hanging.add("https://hangs.test/1")
    sender = bench.sender(poll_s=60)

    async def looked() -> bool:
        return (await bench.only()).looks == 1

    async with AsyncExitStack() as stack:
        stack.push_async_callback(sender.stop)
        repeat(stack, sender.turn, 0.0)
        await bench.until(looked)
        sender.heard(await bench.ended())
        for _ in range(turns):
            await asyncio.sleep(0)

    assert asyncio.all_tasks() == {asyncio.current_task()}, "what they use is closed next"


@pytest.mark.parametrize(
    "damage",
    [{"place": None}, {"state": "unheard of"}, {"tries": "three"}, {"documentId": OTHER}],
    ids=["missing", "unknown", "type", "another's"],
)
async def test_damaged_callbacks_are_told_once_and_hold_up_no_other(bench: Bench, damage: dict[str, Any]) -> None:
    for number in range(AT_ONCE + 1):  # more than are looked at together
        await bench.registered(name=f"{number:08x}-1111-5111-8111-111111111111")
    damaged = {*bench.store.points(COLLECTION)}
    await bench.store.set_payload(COLLECTION, damage, Filter(must=(Ids(tuple(damaged)),)))
    bench.now += 60_000
    await bench.registered()
    await bench.ended()
    bench.now += 60_000

    with capture_logs() as told:
        async with bench.sending():
            await bench.until_state("delivered")
        async with bench.sending() as again:
            await bench.registered("https://a.test/2", OTHER)
            again.heard(await bench.ended(name=OTHER))
            await bench.until(lambda: called(bench, 2))

    errors = [each for each in told if each["log_level"] == "error"]
    assert sorted((each["event"], each["callback"]) for each in errors) == sorted(
        ("callback_damaged", id_) for id_ in damaged
    )


@pytest.mark.parametrize("failing", range(1, 8))
async def test_a_woken_callback_is_not_lost_whichever_call_of_the_store_fails(bench: Bench, failing: int) -> None:
    calls = 0

    async def fail() -> None:
        nonlocal calls
        calls += 1
        if calls == failing:
            raise Unavailable("the store is away")

    await bench.registered()
    async with bench.sending() as sender:
        bench.now += 400_000
        await bench.until(lambda: looked(bench))  # so its next look is minutes away
        notice = await bench.ended()
        bench.store.called = fail
        sender.heard(notice)
        await bench.until_delivered()

    assert calls > failing, "all of them were tried"


@pytest.mark.parametrize("woken", [False, True], ids=["due", "under way at the start"])
async def test_given_a_full_disk_then_each_look_tries_a_callback_once(bench: Bench, woken: bool) -> None:
    for number in range(AT_ONCE_PER_TENANT):
        await bench.registered(name=f"{number:08x}-1111-5111-8111-111111111111")
    bench.now += 0 if woken else 60_000
    bench.store.full = True
    sender = bench.sender(poll_s=60)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(sender.stop)
        repeat(stack, sender.turn, 0.0)
        for _ in range(1000):
            await asyncio.sleep(0)

    assert bench.store.refused == AT_ONCE_PER_TENANT


async def test_given_an_end_that_a_clock_ahead_has_dated_then_it_is_given_up_after_a_day_all_the_same(
    bench: Bench,
) -> None:
    bench.receiver.failing["https://a.test/1"] = FailedTry("a.test answered 500")
    bench.now += YEAR_MS
    await bench.registered()
    await bench.ended()
    async with bench.sending():
        await bench.until_tries(1)
    bench.now -= YEAR_MS
    await bench.callbacks.keep_up()
    async with bench.sending():
        await bench.until_tries(2)
        bench.now += MOST_AGE_MS + 1
        await bench.until_tries(3)

    assert (await bench.only()).state == "failed"


async def test_a_thousand_callbacks_of_one_tenant_that_hang_hold_up_no_other_one(bench: Bench) -> None:
    names = [f"{number:08x}-1111-5111-8111-111111111111" for number in range(1000)]
    bench.receiver.hanging |= {f"https://dead{name}.test/" for name in names}
    for name in names:
        await bench.registered(f"https://dead{name}.test/", name, tenant="stuck")
        await bench.ended(name=name)
    bench.now += 60_000
    async with bench.sending() as sender:
        await bench.until(lambda: called(bench, AT_ONCE_PER_TENANT))
        await bench.registered("https://a.test/1")
        sender.heard(await bench.ended())
        await bench.until_state("delivered")

    assert len(bench.receiver.got) == AT_ONCE_PER_TENANT + 1


async def test_a_slow_path_of_one_tenant_pauses_its_host_for_no_other(bench: Bench) -> None:
    other = "22222222-1111-5111-8111-111111111111"
    bench.receiver.failing["https://a.test/slow"] = FailedTry("a.test did not answer within 10 s", away=True)
    await bench.registered("https://a.test/slow", other, tenant="slow")
    await bench.ended(name=other)
    async with bench.sending():
        await bench.until(lambda: called(bench, 1))
        await bench.registered("https://a.test/1")
        await bench.ended()
        bench.now += 6_000
        await bench.until_state("delivered")

    assert len(bench.receiver.of("https://a.test/slow")) == 1


async def test_after_a_day_nothing_is_tried_again(bench: Bench) -> None:
    bench.receiver.failing["https://a.test/1"] = FailedTry("a.test can't be reached: nobody", away=True)
    await bench.registered()
    await bench.ended()
    async with bench.sending():
        await bench.until_tries(1)
        bench.now += MOST_AGE_MS + 1
        await bench.until_state("failed")

    assert "a.test can't be reached: nobody" in ((await bench.only()).error or "")


async def test_what_a_target_refuses_for_good_is_not_tried_again(bench: Bench) -> None:
    bench.receiver.failing["https://a.test/1"] = FailedTry("a.test answered 410", final=True)
    await bench.registered()
    await bench.ended()
    async with bench.sending():
        await bench.until_state("failed")

    assert len(bench.receiver.got) == 1


async def test_given_a_submission_taken_under_another_name_then_only_that_one_calls(bench: Bench) -> None:
    await bench.registered()
    await bench.ended("failed", moved_to=MovedTo(document_id=NAME, place=PLACE), code="conflict")
    async with bench.sending():
        await bench.until(lambda: forgotten(bench))

    assert bench.receiver.got == []


async def test_given_an_erased_document_then_nobody_is_called(bench: Bench) -> None:
    await bench.registered()
    await bench.ended()
    later = LogPosition(partition=1, offset=6, time=6000)
    await bench.ledger.update(
        NAME,
        lambda seen: (
            msgspec.structs.replace(seen, accepted=Accepted(version=9, place=later, raw_hash=ERASED)) if seen else None
        ),
    )
    async with bench.sending() as sender:
        await bench.until(lambda: forgotten(bench))

    assert bench.receiver.got == []
    assert sender._expected == {}, "or those of 10,000 erased documents would keep others from being woken"


async def forgotten(bench: Bench) -> bool:
    return await bench.callbacks.of_document(NAME) == []


@pytest.fixture
async def website() -> AsyncIterator[Website]:
    async with loopback.running(Website()) as website:
        yield website


async def tried(allow: str, url: str) -> FailedTry | None:
    guard = Guard(allow, setting="SLUICE_CALLBACK_ALLOW", doing="calling")
    try:
        return await post_callback("t", url, b"{}", {}, guard=guard, timeout_s=2.0)
    finally:
        await guard.close()


async def test_a_private_target_is_called_only_where_it_is_allowed(website: Website) -> None:
    website.pages["/hook"] = Answer(b"ok")

    refused = await tried("", f"{website.url}/hook")
    taken = await tried("127.0.0.1", f"{website.url}/hook")

    assert refused is not None
    assert refused.final
    assert "SLUICE_CALLBACK_ALLOW" in refused.sentence
    assert taken is None
    assert website.asked == ["/hook"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed_so_it_leads_nowhere_that_is_forbidden(website: Website, status: int) -> None:
    website.pages["/hook"] = to("/metadata", status)
    website.pages["/metadata"] = Answer(b"secret")

    failed = await tried("127.0.0.1", f"{website.url}/hook")

    assert failed is not None
    assert failed.final
    assert "redirect" in failed.sentence
    assert website.asked == ["/hook"]


async def test_a_target_that_hangs_is_left_in_time(website: Website) -> None:
    website.fault = "hang"

    failed = await tried("127.0.0.1", f"{website.url}/hook")

    assert failed is not None
    assert failed.away
    assert "did not answer within 2 s" in failed.sentence


@pytest.mark.parametrize(("status", "final"), [(404, False), (409, False), (500, False), (410, True)])
async def test_what_a_status_means(website: Website, status: int, final: bool) -> None:
    website.pages["/hook"] = Answer(status=status, headers=("retry-after: 7",))

    failed = await tried("127.0.0.1", f"{website.url}/hook")

    assert failed is not None
    assert (failed.final, failed.again_s) == (final, 0.0 if final else 7.0)
