"""The reader sees what it is there to see: a load that finds nothing has looked."""

import json
from typing import Any

import httpx
import pytest

from tests.e2e.caller import Caller
from tests.e2e.documents import Document, Version
from tests.e2e.reader import Reader

OLD = Version(("a", "b"), "Old", ("red",), 1)
NEW = OLD._replace(texts=("a", "c"), title="New")


def hit(document: Document, order: int, version: Version = NEW, number: int = 2, **other: Any) -> dict[str, Any]:
    metadata = {
        "documentId": document.id,
        "version": number,
        "chunkOrder": order,
        "totalChunks": len(version.texts),
        "title": version.title,
        "tags": [*version.tags],
        "shelf": version.shelf,
    }
    return {"text": version.texts[order], "metadata": metadata | other}


class Site:
    """Answers with what it was given, by path."""

    def __init__(self, **answers: Any) -> None:
        self._answers = answers

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url="http://site", transport=httpx.MockTransport(self._answer), **options)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        name = request.url.path.rpartition("/")[2]
        given = self._answers.get(name, self._answers.get("other", 404))
        return httpx.Response(given) if isinstance(given, int) else httpx.Response(200, text=json.dumps(given))


def a_document() -> Document:
    document = Document("north", 1)
    for version in (OLD, NEW):
        document.begin(version)
        document.wanted = document.settled = version
    return document


def a_reader(site: Site, document: Document, faults: list[str]) -> Reader:
    return Reader(Caller(site, "north"), "north", [document, Document("south", 1)], faults)


MINE, THEIRS = a_document(), Document("south", 1)


@pytest.mark.parametrize(
    ("results", "told"),
    [
        ([hit(MINE, 0), hit(MINE, 1)], None),
        ([hit(MINE, 1), hit(MINE, 0)], None),
        ([hit(MINE, 0)], "a mix or a gap"),
        ([hit(MINE, 0, OLD, number=1), hit(MINE, 1)], "a mix or a gap"),
        ([hit(MINE, 0, number=1), hit(MINE, 1)], "a mix or a gap"),
        ([hit(MINE, 0, tags=[]), hit(MINE, 1, tags=[])], "a mix or a gap"),
        ([hit(MINE, 0), hit(MINE, 1, documentId=THEIRS.id)], "found"),
    ],
)
def test_a_search_in_a_document_sees_one_whole_version(results: list[dict[str, Any]], told: str | None) -> None:
    faults: list[str] = []

    found = a_reader(Site(search={"results": results}), MINE, faults).look(MINE)

    assert [told in fault for fault in faults] == [True] if told else (found, faults) == (NEW, [])


@pytest.mark.parametrize(
    ("results", "told"),
    [
        ([hit(MINE, 1)], None),
        ([hit(THEIRS, 1)], "another tenant's"),
        ([hit(MINE, 0, number=1), hit(MINE, 1)], "two versions"),
        ([hit(MINE, 1, totalChunks=3)], "what never was"),
    ],
)
def test_a_search_in_all_sees_parts_of_what_was_sent(results: list[dict[str, Any]], told: str | None) -> None:
    faults: list[str] = []

    a_reader(Site(search={"results": results}), MINE, faults)._search_all("lantern")

    assert [told in fault for fault in faults] == [True] if told else faults == []


ITEM = {
    "documentId": MINE.id,
    "path": MINE.path,
    "updatedAt": "2026-01-01",
    "chunkCount": 2,
    "title": "New",
    "tags": ["red"],
}


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ([ITEM], None),
        ([], "the list shows"),
        ([ITEM | {"title": "Old"}], "the list shows"),
        ([ITEM | {"chunkCount": 7}], "never sent"),
        ([ITEM, ITEM], "twice"),
        ([ITEM | {"documentId": THEIRS.id}], "another tenant's"),
    ],
)
def test_a_list_has_every_document_as_it_stands_once(items: list[dict[str, Any]], told: str | None) -> None:
    faults: list[str] = []

    a_reader(Site(documents={"items": items, "nextCursor": None}), MINE, faults)._walk()

    assert told in faults[0] if told else faults == []


@pytest.mark.parametrize(
    ("count", "chunks", "told"),
    [
        (2, [hit(MINE, 0), hit(MINE, 1)], None),
        (1, [hit(MINE, 0), hit(MINE, 1)], "chunkCount 1, and has 2"),
        (2, [hit(MINE, 0, OLD), hit(MINE, 1, OLD)], "stands there"),
    ],
)
def test_a_count_is_the_number_of_the_chunks(count: int, chunks: list[dict[str, Any]], told: str | None) -> None:
    faults: list[str] = []
    site = Site(chunks={"items": chunks, "nextCursor": None}, other={"status": "updated", "chunkCount": count})

    a_reader(site, MINE, faults)._count(MINE)

    assert told in faults[0] if told else faults == []


def test_what_another_tenant_has_is_not_there() -> None:
    faults: list[str] = []

    a_reader(Site(search={"results": [hit(THEIRS, 1)]}, other={}), MINE, faults)._pry(THEIRS.id)

    assert len(faults) == 5  # the document, its chunks, its text, and two searches


@pytest.mark.parametrize(("status", "faults"), [(503, 1), (500, 1), (404, 1)])
def test_a_refusal_says_when_to_come_again(status: int, faults: int) -> None:
    told: list[str] = []

    assert a_reader(Site(search=status), MINE, told).look(MINE) is None
    assert len(told) == faults
