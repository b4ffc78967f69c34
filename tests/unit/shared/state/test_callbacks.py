"""Callbacks in the store: registered once, claimed by one worker, gone with their document."""

import asyncio
import base64

import pytest

from shared.contracts import LogPosition
from shared.state.callbacks import (
    FIRST_LOOK_MS,
    KEPT_MS,
    LONGEST_MS,
    Callback,
    Callbacks,
    callback_key,
    shown_key,
    signed_headers,
)
from tests.fakes.store import MemoryStore

NAME, OTHER = "11111111-1111-5111-8111-111111111111", "22222222-2222-5222-8222-222222222222"
URL = "https://n8n.example.org/webhook-waiting/7"


class Clock:
    """Milliseconds, as `now` says."""

    now = 1_000_000

    def __call__(self) -> int:
        return self.now


def place(offset: int) -> LogPosition:
    return LogPosition(partition=1, offset=offset, time=1000 * offset)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def callbacks(clock: Clock) -> Callbacks:
    made = Callbacks(MemoryStore(), clock)
    await made.create()
    return made


async def only(callbacks: Callbacks, name: str = NAME) -> Callback:
    (found,) = await callbacks.of_document(name)
    return found


async def test_a_submission_that_is_read_again_has_one_callback_and_keeps_what_became_of_it(
    callbacks: Callbacks, clock: Clock
) -> None:
    heard: list[str] = []
    callbacks.registered = lambda callback: heard.append(callback.id)
    await callbacks.register(NAME, "t", place(1), URL)
    first = await only(callbacks)
    delivered = await callbacks.change(first, state="delivered", next=None, over=clock.now)

    await callbacks.register(NAME, "t", place(1), URL)

    assert delivered is not None
    assert await only(callbacks) == delivered
    assert heard == [first.id, first.id]


async def test_it_is_due_when_its_time_has_come_and_never_once_it_is_over(callbacks: Callbacks, clock: Clock) -> None:
    await callbacks.register(NAME, "t", place(1), URL)
    assert await callbacks.due(10) == []

    clock.now += FIRST_LOOK_MS
    (due,) = await callbacks.due(10)
    await callbacks.change(due, state="failed", next=None, over=clock.now)

    clock.now += 10 * KEPT_MS
    assert await callbacks.due(10) == []


async def test_of_two_workers_that_claim_it_one_has_it(callbacks: Callbacks) -> None:
    await callbacks.register(NAME, "t", place(1), URL)
    seen = await only(callbacks)

    claims = await asyncio.gather(*(callbacks.change(seen, next=n) for n in range(5)))

    (won,) = [claim for claim in claims if claim is not None]
    assert await only(callbacks) == won


async def test_given_an_erased_document_when_a_worker_writes_late_then_the_callback_stays_away(
    callbacks: Callbacks,
) -> None:
    await callbacks.register(NAME, "t", place(1), URL)
    await callbacks.register(NAME, "t", place(3), URL)
    await callbacks.register(OTHER, "t", place(1), URL)
    old = next(each for each in await callbacks.of_document(NAME) if each.place == place(1))

    await callbacks.forget_document(NAME, before=place(2))

    assert await callbacks.change(old, tries=1) is None
    assert [each.place for each in await callbacks.of_document(NAME)] == [place(3)]
    assert (await only(callbacks, OTHER)).place == place(1)


async def test_what_is_long_over_is_forgotten(callbacks: Callbacks, clock: Clock) -> None:
    await callbacks.register(NAME, "t", place(1), URL)
    await callbacks.register(OTHER, "t", place(1), URL)
    await callbacks.change(await only(callbacks), state="delivered", next=None, over=clock.now)

    clock.now += KEPT_MS + 1
    await callbacks.keep_up()

    assert await callbacks.of_document(NAME) == []
    assert (await only(callbacks, OTHER)).place == place(1)


@pytest.mark.parametrize("ahead_ms", [20 * 3_600_000, 365 * 86_400_000], ids=["hours", "a year"])
async def test_what_a_clock_ahead_has_put_off_is_due_when_the_clock_is_right(
    callbacks: Callbacks, clock: Clock, ahead_ms: int
) -> None:
    now = clock.now
    clock.now += ahead_ms
    await callbacks.register(NAME, "t", place(1), URL)
    clock.now = now
    await callbacks.register(OTHER, "t", place(1), URL)

    await callbacks.keep_up()

    assert [each.document_id for each in await callbacks.due(10)] == [NAME]


@pytest.mark.parametrize(("state", "pause_ms"), LONGEST_MS.items())
async def test_the_longest_pause_is_no_sign_of_a_clock_ahead(
    callbacks: Callbacks, clock: Clock, state: str, pause_ms: int
) -> None:
    await callbacks.register(NAME, "t", place(1), URL)
    await callbacks.register(OTHER, "t", place(1), URL)
    await callbacks.change(await only(callbacks), state=state, next=clock.now + pause_ms)
    await callbacks.change(await only(callbacks, OTHER), state=state, next=clock.now + pause_ms + 1)

    await callbacks.keep_up()

    assert [each.document_id for each in await callbacks.due(10)] == [OTHER]


async def test_what_a_clock_ahead_saw_end_is_shown_no_longer_than_others(callbacks: Callbacks, clock: Clock) -> None:
    await callbacks.register(NAME, "t", place(1), URL)
    await callbacks.change(await only(callbacks), state="delivered", next=None, over=clock.now + 365 * 86_400_000)

    await callbacks.keep_up()
    clock.now += KEPT_MS + 1
    await callbacks.keep_up()

    assert await callbacks.of_document(NAME) == []


async def test_one_that_cannot_be_made_says_why_and_is_never_due(callbacks: Callbacks, clock: Clock) -> None:
    await callbacks.register(NAME, "t", place(1), "ftp://x", refused="the address 'ftp://x' has the scheme 'ftp'")

    clock.now += KEPT_MS
    found = await only(callbacks)
    assert (found.state, found.error) == ("failed", "the address 'ftp://x' has the scheme 'ftp'")
    assert await callbacks.due(10) == []
    assert [each async for each in callbacks.waiting()] == []


def test_it_is_that_of_the_specifications_example() -> None:
    # From the reference libraries' README: github.com/standard-webhooks/standard-webhooks
    key = base64.b64decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")

    headers = signed_headers(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')

    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_each_tenant_has_a_key_of_its_own_that_does_not_tell_the_secret() -> None:
    keys = {callback_key(b"secret", tenant) for tenant in ("default", "other", "")}

    assert len(keys) == 3
    assert b"secret" not in keys
    assert callback_key(b"secret", "other") == callback_key(b"secret", "other")
    assert shown_key(b"\x00\x01") == "whsec_AAE="
