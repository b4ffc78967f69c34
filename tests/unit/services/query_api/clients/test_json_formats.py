"""How clients ask for JSON, as the format that models are asked for."""

from typing import Any

import pytest

from services.query_api.clients.json_formats import ollama_format, openai_format
from services.query_api.clients.models import Choice
from services.query_api.http.problems import Problem
from shared.answers import JsonFormat

MODEL = Choice(model="llama3.2", rag=True, only_quotes=False)
QUOTES = Choice(model="extractive", rag=True, only_quotes=True)
SCHEMA = {"type": "object"}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, JsonFormat()),
        ({"type": "json_schema", "json_schema": {"schema": SCHEMA}}, JsonFormat(schema=SCHEMA)),
        (
            {
                "type": "json_schema",
                "json_schema": {"schema": SCHEMA, "name": "a", "description": "b", "strict": False},
            },
            JsonFormat(schema=SCHEMA, name="a", description="b", strict=False),
        ),
        ({"type": "json_schema", "schema": SCHEMA, "name": "a", "strict": None}, JsonFormat(schema=SCHEMA, name="a")),
        ({"type": "json_schema", "schema": SCHEMA, "name": "", "description": 7}, JsonFormat(schema=SCHEMA)),
    ],
)
def test_both_of_openai_s_apis_are_read(given: Any, wanted: JsonFormat | None) -> None:
    assert openai_format(given, MODEL, "f") == wanted


@pytest.mark.parametrize(
    ("given", "wanted"), [(None, None), ("", None), ("json", JsonFormat()), (SCHEMA, JsonFormat(schema=SCHEMA))]
)
def test_ollama_s_is_a_word_or_a_schema(given: Any, wanted: JsonFormat | None) -> None:
    assert ollama_format(given, MODEL) == wanted


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("json", "f: must be an object"),
        ({}, "f.type: is None; allowed are: text, json_object, json_schema"),
        ({"type": "json_schema"}, "f.schema: must be a JSON Schema, an object"),
        ({"type": "json_schema", "json_schema": None}, "f.json_schema: must be an object"),
        ({"type": "json_schema", "json_schema": {"schema": True}}, "f.json_schema.schema: must be a JSON Schema"),
    ],
)
def test_another_form_is_a_400_that_names_the_field(given: Any, said: str) -> None:
    with pytest.raises(Problem, match=said) as refused:
        openai_format(given, MODEL, "f")

    assert refused.value.status == 400


@pytest.mark.parametrize("given", ["yaml", 7, ["json"], True])
def test_another_ollama_format_is_a_400(given: Any) -> None:
    with pytest.raises(Problem, match='format: must be a JSON Schema, an object or "json"'):
        ollama_format(given, MODEL)


def test_a_model_that_only_quotes_writes_prose_and_no_json() -> None:
    assert openai_format({"type": "text"}, QUOTES, "f") is None
    assert ollama_format(None, QUOTES) is None
    with pytest.raises(Problem, match="f: extractive only quotes documents; JSON needs a language model"):
        openai_format({"type": "json_object"}, QUOTES, "f")
    with pytest.raises(Problem, match="format: extractive only quotes documents"):
        ollama_format(SCHEMA, QUOTES)
