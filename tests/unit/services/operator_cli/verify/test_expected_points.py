"""The oracle says a second time what the worker writes: by other code, and the same."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.embed_worker.points import chunk_points, head_of, sparse_text
from services.operator_cli.verify.expected_points import expected, misnamed, texts
from shared.contracts import ERASED, Chunk, DocumentVersion, with_header
from shared.ids import text_hash
from shared.store import Sparse
from tests.unit.services.operator_cli.verify.builders import NAME, a_version, chunks_of

words = st.text(max_size=6)
variants = st.dictionaries(words, words | st.fixed_dictionaries({"text": words | st.none()}), max_size=2)
versions = st.builds(
    a_version,
    title=st.none() | words,
    description=st.none() | words | st.just("long " * 300),
    url=st.none() | words,
    filename=st.none() | words,
    tags=st.lists(words, max_size=2).map(tuple),
    metadata=st.dictionaries(
        st.sampled_from(["colour", "tenant", "version", "text", "description", "file"]), st.integers() | words
    ),
    file=st.dictionaries(words, words | st.lists(words, max_size=2), max_size=2),
    language=st.none() | words,
    created_at=st.integers(0, 4_000_000_000_000),
    updated_at=st.integers(0, 4_000_000_000_000),
)
chunks = st.lists(
    st.builds(
        lambda text, section, page, before, header, embedding, more: Chunk(
            order=0,
            text=text,
            hash=text_hash(embedding or with_header(text, header)),
            embedding=embedding,
            tags=("own", "red"),
            metadata=more,
            semantic_score=0.5,
            start=0,
            end=len(text),
            tokens=3,
            section=section,
            page=page,
            context_before=before,
            table_header=header,
        ),
        st.sampled_from(["one", "two", "naïve"]),
        st.none() | words,
        st.none() | st.integers(1, 9),
        st.none() | words,
        st.none() | words,
        st.none() | st.just("meant"),
        st.dictionaries(
            st.sampled_from(["colour", "tenant", "tags", "phase", "tableHeader", "languageVariants"]), words | variants
        ),
    ),
    max_size=4,
).map(lambda made: tuple(msgspec.structs.replace(chunk, order=order) for order, chunk in enumerate(made)))


@given(document=versions, made=chunks)
def test_what_the_worker_writes_is_what_the_oracle_expects(document: DocumentVersion, made: tuple[Chunk, ...]) -> None:
    dense = [np.array([n, 1], np.float32) for n in range(len(made))]
    sparse = [Sparse([n], [1.0]) for n in range(len(made))]

    written = chunk_points(document, made, slice(0, len(made)), dense, sparse)
    wanted = expected(document, made, sparse)

    for point in written:
        del point.payload["metadata"]["vectorHash"]
    assert {point.id: (point.payload, point.sparse) for point in written} == {
        point.id: (point.payload, point.sparse) for point in wanted.points.values()
    }
    assert wanted.head == head_of(document, len(made))
    assert texts(document, made) == [sparse_text(document, chunk) for chunk in made]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"version": 6}, f"about {NAME}/6"),
        ({"document_id": "other"}, "about other/5"),
        ({"tenant": "thief"}, "thief's s/p has another id"),
    ],
)
def test_a_record_under_a_foreign_key_is_named(fields: dict[str, object], words: str) -> None:
    assert misnamed(a_version(), NAME, 5) is None
    assert words in (misnamed(a_version(**fields), NAME, 5) or "")


def test_an_erased_version_names_nothing_but_its_id() -> None:
    erased = {"raw_hash": ERASED, "outcome": "deleted", "source": "", "path": "", "title": None}

    assert misnamed(a_version(**erased), NAME, 5) is None
    for field in ("source", "path", "title"):
        assert "still contains 'x'" in (misnamed(a_version(**(erased | {field: "x"})), NAME, 5) or "")


def test_equal_chunks_are_told_apart_by_how_often_they_came() -> None:
    wanted = expected(a_version(), chunks_of("a", "b", "a"), [Sparse([1], [1.0])] * 3)

    assert len({point.payload["metadata"]["chunkId"] for point in wanted.points.values()}) == 3
