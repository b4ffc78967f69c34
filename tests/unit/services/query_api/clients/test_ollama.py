"""Whose contract a body sent to /api/chat is written in."""

from typing import Any

import pytest

from services.query_api.clients.ollama import speaks_ollama

WHEN: Any = [{"role": "user", "content": "When is the lantern lit?"}]


@pytest.mark.parametrize(
    "body",
    [
        {"model": "m", "messages": []},
        {"model": "m", "messages": WHEN, "stream": False, "options": {}, "format": "json", "keep_alive": "5m"},
        {"model": "m", "messages": WHEN, "think": False, "tools": [], "user": "u", "presence_penalty": 0},
        {"model": "m", "messages": WHEN, "system": None, "useRag": None},
    ],
)
def test_a_model_and_only_ollama_s_fields_mean_ollama(body: dict[str, Any]) -> None:
    assert speaks_ollama(body)


@pytest.mark.parametrize(
    "field",
    ["message", "useRag", "ragTopK", "ragFilters", "target", "system", "conversationId", "conversationHistory"],
)
def test_any_field_of_agentx_means_agentx(field: str) -> None:
    assert not speaks_ollama({"model": "m", "messages": WHEN, "stream": True, field: "x"})


@pytest.mark.parametrize("body", [{"messages": WHEN}, {}, [], "text"])
def test_a_body_without_a_model_is_agentx_s(body: Any) -> None:
    assert not speaks_ollama(body)
