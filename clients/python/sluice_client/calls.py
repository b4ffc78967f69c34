"""The API's calls as values, without I/O: what to send, and how to read the reply."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from sluice_client.types import Answer, Chunk, Document, Hit, NewDocument, Outcome

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)
BATCH = 500  # documents of one request
PAGE = 100


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and how its reply is read."""

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    params: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    wait_s: float = 0.0  # how long the server may take before it replies


class _Page(msgspec.Struct, Generic[T], rename="camel"):
    items: list[T]
    next_cursor: str | None = None


class _Results(msgspec.Struct):
    results: list[Hit]


def put(document: NewDocument, wait_s: float) -> Call[Outcome]:
    """Return the call that adds or replaces a document."""
    return Call(
        "POST", "/rag/ingest", _struct(Outcome), headers=_json(wait_s), content=_encoded(document), wait_s=wait_s
    )


def put_file(content: bytes, filename: str, fields: Mapping[str, Any], wait_s: float) -> Call[Outcome]:
    """Return the call that adds or replaces a document from a file's bytes."""
    headers = {**_prefer(wait_s), "Content-Type": str(fields.get("media_type") or "application/octet-stream")}
    params = {
        "source": fields.get("source"),
        "path": fields.get("path"),
        "title": fields.get("title"),
        "description": fields.get("description"),
        "tags": list(fields.get("tags") or ()) or None,
        "metadata": _encoded(fields["metadata"]).decode() if fields.get("metadata") else None,
        "keep": list(fields.get("keep") or ()) or None,
        "onConflict": fields.get("on_conflict"),
        "callbackUrl": fields.get("callback_url"),
    }
    return Call(
        "POST",
        "/rag/ingest/upload",
        _struct(Outcome),
        params={name: value for name, value in params.items() if value is not None},
        headers={**headers, "X-Filename": quote(filename)},
        content=content,
        wait_s=wait_s,
    )


def put_many(documents: Sequence[NewDocument], wait_s: float) -> Call[list[Outcome]]:
    """Return the call that adds or replaces several documents."""
    return Call(
        "POST",
        "/rag/ingest/batch",
        lambda reply: _items(reply, Outcome).items,
        headers={**_prefer(wait_s), "Content-Type": "application/x-ndjson"},
        content=b"\n".join(map(_encoded, documents)),
        wait_s=wait_s,
    )


def change(document_id: str, fields: Mapping[str, Any], etag: str | None, wait_s: float) -> Call[Outcome]:
    """Return the call that changes a document's title, description, tags or metadata."""
    headers = _json(wait_s) | ({"If-Match": etag} if etag else {})
    return Call("PATCH", _of(document_id), _struct(Outcome), headers=headers, content=_encoded(fields), wait_s=wait_s)


def delete(document_id: str, wait_s: float) -> Call[Outcome]:
    """Return the call that deletes a document."""
    return Call("DELETE", _of(document_id), _struct(Outcome), headers=_prefer(wait_s), wait_s=wait_s)


def document(document_id: str, submission: str | None = None) -> Call[Document]:
    """Return the call that shows a document, or how one of its submissions stands."""
    return Call("GET", _of(document_id), _struct(Document), params=_given(submission=submission))


def documents(cursor: str | None, filters: Mapping[str, Any]) -> Call[_Page[Document]]:
    """Return the call for one page of documents."""
    params = _given(cursor=cursor, limit=PAGE, **filters)
    return Call("GET", "/rag/documents", lambda reply: _items(reply, Document), params=params)


def chunks(document_id: str, cursor: str | None) -> Call[_Page[Chunk]]:
    """Return the call for one page of a document's passages."""
    params = _given(cursor=cursor, limit=PAGE)
    return Call("GET", _of(document_id, "/chunks"), lambda reply: _items(reply, Chunk), params=params)


def text(document_id: str) -> Call[str]:
    """Return the call for a document's extracted text."""
    return Call("GET", _of(document_id, "/text"), lambda reply: reply.text)


def original(document_id: str) -> Call[bytes]:
    """Return the call for a document as it was sent."""
    return Call("GET", _of(document_id, "/original"), lambda reply: reply.content)


def search(query: str, top_k: int, filters: Mapping[str, Any] | None, options: Mapping[str, Any]) -> Call[list[Hit]]:
    """Return the call that finds passages."""
    body = {"query": query, "topK": top_k, "filters": filters or {}, **options}
    return Call(
        "POST",
        "/rag/search",
        lambda reply: _decoded(reply, _Results).results,
        headers={"Content-Type": "application/json"},
        content=_encoded(body),
    )


def ask(question: str, top_k: int, filters: Mapping[str, Any] | None, options: Mapping[str, Any]) -> Call[Answer]:
    """Return the call that answers a question from the documents."""
    body = {"message": question, "useRag": True, "ragTopK": top_k, "ragFilters": filters or {}, **options}
    return Call(
        "POST",
        "/chat",
        _struct(Answer),
        headers={"Content-Type": "application/json"},
        content=_encoded(body),
        wait_s=300.0,  # a large model takes its time
    )


def _of(document_id: str, more: str = "") -> str:
    return f"/rag/documents/{quote(document_id, safe='')}{more}"


def _given(**params: Any) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def _prefer(wait_s: float) -> dict[str, str]:
    return {"Prefer": f"wait={wait_s:.0f}"}


def _json(wait_s: float) -> dict[str, str]:
    return {**_prefer(wait_s), "Content-Type": "application/json"}


def _encoded(value: Any) -> bytes:
    return msgspec.json.encode(value)


def _decoded(reply: httpx.Response, kind: type[T]) -> T:
    return msgspec.json.decode(reply.content, type=kind)


def _struct(kind: type[S]) -> Callable[[httpx.Response], S]:
    return lambda reply: _decoded(reply, kind)


def _items(reply: httpx.Response, kind: type[S]) -> _Page[S]:
    page = _decoded(reply, _Page[Any])
    return _Page(items=msgspec.convert(page.items, list[kind]), next_cursor=page.next_cursor)  # type: ignore[valid-type]  # a type made at run time
