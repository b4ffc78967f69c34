"""Ready-made chunks: what is shown and what is embedded come out as they went in, and stand in the document's text."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.embed_worker.points import chunk_points
from services.ingest_worker.chunk import from_prepared
from services.ingest_worker.extract import Hints, extract
from services.ingest_worker.extract.clean import cleaned
from shared.ids import text_hash
from shared.inputs.prepared_chunks import body_of
from shared.state.index import EMBEDDED
from shared.store import Sparse
from tests.fakes.tokens import Characters
from tests.unit.services.operator_cli.verify.builders import a_version

_TEXTS = st.text(st.characters(codec="utf-8"), max_size=80).map(cleaned).filter(bool)


@pytest.mark.feature(216)
@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(_TEXTS, st.none() | _TEXTS), min_size=1, max_size=8))
def test_shown_and_embedded_text_survive_the_way_to_the_index(given_: list[tuple[str, str | None]]) -> None:
    body = body_of([{"text": text} | ({"embeddingText": other} if other else {}) for text, other in given_])

    read = extract(body, Hints())
    made = from_prepared(read.chunks, Characters(10**6, each=1))
    points = chunk_points(
        a_version(),
        made,
        slice(0, len(made)),
        [np.array([1], np.float32)] * len(made),
        [Sparse([], [])] * len(made),
    )

    assert [read.text[chunk.start : chunk.end] for chunk in made] == [text for text, _ in given_]
    assert [chunk.embedded for chunk in made] == [other or text for text, other in given_]
    for (text, other), point in zip(given_, points, strict=True):
        assert point.payload["text"] == text
        assert point.payload.get(EMBEDDED, text) == (other or text)
        assert point.payload["metadata"]["chunkHash"] == text_hash(other or text)


@given(st.text(st.characters(max_codepoint=0x7F), max_size=80))
def test_plain_text_is_cleaned_as_the_patterns_do(text: str) -> None:
    beside_a_letter_beyond_ascii = cleaned(f"{text}\xe9")

    assert cleaned(text) == beside_a_letter_beyond_ascii.removesuffix("\xe9").strip()
