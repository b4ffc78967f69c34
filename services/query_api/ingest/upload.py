"""Routes that take files, as multipart under any field name or as a raw body. Large files are spooled to disk."""

import asyncio
import codecs
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from tempfile import SpooledTemporaryFile
from typing import IO, Any, Final, NamedTuple, Protocol, get_args
from urllib.parse import unquote

import msgspec
from litestar import Response
from multipart import (  # type: ignore[import-untyped]  # it has no stubs
    MultipartError,
    MultipartSegment,
    PushMultipartParser,
)

from services.query_api.http.problems import Problem, invalid, too_large
from services.query_api.http.reply_warnings import lenient, warn, warn_of_unknown
from services.query_api.http.request import (
    FORM,
    ApiRequest,
    beside,
    body_of,
    content_type,
    tags_of,
    wait_of,
)
from services.query_api.http.route_decorator import JSON, WHOLE, submit
from services.query_api.ingest.document import (
    DescribedBody,
    IngestBody,
    IngestReply,
    content_name,
    hash_doubt,
    replied,
    reply_of,
)
from services.query_api.ingest.submissions import SubmissionEnd, SubmissionReceipt, Submissions
from shared.contracts import DocumentSubmitted, Kept, Note, like
from shared.errors import PipelineError
from shared.ids import composed
from shared.inputs.prepared_chunks import SkippedChunk, chunk_file, prepared_chunks

MOST_FILES: Final = 100  # per request
_TEXTS: Final = ("source", "title", "description", "metadata", "subjectId", "hash", "callbackUrl", "password")
_SIZES: Final = ("chunkSize", "chunkOverlap")
_ABOUT: Final = ("title", "metadata", *_SIZES, "subjectId", "onConflict", "callbackUrl")
_FIELDS: Final = frozenset((*_TEXTS, *_SIZES, "path", "tags", "keep", "onConflict"))
_LONGEST_PASSWORD: Final = 1000  # characters
_LOOKED_AT: Final = 64 << 10  # bytes of a raw JSON body without a name
IN_MEMORY: Final = 1 << 20  # bytes; larger files are spooled to disk
_SMALL: Final = 64 << 10  # bytes; what is done with as few takes no longer than a hand-over to a thread
_PARTS: Final = 1000  # per request
_FIELD_BYTES: Final = 1_000_000  # of all parts that are no files
_CHARSETS: Final = frozenset({"utf-8", "ascii", "iso8859-1", "iso8859-15", "cp1252", "utf-16", "shift_jis", "gb18030"})


class UploadReply(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The status of each file of one request."""

    message: str
    items: list[IngestReply]


class Processing(msgspec.Struct, frozen=True):
    """The progress of a document."""

    progress: int  # percent


class KnowledgeReply(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A document of the knowledge base; `id` and `documentId` are the same."""

    success: bool
    id: str
    document_id: str
    status: str  # pending, completed or failed
    processing_status: Processing
    filename: str | None = None
    title: str | None = None
    description: str | None = None
    tags: tuple[str, ...]
    chunk_count: int | None = None
    notes: tuple[Note, ...] = ()  # the first 20 of what could not be read
    error: str | None = None


class FileText(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a file."""

    text: str
    metadata: dict[str, Any]


class ReadFile(Protocol):
    """Reads a file of any supported format."""

    async def __call__(self, body: bytes, *, tenant: str, name: str | None, media_type: str | None) -> FileText:
        """Return the text.

        Raises:
            Rejected: the file can't be read. Unavailable: no parser is available now.
        """

    async def pdf_copy(
        self, body: bytes, *, tenant: str, name: str | None, password: str | None = None, page: int | None = None
    ) -> bytes:
        """Return the file without its lock, or its page, counted from 1, as PNG. Raises as above.

        The password is neither stored nor logged.
        """


def reader_of(request: ApiRequest) -> ReadFile:
    """Return the API's reader of files."""
    return request.part(ReadFile)  # type: ignore[type-abstract]  # the key is the protocol itself


@dataclass(frozen=True)
class File:
    """A file of the request."""

    name: str | None
    media_type: str | None
    body: IO[bytes]
    size: int
    path: str | None = None  # the document's path, if it isn't the file's name


@dataclass(frozen=True)
class Upload:
    """The files and the other fields of a request."""

    files: Sequence[File]
    fields: Mapping[str, list[str]]

    def named(self) -> "Upload":
        """Return the upload with a path for each file: from the `path` fields in order, or else the file's name.

        Raises:
            Problem: 400, there are `path` fields, but not one per file; or two files would be the same document.
        """
        paths, files = self.fields.get("path", []), list(self.files)
        if paths and len(paths) != len(files):
            raise invalid("path", f"{len(paths)} were sent for {len(files)} files; send one for each of them, or none")
        if paths:
            files = [replace(file, path=path.strip() or None) for file, path in zip(files, paths, strict=True)]
        names = Counter(composed(file.path or file.name or "") for file in files)
        twice = [f"{name!r} ({count} times)" for name, count in names.items() if name and count > 1]
        if twice:
            raise invalid(
                "path" if paths else "file",
                f"several files would be one document: {', '.join(twice)}; none was accepted, send a path for each",
            )
        return Upload(files, {name: values for name, values in self.fields.items() if name != "path"})


# The description of uploads: docs/formats.md.
READABLE = """Add files: multipart under any field name, or one raw body with its content type and X-Filename.

The content decides the type of a file, then its media type, then its name. Supported: text and source code (.txt
.text .log .tex .py, others), markup (.md .markdown .mdown .mkd .mdx .rmd .qmd .rst .adoc .asciidoc .org .wiki
.mediawiki), subtitles (.srt .vtt .sbv .ass .ssa), HTML (.html .htm .xhtml), XML (.xml .nxml .jats .rss .atom .svg
.dita .tei), JSON (.json .jsonl .ndjson .geojson .jsonld), notebooks (.ipynb), tables (.csv .tsv .tab .xlsx .xlsm
.xltx .xlsb .xls .xlt .ods .ots .fods), PDF (.pdf), presentations (.pptx .pptm .ppsx .potx .odp .otp .fodp), texts
(.docx .docm .dotx .dotm .odt .ott .fodt .rtf), books (.epub), mail (.eml .mht .mhtml .p7s .mbox), calendars and
contacts
(.ics .ical .vcs .vcf .vcard), archives of any of these (.zip); with the extra `office` legacy Word (.doc .dot),
PowerPoint (.ppt .pps) and Outlook (.msg); with the extra `ocr` images (.png .jpg .jpeg .gif .tif .tiff .bmp .webp)
and scanned PDFs."""
_TEXT: Final = {"type": "string"}
_BODY: Final = {
    "multipart/form-data": {
        "type": "object",
        "properties": {
            "file": {"type": "string", "format": "binary", "description": "The file. Any field name is accepted."},
            **dict.fromkeys(_TEXTS, _TEXT),
            **{name: {"type": "integer"} for name in _SIZES},
            "path": {
                "type": "array",
                "items": _TEXT,
                "description": "One path for each file, in their order, or none at all.",
            },
            "tags": {"type": "array", "items": _TEXT},
            "keep": {"type": "array", "items": {"type": "string", "enum": [*get_args(Kept)]}},
            "onConflict": {"type": "string", "enum": ["replace", "error", "new"]},
        },
    },
    "application/octet-stream": bytes,
}


@submit(
    "/rag/ingest/upload",
    line="add files",
    takes=WHOLE,
    holds=IN_MEMORY,
    ok={JSON: (IngestReply, UploadReply)},
    description=READABLE,
    body=_BODY,
)
async def rag_ingest_upload(request: ApiRequest) -> Response[IngestReply] | Response[UploadReply]:
    """Add files: multipart under any field name, or one raw body with its content type and X-Filename."""
    async with _sent(request) as upload:
        _heed(request, upload.fields)
        if len(upload.files) == 1:
            sent = await _submitted(request, upload.files[0], upload.fields)
            reply = partial(reply_of, sent.receipt, wordy=True, skipped=sent.skipped)
            return await replied(request, sent.receipt, reply)
        return await _taken_all(request, upload.named())


@submit("/knowledge-base", takes=WHOLE, holds=IN_MEMORY, body=_BODY)
async def knowledge_base(request: ApiRequest) -> Response[KnowledgeReply]:
    """Add a file. The reply waits for the end of processing only when `Prefer: wait` asks for it."""
    async with _sent(request) as upload:
        _heed(request, upload.fields)
        if len(upload.files) > 1:
            raise invalid("file", f"{len(upload.files)} files were sent, but this route takes one")
        sent = await _submitted(request, upload.files[0], upload.fields)
    return await replied(request, sent.receipt, partial(_knowledge, sent), otherwise=0.0)


def _knowledge(sent: "_Sent", ended: SubmissionEnd | None) -> KnowledgeReply:
    id_ = ended.entry.document_id if ended else sent.receipt.document_id
    return like(
        KnowledgeReply,
        sent.document,
        success=True,
        id=id_,
        document_id=id_,
        status="completed" if ended else "pending",
        processing_status=Processing(100 if ended else 0),
        chunk_count=ended.chunk_count if ended else None,
        notes=ended.entry.reading(ended.last.version).notes if ended else (),
    )


class _Sent(NamedTuple):
    """A submitted file."""

    receipt: SubmissionReceipt
    document: DocumentSubmitted  # without its body
    skipped: tuple[SkippedChunk, ...]  # of a file of prepared chunks


async def _submitted(
    request: ApiRequest, file: File, fields: Mapping[str, list[str]], *, of_many: bool = False
) -> _Sent:
    """Submit a file. It is in memory only during this call."""
    submissions, tenant = request.part(Submissions), request.user.tenant
    async with submissions.room.taken(file.size, tenant):
        content = await beside(file.size > IN_MEMORY, file.body.read)
        document = _document(tenant, file, content, fields)
        if (doubt := await beside(file.size > _SMALL, hash_doubt, document)) is not None:
            warn(request, doubt, "hash")
        if (password := _password(request, fields)) is not None:
            content = await reader_of(request).pdf_copy(content, tenant=tenant, name=file.name, password=password)
            document = msgspec.structs.replace(document, content=content)
        skipped = await beside(len(content) > _SMALL, _skipped, content)
        receipt = await submissions.submit(document, of_many=of_many)
    named = tuple(msgspec.structs.replace(each, file=file.name) for each in skipped)
    return _Sent(receipt, msgspec.structs.replace(document, content=None), named)


def _password(request: ApiRequest, fields: Mapping[str, list[str]]) -> str | None:
    password = _one(fields, "password")
    if password is None:
        return None
    if content_type(request) != "multipart/form-data":
        raise invalid("password", "is a field of a multipart form; an address is logged on its way")
    if len(password) > _LONGEST_PASSWORD:
        raise invalid("password", f"has more than {_LONGEST_PASSWORD} characters")
    return password


def _skipped(content: bytes) -> tuple[SkippedChunk, ...]:
    """Return the chunks that the worker will leave out of a file of prepared chunks; empty for any other file."""
    listed = chunk_file(content)
    return () if listed is None else prepared_chunks(listed).skipped


async def _taken_all(request: ApiRequest, upload: Upload) -> Response[UploadReply]:
    """Submit every file. If a file is refused or fails, its item has the error, and the others go on."""
    wait_s, headers = wait_of(request)

    async def one(file: File) -> IngestReply:
        try:
            sent = await _submitted(request, file, upload.fields, of_many=True)
        except (Problem, PipelineError) as error:
            return IngestReply(status="failed", file=file.name, error=error.sentence, code=error.code.upper())
        ended = await request.part(Submissions).end(sent.receipt, wait_s)
        reply = reply_of(sent.receipt, ended, wordy=True, skipped=sent.skipped)
        path = reply.path or sent.document.path
        return msgspec.structs.replace(reply, file=file.name, source=sent.document.source, path=path)

    items = await asyncio.gather(*(one(file) for file in upload.files))
    failed = sum(item.status == "failed" for item in items)
    if failed == len(items):
        # A caller that checks only the status code must see that this failed.
        raise Problem(422, f"none of the {failed} files could be processed", details={"items": items}, headers=headers)
    message = f"{len(items) - failed} of {len(items)} files accepted"
    status = 202 if any(item.status == "accepted" for item in items) else 200
    return Response(UploadReply(message=message, items=list(items)), status_code=status, headers=headers)


def _document(tenant: str, file: File, content: bytes, fields: Mapping[str, list[str]]) -> DocumentSubmitted:
    if not content:
        raise invalid("file", f"{file.name} is empty" if file.name else "the body is empty")
    one = partial(_one, fields)
    path = file.path or one("path") or file.name or content_name(content)
    about: dict[str, Any] = {name: one(name) for name in _ABOUT}
    about["tags"] = [tag for value in fields.get("tags", []) + fields.get("tags[]", []) for tag in tags_of(value)]
    about["keep"] = ",".join(fields.get("keep", []))
    return body_of(about, DescribedBody).document(
        tenant,
        one("source") or "upload",
        path,
        content=content,
        media_type=file.media_type,
        filename=file.name,
        description=one("description"),
        hash=one("hash"),
    )


@asynccontextmanager
async def _sent(request: ApiRequest) -> AsyncIterator[Upload]:
    """Yield the files and fields of the request; the files are deleted when the block ends.

    Raises:
        Problem: 400, there is no file, or the body can't be read; 413, its fields are too large.
    """
    kind = content_type(request)
    if kind == "multipart/form-data":
        with ExitStack() as open_:
            yield await _multipart(request, open_)
    elif kind == FORM:
        raise invalid("file", f"a form has no files when it is sent as {FORM}; send multipart/form-data")
    else:
        name = request.headers.get("x-filename", "")
        with SpooledTemporaryFile(IN_MEMORY) as body:
            async for piece in request.stream():
                await beside(body.tell() + len(piece) > IN_MEMORY, body.write, piece)
            size = _rewound(body)
            if not name and _is_for_ingest(body.read(_LOOKED_AT)):
                raise Problem(400, "the body is one for POST /rag/ingest; a JSON file to be kept needs X-Filename")
            body.seek(0)
            file = File(
                name=_named(unquote(name.encode("latin-1").decode("utf-8", "replace"))),
                media_type=request.headers.get("content-type"),
                body=body,
                size=size,
            )
            yield Upload([file], {key: request.query_params.getall(key) for key in request.query_params})


def _is_for_ingest(head: bytes) -> bool:
    """Return whether the JSON begins as a document of /rag/ingest does: a workflow has the wrong address."""
    start = head.removeprefix(codecs.BOM_UTF8).lstrip()
    return start.startswith((b"{", b"[")) and all(name in head for name in (b'"source"', b'"path"', b'"text"'))


async def _multipart(request: ApiRequest, open_: ExitStack) -> Upload:
    """Return the files and fields of a multipart body; `open_` closes the files in the end.

    The framework's own reader would decode a field of any size in any charset, such as punycode, which takes minutes.

    Raises:
        Problem: 400, the body can't be read, has no file, or a field isn't text; 413, the fields are too large.
    """
    files, fields, field_bytes = list[File](), dict[str, list[str]](), 0
    try:
        with PushMultipartParser(request.content_type[1].get("boundary", ""), max_segment_count=_PARTS) as parser:
            async for piece in request.stream():
                for event in parser.parse(piece) if piece and not parser.closed else ():
                    if isinstance(event, MultipartSegment):  # a part's head; then come its pieces, and None
                        part, body = event, open_.enter_context(SpooledTemporaryFile(IN_MEMORY))  # noqa: SIM115
                    elif event:
                        field_bytes += 0 if part.filename else len(event)
                        if field_bytes > _FIELD_BYTES:
                            raise too_large(
                                f"the fields beside the files have more than {_FIELD_BYTES} bytes", _FIELD_BYTES
                            )
                        await beside(body.tell() + len(event) > IN_MEMORY, body.write, event)
                    else:
                        size = _rewound(body)
                        if part.filename:
                            kind = part.header("Content-Type")
                            files.append(File(name=_named(part.filename), media_type=kind, body=body, size=size))
                        else:
                            fields.setdefault(part.name, []).append(_decoded(body.read(), part.charset, part.name))
    except MultipartError as error:
        raise Problem(400, f"the multipart body can't be read: {error}") from None
    if not files:
        raise invalid("file", "no file was sent; a multipart part needs a filename")
    if len(files) > MOST_FILES:
        raise invalid("file", f"{len(files)} files were sent, but at most {MOST_FILES} are allowed at once")
    return Upload(files, fields)


def _decoded(text: bytes, charset: str | None, name: str) -> str:
    """Return a field's text. Raises a 400 for a charset that isn't common: some take minutes, or make no text."""
    try:
        if codecs.lookup(charset or "utf-8").name in _CHARSETS:
            return text.decode(charset or "utf-8")
    except (ValueError, LookupError):  # an unknown one, one with a NUL, or a field that isn't in it
        pass
    raise invalid(name[:100], "is not text in its charset")


def _rewound(body: IO[bytes]) -> int:
    """Return the body's size in bytes, with its position reset to the start."""
    size = body.seek(0, 2)
    body.seek(0)
    return size


def _named(filename: str) -> str | None:
    return filename if filename.strip() else None


def _one(fields: Mapping[str, list[str]], name: str) -> str | None:
    """Return the field's value, None for a blank one. Raises a 400 for different ones: one of them would be lost."""
    values = [*dict.fromkeys(value for value in fields.get(name, ()) if value.strip())]
    if len(values) > 1:
        raise invalid(name, f"was sent more than once: {values[0][:100]!r}, {values[1][:100]!r}")
    return values[0] if values else None


def _heed(request: ApiRequest, fields: Mapping[str, list[str]]) -> None:
    """Warn of fields that are unknown or taken otherwise. Raises a 400 for an expression that wasn't evaluated."""
    warn_of_unknown(request, (name.removesuffix("[]") for name in fields), _FIELDS)
    for name, values in fields.items():
        for value in values:
            for field, sentence in lenient({name.removesuffix("[]"): value}, IngestBody)[1].items():
                warn(request, sentence, field)
            if name in ("source", "path") and not value.strip():
                warn(request, f"{name}: an empty text was taken as not given", name)
