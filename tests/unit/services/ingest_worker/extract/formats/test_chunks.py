import json
from typing import Any

import pytest

from services.ingest_worker.extract import Extraction, Hints, extract
from shared.errors import Rejected
from shared.inputs.prepared_chunks import body_of


def _read(data: bytes) -> Extraction:
    return extract(data, Hints(filename="lines.json"))


def test_a_doors_chunks_are_their_texts_with_a_blank_line_between() -> None:
    read = _read(body_of(["First.\r\nStill.", {"text": "Se\u0301cond.", "embeddingText": "two"}, {"text": " "}]))

    assert read.text == "First.\nStill.\n\nSécond."
    assert [(chunk.text, chunk.embedding) for chunk in read.chunks] == [("First.\nStill.", None), ("Sécond.", "two")]
    assert [each.message for each in read.notes] == ["chunk 2 was left out: text is empty"]
    assert read.document_type == "chunks"


@pytest.mark.feature(67)
@pytest.mark.parametrize("wrapped", [lambda c: c, lambda c: [c], lambda c: {"chunks": [c]}])
def test_a_file_of_chunks_is_known_by_its_fields(wrapped: Any) -> None:
    chunk = {"languageVariants": {"en": {"text": "Hello."}}, "embeddingStrings": {"semantic": "greeting"}}

    [read] = _read(json.dumps(wrapped(chunk)).encode()).chunks

    assert (read.text, read.embedding) == ("Hello.", "greeting")


@pytest.mark.parametrize(
    "data", [b'{"text": "a"}', b'["embeddingStrings"]', b'{"embeddingStrings": nonsense', b'text "embeddingStrings"']
)
def test_other_json_is_no_file_of_chunks(data: bytes) -> None:
    assert _read(data).chunks == ()


@pytest.mark.parametrize(
    ("data", "code", "sentence"),
    [
        (
            body_of([{}, 5]),
            "invalid_chunks",
            "lines.json has no chunk to index: chunk 0 was left out: text is missing; chunk 1 was left out",
        ),
        (
            body_of([{"text": "a", "is_active": False}]),
            "empty",
            "lines.json has no chunk to index: 1 of 1 chunks are not act",
        ),
        (body_of([]), "empty", "lines.json has no chunk to index: its list is empty"),
        (b'{"sluiceChunks": [', "damaged", "lines.json is not valid JSON: "),
    ],
)
def test_without_a_chunk_it_is_refused(data: bytes, code: str, sentence: str) -> None:
    with pytest.raises(Rejected) as caught:
        _read(data)

    assert caught.value.code == code
    assert str(caught.value).startswith(sentence)
