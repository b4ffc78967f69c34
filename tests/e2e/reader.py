"""A reader that judges every hit, every page of a list and every count: I6 and I8 of correctness.md, section 8."""

import random
import threading
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import httpx

from tests.e2e.caller import Caller
from tests.e2e.documents import Document, Version
from tests.e2e.text import WORDS

HANG_S = 30.0  # a request that takes longer hangs: nobody still waits for it
PAGE = 3  # items: lists and chunks come in pieces


class Reader:
    """Reads as a tenant, and adds to `faults` what must not be seen. Each loop is one thread's."""

    def __init__(self, ask: Caller, tenant: str, documents: Sequence[Document], faults: list[str]) -> None:
        self.reads = 0
        self.refusals = 0  # answered 503
        self._ask = ask
        self._tenant = tenant
        self._documents = {document.id: document for document in documents if document.tenant == tenant}
        self._foreign = [document.id for document in documents if document.tenant != tenant]
        self._faults = faults

    def search_on(self, stop: threading.Event, every_s: float, rng: random.Random) -> None:
        """Search until told to stop, so often: one document, and now and then all of them."""
        for _ in _paced(stop, every_s):
            if rng.random() < 0.2:
                self._search_all(" ".join(rng.sample(WORDS.split(), 3)))
                continue
            document = rng.choice([*self._documents.values()])
            before = _standing(document)
            found = self.look(document)
            if found is not None:
                settled = _still(document, before)
                if settled is not None and found != settled:
                    self._fault(f"{document.path}: a search saw {_brief(found)}, and {_brief(settled)} stands there")

    def list_on(self, stop: threading.Event, every_s: float, rng: random.Random) -> None:
        """List documents, count one's chunks, and pry, until told to stop, so often."""
        for _ in _paced(stop, every_s):
            self._walk()
            self._count(rng.choice([*self._documents.values()]))
            self._pry(rng.choice(self._foreign) if self._foreign else None)

    def look(self, document: Document) -> Version | None:
        """Return what searches find of the document, all of it; None when it can't be said."""
        hits = self._hits({"query": document.path, "topK": 100, "filters": {"documentIds": [document.id]}})
        if hits is None:
            return None
        if strange := {hit["metadata"]["documentId"] for hit in hits} - {document.id}:
            self._fault(f"a search in {document.path} found {strange}")
        return self._version(document, hits)

    # -- what is asked

    def _search_all(self, query: str) -> None:
        by_document = defaultdict(list)
        for hit in self._hits({"query": query, "topK": 50}) or ():
            by_document[hit["metadata"]["documentId"]].append(hit)
        for name, hits in by_document.items():
            if (document := self._documents.get(name)) is None:
                self._fault_if_foreign(name, "a search")
                continue
            if len({hit["metadata"]["version"] for hit in hits}) > 1:
                self._fault(f"{document.path}: a search of all saw two versions")
            tried = [*document.tried]
            for hit in hits:
                metadata = hit["metadata"]
                if not any(_part_of(version, hit["text"], metadata) for version in tried):
                    self._fault(f"{document.path}: a search of all saw what never was: {metadata}")

    def _walk(self) -> None:
        """Go through the list of documents, page by page."""
        before = {name: _standing(document) for name, document in self._documents.items()}
        seen: dict[str, dict[str, Any]] = {}
        newest, cursor = "9", None
        while True:
            page = self._get("/rag/documents", {"limit": PAGE} | ({"cursor": cursor} if cursor else {}))
            if page is None:
                return
            for item in page["items"]:
                name = item["documentId"]
                if name not in self._documents:
                    self._fault_if_foreign(name, "the list")
                    continue
                if name in seen or item["updatedAt"] > newest:
                    self._fault(f"the list has {item['path']} twice, or not in its place: {item}")
                if item["chunkCount"] not in {len(version.texts) for version in [*self._documents[name].tried]}:
                    self._fault(f"the list counts {item['chunkCount']} chunks of {item['path']}: never sent")
                seen[name], newest = item, item["updatedAt"]
            if (cursor := page["nextCursor"]) is None:
                break
        for name, document in self._documents.items():
            settled, item = _still(document, before[name]), seen.get(name)
            if settled is None:
                continue
            shown = (item["chunkCount"], item["title"], tuple(item["tags"])) if item else (0, "", ())
            if shown != (len(settled.texts), settled.title, settled.tags):
                self._fault(f"the list shows {shown} of {document.path}, and {_brief(settled)} stands there")

    def _count(self, document: Document) -> None:
        """Compare a document's count with its chunks, all pages of them."""
        before = _standing(document)
        first = self._get(f"/rag/documents/{document.id}", may=(404,))
        chunks = self._chunks(document)
        second = self._get(f"/rag/documents/{document.id}", may=(404,))
        if first is None or chunks is None or second is None:
            return
        found = self._version(document, chunks)
        settled = _still(document, before)
        if settled is not None and found is not None and found != settled:
            self._fault(f"{document.path}: its chunks are {_brief(found)}, and {_brief(settled)} stands there")
        if first == second and first["status"] != "accepted" and first["chunkCount"] != len(chunks):
            self._fault(f"{document.path}: chunkCount {first['chunkCount']}, and has {len(chunks)}")

    def _chunks(self, document: Document) -> list[dict[str, Any]] | None:
        """Return the chunks of one version, None when it went meanwhile."""
        chunks: list[dict[str, Any]] = []
        query: dict[str, Any] = {"limit": PAGE}
        while True:
            page = self._get(f"/rag/documents/{document.id}/chunks", query, may=(404, 409))
            if page is None:
                return None
            chunks += page["items"]
            if page["nextCursor"] is None:
                return chunks
            query["cursor"] = page["nextCursor"]

    def _pry(self, foreign: str | None) -> None:
        """Ask for another tenant's document by its id, and for nothing at all."""
        for kind in ("", "/chunks", "/text") if foreign else ():
            if self._get(f"/rag/documents/{foreign}{kind}", may=(404,)) is not None:
                self._fault(f"{foreign}{kind} was answered")
        for scope in ([foreign], []) if foreign else ([],):
            if hits := self._hits({"query": "lantern", "filters": {"documentIds": scope}}):
                self._fault(f"a search in {scope} found {len(hits)} chunks")

    # -- how

    def _version(self, document: Document, hits: Collection[dict[str, Any]]) -> Version | None:
        """Return which of the versions that were tried these chunks are, all of them; None, and a fault, if none."""
        found = sorted(hits, key=lambda hit: int(hit["metadata"]["chunkOrder"]))
        texts = tuple(hit["text"] for hit in found)
        whole = [hit["metadata"]["chunkOrder"] for hit in found] == [*range(len(found))]
        one = len({hit["metadata"]["version"] for hit in found}) <= 1
        for version in [*document.tried]:
            same = version.texts == texts and all(_part_of(version, hit["text"], hit["metadata"]) for hit in found)
            if whole and one and same:
                return version
        self._fault(f"{document.path}: a reader saw a mix or a gap: {[_of(hit) for hit in found]}")
        return None

    def _hits(self, body: dict[str, Any]) -> list[dict[str, Any]] | None:
        reply = self._answer("POST", "/rag/search", json=body)
        hits: list[dict[str, Any]] | None = None if reply is None else reply.json()["results"]
        return hits

    def _get(self, path: str, query: dict[str, Any] | None = None, may: Collection[int] = ()) -> dict[str, Any] | None:
        reply = self._answer("GET", path, may, params=query or {})
        found: dict[str, Any] | None = None if reply is None else reply.json()
        return found

    def _answer(self, method: str, path: str, may: Collection[int] = (), **request: Any) -> httpx.Response | None:
        """Return a 200; None for one of `may`, for a refusal that says when to come again, and when nobody is there."""
        try:
            reply = self._ask(method, path, HANG_S, **request)
        except httpx.ReadTimeout:
            self._fault(f"{method} {path} gave no answer in {HANG_S:g} s")
            return None
        if reply is None or reply.status_code in may:
            return None
        if reply.status_code == 503 and "retry-after" in reply.headers:
            self.refusals += 1
            return None
        if reply.status_code != 200:
            self._fault(f"{method} {path} answered {reply.status_code}: {reply.text[:200]}")
            return None
        self.reads += 1
        return reply

    def _fault_if_foreign(self, name: str, where: str) -> None:
        if name in self._foreign:  # else it is no document of this load
            self._fault(f"{where} has {name}, which is another tenant's")

    def _fault(self, sentence: str) -> None:
        self._faults.append(f"{self._tenant}: {sentence}")


def _paced(stop: threading.Event, every_s: float) -> Iterator[None]:
    """Yield so often until told to stop; a turn that takes longer delays the next one, and no later one."""
    due = time.monotonic()
    while not stop.wait(max(0.0, due - time.monotonic())):
        yield
        due = max(due + every_s, time.monotonic())


def _standing(document: Document) -> tuple[int, Version | None]:
    return document.epoch, document.settled  # in this order: see Document.begin


def _still(document: Document, before: tuple[int, Version | None]) -> Version | None:
    """Return what stood there for certain, if nothing was sent since."""
    epoch, settled = before
    return settled if document.epoch == epoch else None


def _part_of(version: Version, text: str, metadata: dict[str, Any]) -> bool:
    order = metadata["chunkOrder"]
    return (
        order < len(version.texts)
        and version.texts[order] == text
        and metadata["totalChunks"] == len(version.texts)
        and (metadata["title"], tuple(metadata["tags"]), metadata["shelf"])
        == (version.title, version.tags, version.shelf)
    )


def _brief(version: Version) -> str:
    return f"{len(version.texts)} chunks, {version.title!r}, {version.tags}, shelf {version.shelf}"


def _of(hit: dict[str, Any]) -> str:
    metadata = hit["metadata"]
    names = ("version", "chunkOrder", "totalChunks", "title", "tags", "shelf")
    return f"{[metadata[name] for name in names]} {hit['text'][:40]}"
