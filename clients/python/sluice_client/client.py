"""The two clients. They share what is sent and read (`calls`) and when it is sent again (`retries`)."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import httpx
import msgspec

from sluice_client import calls
from sluice_client.calls import Call
from sluice_client.errors import SluiceError, SluiceUnreachableError
from sluice_client.retries import Tries
from sluice_client.types import Answer, Chunk, Document, Hit, NewDocument, Outcome

T = TypeVar("T")
URL: Final = "http://127.0.0.1:3000"
WAIT_S: Final = 30.0  # for a document to become searchable
PATIENCE_S: Final = 60.0  # for a server that is away or busy
REPLY_S: Final = 30.0  # for a reply, beyond what the server was asked to wait
LOOK_AGAIN_S: Final = 1.0


class Sluice:
    """A client that blocks. Use it as a context manager, or call `close`.

    `patience_s` is how long requests are repeated while the server is away or busy; it repeats them when the server
    says so. `http` replaces the connections, for proxies, certificates and tests; it is left open.
    """

    def __init__(
        self,
        url: str = URL,
        *,
        key: str | None = None,
        patience_s: float = PATIENCE_S,
        http: httpx.Client | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        self._headers = _headers(key)
        self._patience_s = patience_s
        self._http = http or httpx.Client()
        self._owned = http is None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections, unless they were given."""
        if self._owned:
            self._http.close()

    def put(self, source: str, path: str, text: str | None = None, *, wait_s: float = WAIT_S, **fields: Any) -> Outcome:
        """Add a document or replace the one with this source and path; `fields` are those of `NewDocument`.

        Its status is `accepted` if the document isn't searchable within `wait_s` seconds; `wait` waits for longer.

        Raises:
            SluiceError: the document was refused or failed.
        """
        return self._run(calls.put(NewDocument(source=source, path=path, text=text, **fields), wait_s))

    def put_file(
        self, source: str, file: Path | str, *, path: str | None = None, wait_s: float = WAIT_S, **fields: Any
    ) -> Outcome:
        """Add or replace a document from a file of any format; its path is the file's name unless given.

        `fields` are title, description, tags, metadata, media_type, keep, on_conflict and callback_url.
        """
        file = Path(file)
        named = {"source": source, "path": path or file.name, **fields}
        return self._run(calls.put_file(file.read_bytes(), file.name, named, wait_s))

    def put_many(self, documents: Iterable[NewDocument], *, wait_s: float = WAIT_S) -> list[Outcome]:
        """Add or replace documents, and return an outcome for each; one that failed has `error` and stops no other."""
        outcomes: list[Outcome] = []
        for batch in _batches(documents):
            try:
                ended = self._run(calls.put_many(batch, wait_s))
                outcomes += ended
            except SluiceError as error:
                outcomes += _all_failed(error)
        return outcomes

    def wait(self, outcome: Outcome, *, timeout_s: float = 600.0) -> Outcome:
        """Return how a submission ended that was `accepted`.

        Raises:
            SluiceError: the document failed. TimeoutError: it hasn't ended in `timeout_s` seconds.
        """
        until = time.monotonic() + timeout_s
        while not outcome.ended and outcome.document_id is not None:
            if time.monotonic() > until:
                raise TimeoutError(f"document {outcome.document_id} is still being processed after {timeout_s:g} s")
            time.sleep(LOOK_AGAIN_S)  # this client blocks its caller; the server keeps no connection for it
            outcome = _stands(outcome, self._run(calls.document(outcome.document_id, outcome.submission)))
        return outcome

    def change(self, document_id: str, *, etag: str | None = None, wait_s: float = WAIT_S, **fields: Any) -> Outcome:
        """Change only title, description, tags or metadata; None removes a field. `etag` guards against others."""
        return self._run(calls.change(document_id, fields, etag, wait_s))

    def delete(self, document_id: str, *, wait_s: float = WAIT_S) -> Outcome:
        """Delete a document."""
        return self._run(calls.delete(document_id, wait_s))

    def document(self, document_id: str) -> Document:
        """Return a document with all that is known of it."""
        return self._run(calls.document(document_id))

    def find(self, source: str, path: str) -> Document | None:
        """Return the document with this name, None if there is none."""
        page = self._run(calls.documents(None, {"source": source, "path": path}))
        return page.items[0] if page.items else None

    def documents(self, **filters: Any) -> Iterator[Document]:
        """Yield documents, last changed first; filters are those of `GET /rag/documents`: source, tags, q, state …"""
        cursor: str | None = None
        while True:
            page = self._run(calls.documents(cursor, filters))
            yield from page.items
            if (cursor := page.next_cursor) is None:
                return

    def chunks(self, document_id: str) -> Iterator[Chunk]:
        """Yield a document's passages in reading order."""
        cursor: str | None = None
        while True:
            page = self._run(calls.chunks(document_id, cursor))
            yield from page.items
            if (cursor := page.next_cursor) is None:
                return

    def text(self, document_id: str) -> str:
        """Return a document's extracted text, as Markdown or plain."""
        return self._run(calls.text(document_id))

    def original(self, document_id: str) -> bytes:
        """Return a document as it was sent. The error's code is NOT_KEPT once the server doesn't have it."""
        return self._run(calls.original(document_id))

    def search(
        self, query: str, *, top_k: int = 5, filters: Mapping[str, Any] | None = None, **options: Any
    ) -> list[Hit]:
        """Return the passages that fit best, best first; options are the API's: minScore, mode, diversity, expand …"""
        return self._run(calls.search(query, top_k, filters, options))

    def ask(self, question: str, *, top_k: int = 5, filters: Mapping[str, Any] | None = None, **options: Any) -> Answer:
        """Return an answer from the documents, with citations; options are the API's: model, conversationHistory …"""
        return self._run(calls.ask(question, top_k, filters, options))

    def _run(self, call: Call[T]) -> T:
        tries = Tries(self._patience_s)
        while True:
            try:
                reply = self._http.request(**_request(self._url, self._headers, call))
            except httpx.TransportError as error:
                pause_s: float | None = tries.after_break(error, self._url)
            else:
                pause_s = tries.after_reply(reply)
                if pause_s is None:
                    return call.read(reply)
            time.sleep(pause_s or 0.0)  # as the server asked, or longer after each broken connection


class AsyncSluice:
    """A client that awaits; the methods are those of `Sluice`."""

    def __init__(
        self,
        url: str = URL,
        *,
        key: str | None = None,
        patience_s: float = PATIENCE_S,
        http: httpx.AsyncClient | None = None,
    ) -> None:
        self._url = url.rstrip("/")
        self._headers = _headers(key)
        self._patience_s = patience_s
        self._http = http or httpx.AsyncClient()
        self._owned = http is None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections, unless they were given."""
        if self._owned:
            await self._http.aclose()

    async def put(
        self, source: str, path: str, text: str | None = None, *, wait_s: float = WAIT_S, **fields: Any
    ) -> Outcome:
        """Do as `Sluice.put`."""
        return await self._run(calls.put(NewDocument(source=source, path=path, text=text, **fields), wait_s))

    async def put_file(
        self, source: str, file: Path | str, *, path: str | None = None, wait_s: float = WAIT_S, **fields: Any
    ) -> Outcome:
        """Do as `Sluice.put_file`."""
        file = Path(file)
        named = {"source": source, "path": path or file.name, **fields}
        content = await asyncio.to_thread(file.read_bytes)
        return await self._run(calls.put_file(content, file.name, named, wait_s))

    async def put_many(self, documents: Iterable[NewDocument], *, wait_s: float = WAIT_S) -> list[Outcome]:
        """Do as `Sluice.put_many`."""
        outcomes: list[Outcome] = []
        for batch in _batches(documents):
            try:
                ended = await self._run(calls.put_many(batch, wait_s))
                outcomes += ended
            except SluiceError as error:
                outcomes += _all_failed(error)
        return outcomes

    async def wait(self, outcome: Outcome, *, timeout_s: float = 600.0) -> Outcome:
        """Do as `Sluice.wait`."""
        async with asyncio.timeout(timeout_s):
            while not outcome.ended and outcome.document_id is not None:
                await asyncio.sleep(LOOK_AGAIN_S)
                outcome = _stands(outcome, await self._run(calls.document(outcome.document_id, outcome.submission)))
        return outcome

    async def change(
        self, document_id: str, *, etag: str | None = None, wait_s: float = WAIT_S, **fields: Any
    ) -> Outcome:
        """Do as `Sluice.change`."""
        return await self._run(calls.change(document_id, fields, etag, wait_s))

    async def delete(self, document_id: str, *, wait_s: float = WAIT_S) -> Outcome:
        """Delete a document."""
        return await self._run(calls.delete(document_id, wait_s))

    async def document(self, document_id: str) -> Document:
        """Return a document with all that is known of it."""
        return await self._run(calls.document(document_id))

    async def find(self, source: str, path: str) -> Document | None:
        """Return the document with this name, None if there is none."""
        page = await self._run(calls.documents(None, {"source": source, "path": path}))
        return page.items[0] if page.items else None

    async def documents(self, **filters: Any) -> AsyncIterator[Document]:
        """Do as `Sluice.documents`."""
        cursor: str | None = None
        while True:
            page = await self._run(calls.documents(cursor, filters))
            for document in page.items:
                yield document
            if (cursor := page.next_cursor) is None:
                return

    async def chunks(self, document_id: str) -> AsyncIterator[Chunk]:
        """Yield a document's passages in reading order."""
        cursor: str | None = None
        while True:
            page = await self._run(calls.chunks(document_id, cursor))
            for chunk in page.items:
                yield chunk
            if (cursor := page.next_cursor) is None:
                return

    async def text(self, document_id: str) -> str:
        """Return a document's extracted text, as Markdown or plain."""
        return await self._run(calls.text(document_id))

    async def original(self, document_id: str) -> bytes:
        """Do as `Sluice.original`."""
        return await self._run(calls.original(document_id))

    async def search(
        self, query: str, *, top_k: int = 5, filters: Mapping[str, Any] | None = None, **options: Any
    ) -> list[Hit]:
        """Do as `Sluice.search`."""
        return await self._run(calls.search(query, top_k, filters, options))

    async def ask(
        self, question: str, *, top_k: int = 5, filters: Mapping[str, Any] | None = None, **options: Any
    ) -> Answer:
        """Do as `Sluice.ask`."""
        return await self._run(calls.ask(question, top_k, filters, options))

    async def _run(self, call: Call[T]) -> T:
        tries = Tries(self._patience_s)
        while True:
            try:
                reply = await self._http.request(**_request(self._url, self._headers, call))
            except httpx.TransportError as error:
                pause_s: float | None = tries.after_break(error, self._url)
            else:
                pause_s = tries.after_reply(reply)
                if pause_s is None:
                    return call.read(reply)
            await asyncio.sleep(pause_s or 0.0)


def _headers(key: str | None) -> dict[str, str]:
    return {} if key is None else {"Authorization": f"Bearer {key}"}


def _request(url: str, headers: Mapping[str, str], call: Call[Any]) -> dict[str, Any]:
    return {
        "method": call.method,
        "url": f"{url}{call.path}",
        "params": dict(call.params),
        "headers": {"Accept": "application/json, */*", **headers, **call.headers},
        "content": call.content,
        "timeout": httpx.Timeout(REPLY_S + call.wait_s, connect=10.0),
    }


def _batches(documents: Iterable[NewDocument]) -> Iterator[Sequence[NewDocument]]:
    batch: list[NewDocument] = []
    for document in documents:
        batch.append(document)
        if len(batch) == calls.BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _all_failed(error: SluiceError) -> list[Outcome]:
    """Return the outcomes of a batch none of whose documents was accepted; raise any other error."""
    if isinstance(error, SluiceUnreachableError) or error.status != 422:
        raise error
    return msgspec.convert(error.details.get("items", []), list[Outcome])


def _stands(outcome: Outcome, document: Document) -> Outcome:
    """Return the outcome as the document's view tells it. Raises SluiceError if it failed."""
    if document.status == "failed":
        sentence = document.error or "the document could not be processed"
        raise SluiceError(sentence, status=422, code=document.code or "FAILED")
    if document.status == "accepted":
        return outcome
    return msgspec.structs.replace(
        outcome, status=document.status, submission=None, chunk_count=document.chunk_count or None
    )
