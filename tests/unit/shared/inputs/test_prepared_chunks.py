"""Chunks that their caller has made: what is read of them, and what is said of those that can't be taken."""

from typing import Any

import pytest

from shared.contracts import Note, PreparedChunk
from shared.inputs.prepared_chunks import LONGEST, MOST_CHUNKS, SkippedChunk, body_of, prepared_chunks

SEED = {
    "metadata": {"chunk_id": "arch_attraction_001", "author": "K"},
    "languageVariants": {"de": {"text": "Ein Satz."}, "en": {"text": "A line to begin with."}},
    "embeddingStrings": {"semantic": "opening line for the attraction phase"},
    "tags": {"phase": 1, "goal": "attraction", "type": "opener"},
    "is_active": True,
}


@pytest.mark.feature(36, 37, 38)
def test_a_chunk_file_of_the_seeds_is_read_whole() -> None:
    [chunk] = prepared_chunks([SEED]).chunks

    assert chunk.text == "A line to begin with."
    assert chunk.embedding == "opening line for the attraction phase"
    assert chunk.metadata == {
        "chunk_id": "arch_attraction_001",
        "author": "K",
        "phase": 1,
        "goal": "attraction",
        "type": "opener",
        "is_active": True,
        "languageVariants": SEED["languageVariants"],
    }


@pytest.mark.feature(30)
@pytest.mark.parametrize(
    ("value", "chunk"),
    [
        ("only text ", PreparedChunk(text="only text")),
        ({"content": "a"}, PreparedChunk(text="a")),
        ({"text_content": "a", "embeddingText": "b"}, PreparedChunk(text="a", embedding="b")),
        ({"text": "a", "embeddingText": "a"}, PreparedChunk(text="a")),
        ({"text": "a", "id": 7}, PreparedChunk(text="a", metadata={"chunk_id": 7})),
        ({"text": "a", "tags": ["x", " x", "", "y"]}, PreparedChunk(text="a", tags=("x", "y"))),
        ({"text": "a", "summary": "s"}, PreparedChunk(text="a", metadata={"summary": "s"})),
        (
            {"text": "a", "metadata": {"pageNumber": 3, "sectionTitle": "S", "chunkType": "table"}},
            PreparedChunk(
                text="a",
                page=3,
                section="S",
                type="table",
                metadata={"pageNumber": 3, "sectionTitle": "S", "chunkType": "table"},
            ),
        ),
        ({"languageVariants": {"fr": "un"}}, PreparedChunk(text="un", metadata={"languageVariants": {"fr": "un"}})),
    ],
)
def test_other_shapes(value: Any, chunk: PreparedChunk) -> None:
    assert prepared_chunks([value]).chunks == (chunk,)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (None, "a chunk must be an object or a string"),
        ([], "a chunk must be an object or a string"),
        ({}, "text is missing"),
        ({"text": " \n"}, "text is empty"),
        ({"text": 5}, "text must be a string, not 5"),
        ({"text": "x" * (LONGEST + 1)}, f"text has {LONGEST + 1} characters, but at most {LONGEST} are allowed"),
        ({"text": "a", "embeddingText": " "}, "embeddingText is empty"),
        ({"text": "a", "embeddingStrings": "b"}, "embeddingStrings must be an object, not 'b'"),
        ({"text": "a", "embeddingStrings": {"semantic": 1}}, "embeddingStrings.semantic must be a string, not 1"),
        ({"languageVariants": []}, "languageVariants must be an object of languages, not []"),
        ({"languageVariants": {"en": {}}}, "text is missing"),
        ({"text": "a", "metadata": [1]}, "metadata must be an object, not [1]"),
        ({"text": "a", "metadata": {"n": 2**63}}, "metadata.n is an integer beyond 64 bits; send it as a string"),
        ({"text": "a", "is_active": "yes"}, "is_active must be true or false, not 'yes'"),
        ({"text": "a", "page": 0}, "pageNumber must be an integer from 1, not 0"),
        ({"text": "a", "page": True}, "pageNumber must be an integer from 1, not True"),
        ({"text": "a", "page": 2**63}, f"pageNumber must be at most {2**31 - 1}, not {2**63}"),
        ({"text": "a", "section": "s" * 20_001}, "sectionTitle must be at most 20000 characters long, not 'longer'"),
        ({"text": "a", "section": 1}, "sectionTitle must be a string, not 1"),
        ({"text": "a", "tags": "x"}, "tags must be a list of strings, or an object"),
        ({"text": "a", "tags": {"phase": [1]}}, "tags.phase must be a string or an integer, not [1]"),
        ({"text": "a", "tags": {"phase": 1}, "metadata": {"phase": 2}}, "tags.phase is 1, and metadata.phase 2"),
    ],
)
def test_what_cannot_be_taken_says_why_and_the_others_go_on(value: Any, error: str) -> None:
    found = prepared_chunks(["before", value, "after"])

    assert [chunk.text for chunk in found.chunks] == ["before", "after"]
    assert found.skipped == (SkippedChunk(index=1, error=error),)
    assert found.notes == (Note(code="chunk", place="chunk 1", message=f"chunk 1 was left out: {error}"),)


def test_an_id_names_one_chunk() -> None:
    found = prepared_chunks([{"id": "x", "text": "a"}, {"chunk_id": "x", "text": "b"}])

    assert found.skipped == (SkippedChunk(index=1, error="chunk 0 has the same id", id="x"),)
    assert [each.place for each in found.notes] == ["chunk 1 (x)"]


@pytest.mark.feature(35)
def test_what_is_not_active_is_left_out_without_being_wrong() -> None:
    found = prepared_chunks([{"text": "a", "is_active": False}, {"text": "b", "metadata": {"is_active": False}}, "c"])

    assert [chunk.text for chunk in found.chunks] == ["c"]
    assert (found.skipped, found.inactive) == ((), 2)
    assert [each.message for each in found.notes] == ["2 of 3 chunks are not active"]


def test_a_document_has_so_many_chunks_and_no_more() -> None:
    found = prepared_chunks(["a"] * (MOST_CHUNKS + 1))

    assert len(found.chunks) == MOST_CHUNKS
    assert found.skipped == (
        SkippedChunk(
            index=MOST_CHUNKS, error=f"a document may have at most {MOST_CHUNKS} chunks, so the last 1 are left out"
        ),
    )


def test_equal_chunks_are_the_same_bytes_whatever_the_order_of_their_fields() -> None:
    assert body_of([{"text": "a", "id": 1}]) == body_of([{"id": 1, "text": "a"}])
    assert body_of(["a", "b"]) != body_of(["b", "a"])
