from typing import Any

import msgspec

from services.query_api.search.candidates import Candidate, Features, LegRank, distinct, join
from services.query_api.search.results import found_chunk
from shared.store import StoreHit


def a_hit(number: int, score: float, **metadata: Any) -> StoreHit:
    payload = {"text": f"text {number}", "metadata": {"documentId": "d", "chunkOrder": number, **metadata}}
    return StoreHit(f"id {number}", score, msgspec.Raw(msgspec.msgpack.encode(payload)), 0.5 if number else None)


def test_a_chunk_that_both_legs_found_is_one_candidate_with_both_ranks() -> None:
    found = join({"dense": [a_hit(1, 0.9), a_hit(0, 0.8)], "sparse": [a_hit(2, 7.0), a_hit(1, 6.0)]})

    assert [(each.id, each.text, each.cosine) for each in found] == [
        ("id 1", "text 1", 0.5),
        ("id 0", "text 0", 0.0),
        ("id 2", "text 2", 0.5),
    ]
    assert found[0].ranks == {"dense": LegRank(1, 0.9), "sparse": LegRank(2, 6.0)}


def test_the_description_is_compared_with_the_first_chunk_alone() -> None:
    named = {"title": "Lights", "description": "Of ships", "sectionTitle": None}

    first, second = join({"sparse": [a_hit(0, 2.0, **named), a_hit(1, 1.0, **named)]})

    assert (first.headings, second.headings) == (["Lights", "Of ships"], ["Lights"])


def test_a_title_that_is_only_the_files_name_tells_no_copies_apart() -> None:
    def hit(name: str, title: str) -> StoreHit:
        payload = {"text": "t", "metadata": {"documentId": name, "chunkOrder": 0, "title": title, "path": name}}
        return StoreHit(name, 1.0, msgspec.Raw(msgspec.msgpack.encode(payload)), 0.5)

    hits = [hit("a/one.txt", "one"), hit("b/two (1).txt", "two (1)"), hit("c/three.txt", "Tides"), hit("tides", "tide")]

    assert [each.id for each in distinct(join({"dense": hits}), {})] == ["a/one.txt", "c/three.txt", "tides"]


def test_a_text_of_several_documents_is_one_candidate_that_knows_the_others() -> None:
    first, copy, elsewhere, other, again = (
        Candidate(text, headings, id=id_, document_id=document, encoded=msgspec.Raw(id_.encode()))
        for id_, document, text, headings in (
            ("1", "d", "t", ["a"]),
            ("2", "e", "t", ["a"]),
            ("3", "e", "t", ["b"]),
            ("4", "e", "u", ["a"]),
            ("5", "d", "t", ["a"]),
        )
    )
    known: dict[tuple[str, ...], Candidate] = {}

    assert distinct([first, elsewhere, copy], known) == [first, elsewhere]
    assert distinct([other, copy, again], known) == [other, again]  # a document is found whole
    assert [bytes(each) for each in first.copies] == [b"2", b"2"]


def test_of_equal_texts_the_newest_is_shown_and_names_the_others() -> None:
    def raw(name: str, day: str) -> msgspec.Raw:
        metadata = {"documentId": name, "source": "s", "path": name, "chunkOrder": 0, "file": {"modified": day}}
        return msgspec.Raw(msgspec.msgpack.encode({"metadata": metadata}))

    copies = [raw("new", "2024-01-02T08:00:00Z"), raw("older", "2019-01-01")]
    found = Candidate("t", encoded=raw("old", "2020-01-01"), copies=copies, features=Features(0.5, 1.0, 0.0))

    metadata = found_chunk(found, by_words=False).metadata

    assert metadata["path"] == "new"
    assert [copy["path"] for copy in metadata["copies"]] == ["old", "older"]


def test_a_text_stays_in_the_file_whose_name_was_found() -> None:
    def hit(name: str, day: str) -> StoreHit:
        named = {"documentId": name, "chunkOrder": 0, "title": name, "path": f"{name}.txt", "file": {"modified": day}}
        return StoreHit(name, 1.0, msgspec.Raw(msgspec.msgpack.encode({"text": "t", "metadata": named})), 0.5)

    [found] = distinct(join({"sparse": [hit("Bob", "2020-01-01"), hit("Anna", "2024-01-01")]}), {})
    found.features = Features(0.5, 1.0, 0.0)

    metadata = found_chunk(found, by_words=False).metadata

    assert (metadata["title"], [copy["path"] for copy in metadata["copies"]]) == ("Bob", ["Anna.txt"])
