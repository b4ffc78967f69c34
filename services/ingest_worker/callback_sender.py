"""Calls the addresses that callers gave with their submissions, once these have ended. docs/callbacks.md.

A notice on documents.status only wakes this code. The ledger says how a submission ended, and the callback's own point
says what is left to do. So a callback survives restarts and delays no partition. ADR 0030.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import httpx
import msgspec
import structlog

from services.ingest_worker.fetch.guard import Guard
from services.ingest_worker.fetch.hosts import Busy, Hosts
from shared.contracts import LogPosition, StatusNotice
from shared.errors import Rejected, Unavailable
from shared.inputs.urls import authority, origin
from shared.state.callbacks import LONGEST_MS, Callback, CallbackEnd, Callbacks, callback_key, signed_headers
from shared.state.ledger import Ledger, older
from shared.state.signing_secret import submission_token
from shared.times import iso, now_ms, seconds_of
from shared.version import VERSION

log = structlog.get_logger(__name__)

# Pauses between tries. The first are short, because a workflow may start waiting only after its document has ended.
PAUSES_S: Final = (1.0, 5.0, 30.0, 120.0, 600.0, 1800.0, LONGEST_MS["sending"] / 1000)
TIMEOUT_S: Final = 10.0  # of one try
LEASE_MS: Final = 60_000  # after this long, another worker takes over a dead worker's callback
MOST_AGE_MS: Final = 24 * 3600 * 1000  # a callback is tried for this long after the end of its submission
AT_ONCE: Final = 32
AT_ONCE_PER_TENANT: Final = 8
AT_ONCE_PER_HOST: Final = 4  # of one tenant
TURN_S: Final = 0.02  # longest wait for a free slot of a host; after that, the callback is postponed
POSTPONED_S: Final = 0.5
POLL_S: Final = 2.0
MOST_EXPECTED: Final = 10_000  # callbacks that a notice wakes; the others are only checked from time to time
LOOK_AGAIN_MS: Final = (5_000, LONGEST_MS["waiting"])  # first and longest pause between two checks
_GONE: Final = 410  # the receiver wants no more tries (Standard Webhooks)


def body_of(callback: Callback, end: CallbackEnd, token: str) -> bytes:
    """Return the JSON that is sent, how a submission ended, without fields that say nothing; `token` is its own."""
    told = {
        "type": "document.ended",
        "at": iso(end.at),
        "documentId": callback.document_id,
        "submission": token,
        "source": end.source,
        "path": end.path,
        "status": end.status,
        "version": end.version or None,
        "chunkCount": end.chunk_count,
        "error": end.error,
        "code": end.code.upper() if end.code else None,
    }
    return msgspec.json.encode({name: value for name, value in told.items() if value is not None})


class FailedTry(msgspec.Struct, frozen=True):
    """Why a try failed."""

    sentence: str
    final: bool = False  # no other try can succeed
    again_s: float = 0.0  # the pause that the receiver asks for
    away: bool = False  # the host didn't answer at all


Post = Callable[[str, str, bytes, dict[str, str]], Awaitable[FailedTry | None]]  # tenant, URL, …; None: delivered


async def post_callback(
    tenant: str, url: str, body: bytes, headers: dict[str, str], *, guard: Guard, timeout_s: float = TIMEOUT_S
) -> FailedTry | None:
    """Return None if the receiver accepted the callback, else why the try failed.

    It is one request, to an address that `guard` permits; it follows no redirects and reads no body. Raises Busy as
    `Guard.send`.
    """
    sent = {"content-type": "application/json", "user-agent": f"Sluice/{VERSION}", **headers}
    timeouts = httpx.Timeout(timeout_s).as_dict()
    request = httpx.Request("POST", url, content=body, headers=sent, extensions={"timeout": timeouts})
    try:
        async with asyncio.timeout(timeout_s):
            response = await guard.send(request, tenant)
    except Rejected as error:
        return FailedTry(error.sentence, final=True)
    except TimeoutError:
        return FailedTry(f"{authority(url)} did not answer within {timeout_s:g} s", away=True)
    except httpx.TransportError as error:
        words = " ".join(str(error).split())[:200] or type(error).__name__
        return FailedTry(f"{authority(url)} can't be reached: {words}", away=True)
    await response.aclose()
    status = response.status_code
    if 200 <= status < 300:
        return None
    sentence = f"{authority(url)} answered {status}"
    if 300 <= status < 400:
        return FailedTry(f"{sentence}, a redirect; callbacks follow none: give the address it leads to", final=True)
    if status == _GONE:
        return FailedTry(f"{sentence}: it wants no more callbacks", final=True)
    return FailedTry(sentence, again_s=seconds_of(response.headers.get("retry-after", "")) or 0.0)


@dataclass(kw_only=True)
class CallbackSender:
    """Makes the callbacks that are due. Any number of workers may do so: each callback is claimed by one at a time."""

    callbacks: Callbacks
    ledger: Ledger
    post: Post
    secret: bytes = field(repr=False)
    clock: Callable[[], int] = now_ms
    poll_s: float = POLL_S

    def __post_init__(self) -> None:
        self._hosts = Hosts(at_once=AT_ONCE_PER_HOST, delay_s=0.0, turn_s=TURN_S)
        self._expected: dict[tuple[str, LogPosition], str] = {}  # ids of callbacks, until the notice of the end
        self._hot: dict[str, str] = {}  # ids to look at now, in their order, with their tenants
        self._under_way: dict[asyncio.Task[None], Callback] = {}
        self._woken = asyncio.Event()
        self._woken.set()  # the first look comes at once
        self._taken_up = False
        self.callbacks.registered = self._expect

    def heard(self, notice: StatusNotice) -> None:
        """Check the callback of the notice's submission at once, if this process registered it."""
        id_ = self._expected.pop((notice.document_id, notice.place), None)
        if id_ is not None:
            self._hot[id_] = notice.tenant
            self._woken.set()

    async def turn(self) -> None:
        """Wait until callbacks may be due, and make those that are. `repeat` it without a pause."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self.poll_s):
                await self._woken.wait()
        self._woken.clear()
        try:
            if not self._taken_up:  # at once, all whose submissions were under way when the last process ended
                self._hot |= {each.id: each.tenant async for each in self.callbacks.waiting()}
                self._taken_up = True
            await self._look()
        except Unavailable:
            with suppress(Unavailable):
                await self.callbacks.create()  # the store may have lost the collection
            raise

    async def stop(self) -> None:
        """Cancel what is under way, and return when it has ended. Others take it over."""
        for task in self._under_way:
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _look(self) -> None:
        """Start the callbacks that are due, of each tenant a few at once: its slow receivers hold up no other's."""
        running = {each.id for each in self._under_way.values()}
        of_tenant = Counter(each.tenant for each in self._under_way.values())
        while (free := AT_ONCE - len(running)) > 0:
            full = tuple(tenant for tenant, count in of_tenant.items() if count >= AT_ONCE_PER_TENANT)
            wanted = (id_ for id_, tenant in self._hot.items() if tenant not in full and id_ not in running)
            hot = [*islice(wanted, free)]
            found = await (self.callbacks.get(hot) if hot else self.callbacks.due(AT_ONCE, besides=full))
            for id_ in hot:  # only now: the store may be away
                del self._hot[id_]
            begun = len(running)
            for each in found:
                if each.next is None or each.id in running or len(running) >= AT_ONCE:
                    continue
                if of_tenant[each.tenant] >= AT_ONCE_PER_TENANT:
                    if each.id in hot:
                        self._hot[each.id] = each.tenant
                    continue
                running.add(each.id)
                of_tenant[each.tenant] += 1
                task = asyncio.create_task(self._one(each))
                self._under_way[task] = each
                task.add_done_callback(self._done)
            if len(running) == begun and not hot:
                return

    def _done(self, task: asyncio.Task[None]) -> None:
        callback = self._under_way.pop(task)
        of_tenant = sum(each.tenant == callback.tenant for each in self._under_way.values())
        error = None if task.cancelled() else task.exception()
        if error is None:  # else the next look comes in its time: its callback may still be due, and fail again
            if len(self._under_way) == AT_ONCE - 1 or of_tenant == AT_ONCE_PER_TENANT - 1:
                self._woken.set()
        elif isinstance(error, Unavailable):
            log.info("callback_waits", reason=error.sentence)
            if callback.state == "waiting":  # else its lease will expire
                self._hot[callback.id] = callback.tenant
        else:
            log.error("callback_bug", exc_info=error)

    async def _one(self, seen: Callback) -> None:
        now = self.clock()
        # A clock ahead may have dated the end: it would never be a day old.
        end = seen.end and msgspec.structs.replace(seen.end, at=min(seen.end.at, now))
        claimed = await self.callbacks.change(seen, next=now + LEASE_MS, end=end)
        if claimed is not None and (ended := await self._ended(claimed)) is not None:
            await self._try(ended)

    async def _ended(self, callback: Callback) -> Callback | None:
        """Return the callback with the end of its submission; None if that is under way, or needs no callback."""
        if callback.end is not None:
            return callback
        self._expect(callback)  # before the look, so that a notice during it counts
        entry = await self.ledger.get(callback.document_id)
        last = None if entry is None else entry.end_of(callback.place)
        erased = entry is not None and entry.erased and older(callback.place, entry.accepted.place)
        if entry is None or (last is None and not erased):
            first, longest = LOOK_AGAIN_MS
            pause = min(first << min(callback.looks, 10), longest)
            await self.callbacks.change(callback, next=self.clock() + pause, looks=callback.looks + 1)
            return None
        self._expected.pop((callback.document_id, callback.place), None)
        if last is None or erased or last.moved_to is not None:  # under the other name it has a callback of its own
            await self.callbacks.forget(callback)
            return None
        end = msgspec.convert(last, CallbackEnd, from_attributes=True)
        end = msgspec.structs.replace(end, source=entry.source, path=entry.path)  # none of an erased document
        return await self.callbacks.change(callback, state="sending", end=end)

    async def _try(self, callback: Callback) -> None:
        end = callback.end
        assert end is not None
        host = f"{callback.tenant} {origin(callback.url)}"  # of this tenant: another one's slow path is its own
        try:
            async with self._hosts.turn(host, callback.tenant):
                token = submission_token(self.secret, callback.tenant, callback.place)
                body = body_of(callback, end, token)
                key = callback_key(self.secret, callback.tenant)
                headers = signed_headers(key, token, self.clock() // 1000, body)
                failed = await self.post(callback.tenant, callback.url, body, headers)
                if failed is not None and failed.away:
                    self._hosts.away(host, callback.tenant, failed.sentence, failed.again_s)
        except Busy:
            await self.callbacks.change(callback, **self._after(callback, POSTPONED_S))
            return
        except Rejected as error:  # the host is paused
            await self.callbacks.change(callback, **self._after(callback, self.poll_s), error=error.sentence)
            return
        tries = callback.tries + 1
        if failed is None:
            log.info("callback_delivered", document_id=callback.document_id, tries=tries)
            now = self.clock()
            await self.callbacks.change(callback, state="delivered", next=None, over=now, tries=tries, error=None)
            return
        pause_s = None
        if not failed.final and tries <= len(PAUSES_S):
            pause_s = max(PAUSES_S[tries - 1], min(failed.again_s, PAUSES_S[-1]))
        after, reason = self._after(callback, pause_s), failed.sentence
        over = after["next"] is None
        log.info("callback_failed", document_id=callback.document_id, tries=tries, over=over, reason=reason)
        await self.callbacks.change(callback, **after, tries=tries, error=reason)

    def _after(self, callback: Callback, pause_s: float | None) -> dict[str, Any]:
        """Return what to change for a try after the pause; None, or a callback that is too old, is the end of it."""
        now = self.clock()
        assert callback.end is not None
        if pause_s is None or now - callback.end.at > MOST_AGE_MS:
            return {"state": "failed", "next": None, "over": now}
        return {"next": now + int(pause_s * 1000)}

    def _expect(self, callback: Callback) -> None:
        if len(self._expected) < MOST_EXPECTED:
            self._expected[callback.document_id, callback.place] = callback.id
