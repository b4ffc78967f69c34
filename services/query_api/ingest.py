"""The doors for documents: JSON, plain text, files."""

import asyncio
import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import msgspec
from litestar import Response, post
from litestar.datastructures import UploadFile
from litestar.di import NamedDependency
from litestar.exceptions import ClientException
from litestar.openapi.spec import OpenAPIMediaType, OpenAPIType, Operation, RequestBody, Schema
from litestar.openapi.spec.enums import OpenAPIFormat
from litestar.params import JSONBody

from services.query_api.auth import needs
from services.query_api.door import Door, Ended, Receipt
from services.query_api.problems import Problem, invalid
from services.query_api.request import FORM, ApiRequest, content_type, metadata_of, name_of, tags_of, wait_of
from shared.contracts import DocumentSubmitted
from shared.errors import PipelineError

LOOK_BACK_S = 1  # when to ask again about a document that isn't done
MOST_FILES = 100  # of one request


class IngestBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A document. `source` and `path` name it: the same ones again replace it."""

    source: str
    path: str
    text: str
    title: str | None = None
    description: str | None = None
    tags: list[str] | str | None = None
    metadata: dict[str, Any] | str | None = None
    hash: str | None = None


class TextBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A text that needs no name; its title, else its content, becomes one."""

    text: str
    title: str | None = None
    tags: list[str] | str | None = None
    metadata: dict[str, Any] | str | None = None


class IngestReply(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How the submission stands: accepted, created, updated, unchanged, deleted, failed."""

    status: str
    document_id: str | None = None
    chunk_count: int | None = None
    message: str | None = None
    source_id: str | None = None
    chunks_created: int | None = None
    file: str | None = None
    error: str | None = None
    code: str | None = None


class UploadReply(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How each file of one request stands."""

    message: str
    items: list[IngestReply]


class File(msgspec.Struct, frozen=True, kw_only=True):
    """A file as it was sent."""

    name: str | None
    media_type: str | None
    content: bytes


@post("/rag/ingest", operation_id="rag_ingest", guards=[needs("ingest")], status_code=200)
async def rag_ingest(
    data: JSONBody[IngestBody], request: ApiRequest, door: NamedDependency[Door]
) -> Response[IngestReply]:
    """Add a document, or replace the one of the same source and path."""
    document = DocumentSubmitted(
        tenant=request.user.tenant,
        source=name_of(data.source, "source", 200),
        path=name_of(data.path, "path", 2000),
        text=_text_of(data.text),
        title=_title_of(data.title),
        description=data.description,
        tags=tags_of(data.tags),
        metadata=metadata_of(data.metadata),
        hash=data.hash,
        submitted_at=_now_ms(),
    )
    return await taken(request, door, document)


@post("/rag/ingest/text", operation_id="rag_ingest_text", guards=[needs("ingest")], status_code=200)
async def rag_ingest_text(
    data: JSONBody[TextBody], request: ApiRequest, door: NamedDependency[Door]
) -> Response[IngestReply]:
    """Add a text under its title."""
    text, title = _text_of(data.text), _title_of(data.title)
    document = DocumentSubmitted(
        tenant=request.user.tenant,
        source="text",
        path=name_of(title or _content_name(text.encode()), "title", 2000),
        text=text,
        title=title,
        tags=tags_of(data.tags),
        metadata=metadata_of(data.metadata),
        submitted_at=_now_ms(),
    )
    return await taken(request, door, document, wordy=True)


@dataclass
class UploadOperation(Operation):
    """Describes the one body that no type annotation can."""

    def __post_init__(self) -> None:
        """Fill in the request's content types."""
        text = Schema(type=OpenAPIType.STRING)
        form = Schema(
            type=OpenAPIType.OBJECT,
            properties={
                "file": Schema(
                    type=OpenAPIType.STRING, format=OpenAPIFormat.BINARY, description="Any field name will do."
                ),
                **dict.fromkeys(("source", "path", "title", "metadata"), text),
                "tags": Schema(type=OpenAPIType.ARRAY, items=text),
            },
        )
        raw = Schema(type=OpenAPIType.STRING, format=OpenAPIFormat.BINARY)
        self.request_body = RequestBody(
            content={"multipart/form-data": OpenAPIMediaType(form), "application/octet-stream": OpenAPIMediaType(raw)},
            required=True,
        )


@post(
    "/rag/ingest/upload",
    operation_id="rag_ingest_upload",
    operation_class=UploadOperation,
    guards=[needs("ingest")],
    status_code=200,
)
async def rag_ingest_upload(
    request: ApiRequest, door: NamedDependency[Door]
) -> Response[IngestReply] | Response[UploadReply]:
    """Add files: multipart under any field name, or one raw body with its content type and X-Filename."""
    kind = content_type(request)
    if kind == "multipart/form-data":
        files, fields = await _multipart(request)
    elif kind == FORM:
        raise invalid("file", f"a form has no files when it is sent as {FORM}; send multipart/form-data")
    else:
        name = request.headers.get("x-filename", "")
        files = [
            File(
                name=_named(unquote(name.encode("latin-1").decode("utf-8", "replace"))),
                media_type=request.headers.get("content-type"),
                content=await request.body(),
            )
        ]
        fields = {key: request.query_params.getall(key) for key in request.query_params}
    if len(files) == 1:
        return await taken(request, door, _document(request.user.tenant, files[0], fields), wordy=True)
    if fields.get("path"):
        raise invalid("path", f"names one document, but {len(files)} files were sent")
    return await _taken_all(request, door, files, fields)


async def taken(
    request: ApiRequest, door: Door, document: DocumentSubmitted, *, wordy: bool = False
) -> Response[IngestReply]:
    """Submit the document and return how it stands when it is done, or when the caller's patience ends.

    Raises:
        Problem: 422, the document can't be processed; 503, it couldn't be taken.
    """
    wait_s, headers = wait_of(request)
    receipt = await door.submit(document)
    ended = await door.end(receipt, wait_s)
    if ended is None:
        return accepted(request, receipt, headers)
    last = ended.entry.last
    if last.status == "failed":
        raise Problem(
            422,
            last.error or "the document could not be processed",
            code=(last.code or "failed").upper(),
            details={"documentId": receipt.document_id, "status": "failed"},
            headers=headers,
        )
    return Response(_reply(receipt, ended, wordy=wordy), headers=headers)


def accepted(request: ApiRequest, receipt: Receipt, headers: Mapping[str, str]) -> Response[IngestReply]:
    """Return the 202 that says where to look for the end."""
    prefix = "/api" if request.scope["path"].startswith("/api/") else ""
    location = f"{prefix}/rag/documents/{receipt.document_id}"
    return Response(
        IngestReply(status="accepted", document_id=receipt.document_id),
        status_code=202,
        headers={"Location": location, "Retry-After": str(LOOK_BACK_S), **headers},
    )


async def _taken_all(
    request: ApiRequest, door: Door, files: Sequence[File], fields: Mapping[str, list[str]]
) -> Response[UploadReply]:
    """Submit every file; one that is refused or fails says so in its item and doesn't stop the others."""
    wait_s, headers = wait_of(request)

    async def one(file: File) -> IngestReply:
        try:
            receipt = await door.submit(_document(request.user.tenant, file, fields))
        except (Problem, PipelineError) as error:
            return IngestReply(status="failed", file=file.name, error=error.sentence, code=error.code.upper())
        ended = await door.end(receipt, wait_s)
        if ended is None:
            return IngestReply(status="accepted", document_id=receipt.document_id, file=file.name)
        return msgspec.structs.replace(_reply(receipt, ended, wordy=True), file=file.name)

    items = await asyncio.gather(*(one(file) for file in files))
    failed = sum(item.status == "failed" for item in items)
    if failed == len(items):
        # A caller that looks at the status alone must not take this for success.
        raise Problem(422, f"none of the {failed} files could be processed", details={"items": items}, headers=headers)
    message = f"{len(items) - failed} of {len(items)} files taken"
    status = 202 if any(item.status == "accepted" for item in items) else 200
    return Response(UploadReply(message=message, items=list(items)), status_code=status, headers=headers)


def _reply(receipt: Receipt, ended: Ended, *, wordy: bool) -> IngestReply:
    last, count = ended.entry.last, ended.chunk_count
    if last.status == "deleted":
        return IngestReply(status="deleted", document_id=receipt.document_id)
    reply = IngestReply(status=last.status, document_id=receipt.document_id, chunk_count=count)
    if last.status == "failed":
        return msgspec.structs.replace(reply, chunk_count=None, error=last.error, code=(last.code or "failed").upper())
    if not wordy:
        return reply
    message = f"document {last.status}, {count} chunk{'' if count == 1 else 's'}"
    return msgspec.structs.replace(reply, message=message, source_id=receipt.document_id, chunks_created=count)


def _document(tenant: str, file: File, fields: Mapping[str, list[str]]) -> DocumentSubmitted:
    if not file.content:
        raise invalid("file", f"{file.name} is empty" if file.name else "the body is empty")
    path = _last(fields, "path") or file.name or _content_name(file.content)
    tags = [tag for value in fields.get("tags", []) + fields.get("tags[]", []) for tag in tags_of(value)]
    return DocumentSubmitted(
        tenant=tenant,
        source=name_of(_last(fields, "source") or "upload", "source", 200),
        path=name_of(path, "path", 2000),
        content=file.content,
        media_type=file.media_type,
        filename=file.name,
        title=_title_of(_last(fields, "title")),
        description=_last(fields, "description"),
        tags=tags_of(tags),
        metadata=metadata_of(_last(fields, "metadata")),
        hash=_last(fields, "hash"),
        submitted_at=_now_ms(),
    )


async def _multipart(request: ApiRequest) -> tuple[list[File], dict[str, list[str]]]:
    try:
        form = await request.form()
    except ClientException as error:
        if error.status_code == 413:
            raise
        raise Problem(400, f"the multipart body can't be read: {error.detail}") from None
    except (UnicodeDecodeError, LookupError):  # LookupError: a part names an unknown charset
        raise Problem(400, "the multipart body can't be read: a field is not text in its charset") from None
    files: list[File] = []
    fields: dict[str, list[str]] = {}
    for name, value in form.items():  # in their order, unlike `multi_items`
        if isinstance(value, UploadFile):
            # The framework calls a part without a type text/plain; its headers know better.
            declared = {key.lower(): each for key, each in value.headers.items()}.get("content-type")
            files.append(
                File(
                    name=_named(value.filename),
                    media_type=declared,
                    content=await value.read(),
                )
            )
        else:
            fields.setdefault(name, []).append(value)
    if not files:
        raise invalid("file", "no file was sent; a multipart part needs a filename")
    if len(files) > MOST_FILES:
        raise invalid("file", f"{len(files)} files were sent, at most {MOST_FILES} are possible at once")
    return files, fields


def _text_of(text: str) -> str:
    if not text.strip():
        raise invalid("text", "must not be empty")
    return text


def _title_of(title: str | None) -> str | None:
    return name_of(title.strip(), "title", 1000) if title and title.strip() else None


def _named(filename: str) -> str | None:
    return filename if filename.strip() else None


def _content_name(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _last(fields: Mapping[str, list[str]], name: str) -> str | None:
    values = fields.get(name)
    return values[-1] if values and values[-1].strip() else None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
