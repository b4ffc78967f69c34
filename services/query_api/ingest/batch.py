"""`POST /rag/ingest/batch`: many documents as a JSON array or NDJSON, submitted while the body arrives.

Items that the index holds unchanged are answered without a submission (ADR 0008).
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec
from litestar import Response, post
from litestar.di import NamedDependency
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIType, Operation, Reference, RequestBody, Schema

from services.query_api.http.admission import HOLDS
from services.query_api.http.auth import needs
from services.query_api.http.lanes import in_lane
from services.query_api.http.problems import Problem, invalid
from services.query_api.http.replies import replies
from services.query_api.http.reply_warnings import fields_of, is_strict, unknown_fields
from services.query_api.http.request import FORM, ApiRequest, body_of, content_type, parse_json, wait_of
from services.query_api.ingest.batch_framing import Elements, Framing, Lines
from services.query_api.ingest.document import IngestBody, IngestReply, document_of, hash_doubt, reply_of, under_way
from services.query_api.ingest.submissions import SubmissionReceipt, Submissions
from services.query_api.ingest.unchanged_check import UnchangedChecker
from shared.contracts import DocumentSubmitted
from shared.errors import PipelineError, Rejected

if TYPE_CHECKING:
    from shared.inputs.prepared_chunks import SkippedChunk

NDJSON: Final = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")
MOST_ITEMS: Final = 100_000  # because each has its entry in the reply
WINDOW: Final = 64  # items that are appended to the log at once
WINDOW_BYTES: Final = 4 << 20  # bytes of bodies that are appended at once
PATIENCE_S: Final = 0.25  # wait until the first stage has read a window's changed items, before the next is compared
_FIELDS: Final = fields_of(IngestBody) or frozenset()
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class BatchLimits:
    """Limits for one batch."""

    item_bytes: int
    bytes: int


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


@dataclass
class BatchOperation(Operation):
    """Describes the two forms of the body for OpenAPI."""

    def __post_init__(self) -> None:
        """Fill in the request's content types."""
        item = Reference(ref="#/components/schemas/IngestBody")
        listed = Schema(type=OpenAPIType.ARRAY, items=item)
        lines = Schema(type=OpenAPIType.STRING, description="A JSON object on each line, each as /rag/ingest takes it.")
        self.request_body = RequestBody(
            content={"application/json": OpenAPIMediaType(listed), NDJSON[0]: OpenAPIMediaType(lines)}, required=True
        )


@post(
    "/rag/ingest/batch",
    operation_id="rag_ingest_batch",
    operation_class=BatchOperation,
    guards=[needs("ingest")],
    status_code=200,
    request_max_body_size=None,  # this route counts the body against a limit of its own
    opt={**in_lane("bring", "add many documents: a JSON array or NDJSON"), HOLDS: WINDOW_BYTES}
    | replies(422, accepted=True),
)
async def rag_ingest_batch(
    request: ApiRequest,
    submissions: NamedDependency[Submissions],
    checker: NamedDependency[UnchangedChecker],
    batch_limits: NamedDependency[BatchLimits],
) -> Response[BatchReply]:
    """Add documents: a JSON array, or one JSON object a line, each as /rag/ingest takes it.

    Items are submitted as they arrive; those that the index holds unchanged are only counted. A refused item has its
    error and doesn't stop the others. The reply waits for the end of processing only when `Prefer: wait` asks for it.
    """
    wait_s, headers = wait_of(request, otherwise=0.0)
    batch = _Batch(submissions, checker, request.user.tenant, strict=is_strict(request))
    try:
        async with aclosing(_items(request, batch_limits)) as items:
            async for item in items:
                await batch.add(item)
        await batch.flush()
    except Problem as problem:
        raise await batch.cut(problem) from None
    replies = await batch.replies(wait_s)
    failed = sum(item.status == "failed" for item in replies)
    if replies and failed == len(replies):
        # A caller that checks only the status code must see that this failed.
        raise Problem(422, f"none of the {failed} items was accepted", details={"items": replies}, headers=headers)
    taken = len(replies) - failed
    reply = BatchReply(message=f"{taken} of {len(replies)} items accepted", taken=taken, failed=failed, items=replies)
    status = 202 if any(item.status == "accepted" for item in replies) else 200
    return Response(reply, status_code=status, headers=headers)


class _Batch:
    """The items so far: the result of each, and the window of items that are submitted together."""

    def __init__(self, submissions: Submissions, checker: UnchangedChecker, tenant: str, *, strict: bool) -> None:
        self._submissions = submissions
        self._checker = checker
        self._patience_s = PATIENCE_S
        self._tenant = tenant
        self._strict = strict
        self._results: list[SubmissionReceipt | IngestReply | None] = []  # None: not known yet
        self._window: dict[str, tuple[int, DocumentSubmitted]] = {}  # number and document of an item, by document id
        self._size = 0
        self._skipped: dict[int, tuple[SkippedChunk, ...]] = {}  # prepared chunks left out
        self._names: dict[int, tuple[str | None, str | None]] = {}  # source and path as they were sent
        self._warnings: dict[int, tuple[str, ...]] = {}
        self._newest: dict[str, int] = {}  # number of the last item that was accepted, by document id

    async def add(self, item: bytes | Problem) -> None:
        """Take the next item. If it is invalid, the error becomes its result.

        Raises:
            Problem: 413, there are too many items; 503, an item couldn't be appended, and later ones won't be.
        """
        number = len(self._results)
        if number == MOST_ITEMS:
            sentence = f"a batch has at most {MOST_ITEMS} items"
            raise Problem(413, sentence, details={"limit": MOST_ITEMS})
        try:
            if isinstance(item, Problem):
                raise item
            value = parse_json(item, "the item")
            self._names[number] = _name(value, "source"), _name(value, "path")
            document, skipped = document_of(self._tenant, body_of(value, IngestBody))
            self._warn(number, value, document)
        except Problem as problem:
            self._results.append(_failed(problem))
            return
        if skipped:
            self._skipped[number] = skipped
        id_ = document.document_id
        # Items of the same document are appended in order, so that the later one is the newer one.
        if id_ in self._window or len(self._window) == WINDOW or self._size + len(item) > WINDOW_BYTES:
            await self.flush()
        self._results.append(None)
        self._window[id_] = number, document
        self._size += len(item)

    def _warn(self, number: int, value: Mapping[str, Any], document: DocumentSubmitted) -> None:
        """Note the warnings about the item. Raises a 400 if the caller asked for strict handling."""
        doubts = unknown_fields(value, _FIELDS)
        if (doubt := hash_doubt(document)) is not None:
            doubts["hash"] = doubt
        for field, sentence in doubts.items():
            if self._strict:
                raise Problem(400, sentence, details={"field": field})
            self._warnings[number] = (*self._warnings.get(number, ()), sentence)

    async def flush(self) -> None:
        """Append the window's items to the log, except those that would change nothing.

        Raises:
            Problem: 503, the log didn't take all of them.
        """
        window, self._window, self._size = await self._changed([*self._window.values()]), {}, 0
        results = await asyncio.gather(
            *(self._submissions.submit(document) for _, document in window), return_exceptions=True
        )
        down: Problem | None = None
        for (number, _), result in zip(window, results, strict=True):
            if isinstance(result, Problem):
                down = result
            elif isinstance(result, BaseException) and not isinstance(result, Rejected):
                raise result  # a bug
            self._results[number] = result if isinstance(result, SubmissionReceipt) else _failed(result)
            if isinstance(result, SubmissionReceipt):
                self._newest[result.document_id] = number
        if down is not None:
            raise down

    async def _changed(self, window: Sequence[tuple[int, DocumentSubmitted]]) -> list[tuple[int, DocumentSubmitted]]:
        """Return the items to be submitted; the others get their results."""
        held = await self._checker.held([document for _, document in window], patience_s=self._patience_s)
        if held.busy:
            self._patience_s = 0.0
        for number, document in window:
            if (count := held.chunks.get(id_ := document.document_id)) is not None:
                self._submissions.spare(document)
                self._results[number] = IngestReply(status="unchanged", document_id=id_, chunk_count=count)
                self._newest[id_] = number
        return [(number, document) for number, document in window if document.document_id not in held.chunks]

    async def cut(self, problem: Problem) -> Problem:
        """Return the problem that ended the batch early, with the results of the items before it."""
        try:
            await self.flush()
        except Problem as later:
            problem = later
        replies = await self.replies(0.0)
        taken = sum(item.status != "failed" for item in replies)
        return Problem(
            problem.status,
            f"{problem.sentence}; {taken} of the {len(replies)} items before it were accepted; "
            "sending the whole batch again is safe",
            code=problem.code,
            details={**problem.details, "taken": taken, "items": replies},
            headers=problem.headers,
        )

    async def replies(self, wait_s: float) -> list[BatchItem]:
        """Return the status of each item when all are done, or after `wait_s` seconds."""
        deadline = asyncio.get_running_loop().time() + wait_s
        found: list[IngestReply] = []
        for start in range(0, len(self._results), WINDOW):
            part = self._results[start : start + WINDOW]
            found += await asyncio.gather(*(self._reply(result, deadline) for result in part))
        return [self._item(index, found) for index in range(len(found))]

    def _item(self, index: int, found: Sequence[IngestReply]) -> BatchItem:
        reply, skipped = found[index], self._skipped.get(index, ())
        source, path = self._names.get(index, (None, None))
        fields: dict[str, Any] = {"index": index, "skipped": skipped, "warnings": self._warnings.get(index, ())}
        fields |= {"source": source, "path": reply.path or path}
        later = self._newest.get(reply.document_id or "", index)
        # If the later one failed, this one answers.
        if later > index and reply.status != "failed" and found[later].status != "failed":
            return BatchItem(status="superseded", document_id=reply.document_id, superseded_by=later, **fields)
        return BatchItem(**msgspec.structs.asdict(reply) | fields)

    async def _reply(self, result: SubmissionReceipt | IngestReply | None, deadline: float) -> IngestReply:
        assert result is not None, "it was flushed"
        if isinstance(result, IngestReply):
            return result
        ended = await self._submissions.end(result, deadline - asyncio.get_running_loop().time())
        if ended is None:
            return under_way(result)
        return reply_of(result, ended, wordy=False)


def _name(item: Any, field: str) -> str | None:
    """Return the field of an item of any type if the field is text, else None."""
    value = item.get(field) if isinstance(item, dict) else None
    return value if isinstance(value, str) else None


def _failed(why: Problem | PipelineError) -> IngestReply:
    return IngestReply(status="failed", error=why.sentence, code=why.code.upper())


async def _items(request: ApiRequest, limits: BatchLimits) -> AsyncGenerator[bytes | Problem, None]:
    """Yield the body's items as they arrive.

    Raises:
        Problem: 400, the start of the next item can't be found; 413; 415.
    """
    kind = content_type(request)
    if kind not in ("", FORM, *NDJSON, "application/json") and not kind.endswith("+json"):
        raise Problem(415, f"the body is {kind}; send application/json or {NDJSON[0]}", details={"contentType": kind})
    framing: Framing = Lines(limits.item_bytes)
    begun = False
    try:
        async with aclosing(_pieces(request, limits.bytes)) as pieces:
            async for piece in pieces:
                if not begun and kind not in NDJSON and piece.startswith(b"["):
                    framing = Elements(limits.item_bytes)
                begun = True
                for item in framing.feed(piece):
                    yield item if item is not None else _too_large("the item", limits.item_bytes)
        if not begun:
            raise invalid("body", "is missing")
        for item in framing.end():
            yield item if item is not None else _too_large("the item", limits.item_bytes)
    except ValueError as error:
        raise Problem(400, str(error)) from None


async def _pieces(request: ApiRequest, limit: int) -> AsyncGenerator[bytes, None]:
    """Yield the body, without leading white space.

    Raises:
        Problem: 413, the body is, or its Content-Length says, larger than `limit` bytes.
    """
    if (request.content_length or 0) > limit:
        raise _too_large("the batch", limit)
    read, blank = 0, True
    async with aclosing(request.stream()) as stream:
        async for piece in stream:
            read += len(piece)
            if read > limit:
                raise _too_large("the batch", limit)
            begins = piece.removeprefix(_BOM).lstrip() if blank else piece
            if begins:
                blank = False
                yield begins


def _too_large(what: str, limit: int) -> Problem:
    return Problem(413, f"{what} is larger than {limit} bytes", details={"limit": limit})
