"""`POST /rag/ingest/batch`: many documents as a JSON array or NDJSON, submitted while the body arrives.

Items that the index holds unchanged are answered without a submission (ADR 0008).
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Final, TypeVar, cast

import msgspec
from litestar import Response

from services.query_api.http.json_scanner import pieces
from services.query_api.http.problems import MOST_NAMED, Problem, brief, invalid, preferences, too_large
from services.query_api.http.reply_warnings import STRICT, fields_of, lenient, unknown_fields, warn
from services.query_api.http.request import FORM, HEAVY, ApiRequest, beside, body_of, content_type, parse_json, wait_of
from services.query_api.http.route_decorator import BATCH, JSON, post
from services.query_api.ingest.batch_framing import Elements, Framing, Lines
from services.query_api.ingest.document import IngestBody, IngestReply, document_of, reply_of
from services.query_api.ingest.submissions import SubmissionReceipt, Submissions
from services.query_api.ingest.unchanged_check import UnchangedChecker
from shared.contracts import DocumentSubmitted
from shared.errors import PipelineError, Rejected
from shared.settings import Settings
from shared.times import LoopTurns

NDJSON: Final = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")
MOST_ITEMS: Final = 100_000  # because each has its entry in the reply
WINDOW: Final = 64  # items that are appended to the log at once
WINDOW_BYTES: Final = 4 << 20  # bytes of bodies that are appended at once
PATIENCE_S: Final = 0.25  # wait until the first stage has read a window's changed items, before the next is compared
T = TypeVar("T")
_FIELDS: Final = fields_of(IngestBody)
_PIECE: Final = 64 << 10  # bytes that are split into items at once
_BOM: Final = b"\xef\xbb\xbf"


class BatchItem(IngestReply, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The status of one item; `index` counts from 0."""

    index: int
    superseded_by: int | None = None  # index of a later item with the same document, which replaced this one


class BatchReply(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The status of each item, in the order of the request."""

    message: str
    taken: int
    failed: int
    items: list[BatchItem]


@post(
    "/rag/ingest/batch",
    role="ingest",
    lane="bring",
    line="add many documents: a JSON array or NDJSON",
    takes=BATCH,
    holds=WINDOW_BYTES,
    refuses=(422,),
    accepted=True,
    body={JSON: list[IngestBody], NDJSON[0]: str},
)
async def rag_ingest_batch(request: ApiRequest) -> Response[BatchReply]:
    """Add documents: a JSON array, or one JSON object a line, each as /rag/ingest takes it.

    Items are submitted as they arrive; those that the index holds unchanged are only counted. A refused item has its
    error and doesn't stop the others. The reply waits for the end of processing only when `Prefer: wait` asks for it.
    """
    wait_s, headers = wait_of(request, otherwise=0.0)
    strict = STRICT in preferences(request)
    batch = _Batch(request.part(Submissions), request.part(UnchangedChecker), request.user.tenant, strict=strict)
    try:
        async with aclosing(_items(request, request.part(Settings).max_body)) as items:
            turns = LoopTurns()
            async for item in items:
                await batch.add(item)
                await turns.give()
        await batch.flush()
    except Problem as problem:
        raise await batch.cut(problem) from None
    entries, statuses = await batch.ends(wait_s)
    if batch.unnamed:
        warn(request, f"there are {batch.unnamed} more warnings and chunks left out of items", "items")
    failed = statuses["failed"]
    taken = statuses.total() - failed
    if failed and not taken:
        # A caller that checks only the status code must see that this failed.
        raise Problem(422, f"none of the {failed} items was accepted", details={"items": entries}, headers=headers)
    message = f"{taken} of {taken + failed} items accepted"
    reply = BatchReply(message=message, taken=taken, failed=failed, items=cast("list[BatchItem]", entries))
    return Response(reply, status_code=202 if statuses["accepted"] else 200, headers=headers)


class _Batch:
    """The items so far: the result of each, and the window of items that are submitted together."""

    def __init__(self, submissions: Submissions, checker: UnchangedChecker, tenant: str, *, strict: bool) -> None:
        self._submissions = submissions
        self._checker = checker
        self._patience_s = PATIENCE_S
        self._tenant = tenant
        self._strict = strict
        self._named = 0
        self.unnamed = 0  # warnings and skipped chunks, of all items, beyond the first 20
        # None: not known yet. Bytes: the entry of an item that was refused, because there may be 100,000 of them.
        self._results: list[SubmissionReceipt | IngestReply | bytes | None] = []
        self._window: dict[str, tuple[int, DocumentSubmitted]] = {}  # number and document of an item, by document id
        self._size = 0
        # What else the entry of an item has: names, warnings, skipped chunks
        self._told: dict[int, dict[str, Any]] = {}
        self._newest: dict[str, int] = {}  # number of the last item that was accepted, by document id

    async def add(self, item: bytes | Problem) -> None:
        """Take the next item. If it is invalid, the error becomes its result.

        Raises:
            Problem: 413, there are too many items; 503, an item couldn't be appended, and later ones won't be.
        """
        number = len(self._results)
        if number == MOST_ITEMS:
            raise too_large(f"a batch has at most {MOST_ITEMS} items", MOST_ITEMS)
        try:
            if isinstance(item, Problem):
                raise item
            document = await beside(len(item) > HEAVY, self._read, number, item)
        except Problem as problem:
            self._results.append(self._failed(number, problem))
            return
        id_ = document.document_id
        # Items of the same document are appended in order, so that the later one is the newer one.
        if id_ in self._window or len(self._window) == WINDOW or self._size + len(item) > WINDOW_BYTES:
            await self.flush()
        self._results.append(None)
        self._window[id_] = number, document
        self._size += len(item)

    def _read(self, number: int, item: bytes) -> DocumentSubmitted:
        """Return the item's submission, and note its name, its warnings, and the chunks that were left out."""
        value = parse_json(item, "the item", values=BATCH.values)
        told = self._told[number] = {"source": _name(value, "source", 30), "path": _name(value, "path", 45)}
        fields = value
        if isinstance(value, dict):
            fields, doubts = lenient(value, IngestBody)
            self._doubt(told, doubts | unknown_fields(value, _FIELDS))  # of what is refused, too
        document, skipped, doubt = document_of(self._tenant, body_of(fields, IngestBody))
        told |= {"source": document.source, "path": document.path}
        self._doubt(told, {"hash": doubt} if doubt is not None else {})
        if skipped:
            told |= {"skipped_count": len(skipped), "skipped": self._few(skipped)}
        return document

    def _doubt(self, told: dict[str, Any], doubts: dict[str, str]) -> None:
        """Add the warnings to the item's. Raises a 400 with the first one if the caller asked for strict handling."""
        if self._strict:
            for field, sentence in doubts.items():
                raise Problem(400, sentence, details={"field": field})
        if doubts:
            told["warnings"] = (*told.get("warnings", ()), *self._few(tuple(doubts.values())))

    def _few(self, mistakes: tuple[T, ...]) -> tuple[T, ...]:
        """Return those of the mistakes that the reply names, and count the others."""
        few = mistakes[: MOST_NAMED - self._named]
        self._named += len(few)
        self.unnamed += len(mistakes) - len(few)
        return few

    async def flush(self) -> None:
        """Append the window's items to the log, except those that would change nothing.

        Raises:
            Problem: 503, the log didn't take all of them.
        """
        window, self._window, self._size = await self._changed([*self._window.values()]), {}, 0
        results = await asyncio.gather(
            *(self._submissions.submit(document, of_many=True, compared=True) for _, document in window),
            return_exceptions=True,
        )
        down: Problem | None = None
        for (number, _), result in zip(window, results, strict=True):
            if isinstance(result, Problem):
                down = result
            elif isinstance(result, BaseException) and not isinstance(result, Rejected):
                raise result  # a bug
            self._results[number] = result if isinstance(result, SubmissionReceipt) else self._failed(number, result)
            if isinstance(result, SubmissionReceipt):
                self._newest[result.document_id] = number
        if down is not None:
            raise down

    async def _changed(self, window: Sequence[tuple[int, DocumentSubmitted]]) -> list[tuple[int, DocumentSubmitted]]:
        """Return the items to be submitted; the others get their results."""
        held = await self._checker.held([document for _, document in window], patience_s=self._patience_s)
        if held.busy:
            self._patience_s = 0.0
        changed: list[tuple[int, DocumentSubmitted]] = []
        for number, document in window:
            id_ = document.document_id
            if (ended := held.ends.get(id_)) is None or self._submissions.doubtful(id_):
                changed.append((number, document))
                continue
            receipt = self._submissions.spared(document, ended)
            await self._submissions.end(receipt, 0.0)
            # Not the receipt: 100,000 ledger entries are 400 MB.
            self._results[number] = reply_of(receipt, ended, wordy=False)
            self._newest[id_] = number
        return changed

    async def cut(self, problem: Problem) -> Problem:
        """Return the problem that ended the batch early, with the results of the items before it."""
        try:
            await self.flush()
        except Problem as later:
            problem = later
        items, statuses = await self.ends(0.0)
        taken = statuses.total() - statuses["failed"]
        return Problem(
            problem.status,
            f"{problem.sentence}; {taken} of the {statuses.total()} items before it were accepted; sending the whole "
            "batch again is safe",
            code=problem.code,
            details={**problem.details, "taken": taken, "items": items},
            headers=problem.headers,
        )

    async def ends(self, wait_s: float) -> tuple[msgspec.Raw, Counter[str]]:
        """Return each item when all are done, or after `wait_s` seconds, and how many have each status.

        The items are JSON, encoded one by one: all at once would hold the event loop.
        """
        deadline = asyncio.get_running_loop().time() + wait_s
        found: list[IngestReply | bytes] = []
        for start in range(0, len(self._results), WINDOW):
            part = self._results[start : start + WINDOW]
            found += await asyncio.gather(*(self._reply(result, deadline) for result in part))
        items, statuses, turns = bytearray(b"["), Counter[str](), LoopTurns()
        for index, reply in enumerate(found):
            if isinstance(reply, bytes):
                items += reply
                statuses["failed"] += 1
            else:
                item = self._item(index, reply, found)
                items += msgspec.json.encode(item)
                statuses[item.status] += 1
            items += b","
            await turns.give()
        items[max(len(items) - 1, 1) :] = b"]"
        await asyncio.sleep(0)  # the reply may have 13 MB, which are copied three times on their way out
        return msgspec.Raw(items), statuses

    def _failed(self, number: int, why: Problem | PipelineError) -> bytes:
        reply = IngestReply(status="failed", error=brief(why.sentence, 140), code=why.code.upper())
        item = msgspec.json.encode(self._item(number, reply, ()))
        self._told.pop(number, None)
        return item

    def _item(self, index: int, reply: IngestReply, found: Sequence[IngestReply | bytes]) -> BatchItem:
        fields: dict[str, Any] = {**self._told.get(index, {}), "index": index}
        fields["path"] = reply.path or fields.get("path")
        later = self._newest.get(reply.document_id or "", index)
        # If the later one failed, this one answers.
        newer = found[later] if later > index else reply
        if newer is not reply and isinstance(newer, IngestReply) and "failed" not in (reply.status, newer.status):
            return BatchItem(status="superseded", document_id=reply.document_id, superseded_by=later, **fields)
        return BatchItem(**msgspec.structs.asdict(reply) | fields)

    async def _reply(
        self, result: SubmissionReceipt | IngestReply | bytes | None, deadline: float
    ) -> IngestReply | bytes:
        assert result is not None, "it was flushed"
        if isinstance(result, IngestReply | bytes):
            return result
        ended = await self._submissions.end(result, deadline - asyncio.get_running_loop().time())
        return reply_of(result, ended, wordy=False)


def _name(item: Any, field: str, most: int) -> str | None:
    """Return the first bytes of the field of an item of any type if the field is text, else None."""
    value = item.get(field) if isinstance(item, dict) else None
    return brief(value, most) if isinstance(value, str) else None


async def _items(request: ApiRequest, longest: int) -> AsyncGenerator[bytes | Problem, None]:
    """Yield the body's items as they arrive.

    Raises:
        Problem: 400, the start of the next item can't be found; 413; 415.
    """
    kind = content_type(request)
    if kind not in ("", FORM, *NDJSON, "application/json") and not kind.endswith("+json"):
        raise Problem(415, f"the body is {kind}; send application/json or {NDJSON[0]}", details={"contentType": kind})
    framing: Framing = Lines(longest)
    begun, refused = False, too_large(f"the item is larger than {longest} bytes", longest)
    try:
        async with aclosing(_pieces(request)) as arriving:
            async for piece in arriving:
                if not begun and kind not in NDJSON and piece.startswith(b"["):
                    framing = Elements(longest)
                begun = True
                for item in framing.feed(piece):
                    yield item if item is not None else refused
        if not begun:
            raise invalid("body", "is missing")
        for item in framing.end():
            yield item if item is not None else refused
    except ValueError as error:
        raise Problem(400, str(error)) from None


async def _pieces(request: ApiRequest) -> AsyncGenerator[bytes, None]:
    """Yield the body in pieces of at most 64 kB, without leading white space."""
    blank, turns = True, LoopTurns()
    async with aclosing(request.stream()) as stream:
        async for arrived in stream:
            for piece in pieces(arrived, _PIECE):
                begins = piece.removeprefix(_BOM).lstrip() if blank else piece
                if begins:
                    blank = False
                    yield begins
                await turns.give()
