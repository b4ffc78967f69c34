from typing import Any

import msgspec

from services.query_api.search.candidates import Candidate, LegRank, distinct, join
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
