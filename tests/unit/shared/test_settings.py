import re
from pathlib import Path

import pytest

from shared.settings import ConfigurationError, load_settings


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("SLUICE_MIN_SCORE", "SLUICE_GATE", "SLUICE_HISTORY"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.feature(143, 144, 145)
@pytest.mark.parametrize(
    ("environment", "least", "gate"),
    [
        ({}, 0.02, "each"),
        ({"RAG_RELEVANCE_THRESHOLD": "0.75"}, 0.75, "best"),
        ({"RAG_SIMILARITY_THRESHOLD": "0.7"}, 0.7, "each"),
        ({"RAG_SIMILARITY_THRESHOLD": "0.5"}, 0.5, "each"),
        ({"RAG_SIMILARITY_THRESHOLD": "0.5", "RAG_RELEVANCE_THRESHOLD": "0.75"}, 0.75, "best"),
        ({"RAG_RELEVANCE_THRESHOLD": "0.75", "SLUICE_MIN_SCORE": "0.1"}, 0.1, "each"),
        ({"RAG_RELEVANCE_THRESHOLD": ""}, 0.02, "each"),
    ],
)
def test_the_thresholds_of_older_systems_set_the_gate(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], least: float, gate: str
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    settings = load_settings()

    assert (settings.min_score, settings.gate) == (least, gate)


def test_the_bounded_history_of_older_systems_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_MAX_HISTORY", "3")

    assert load_settings().history == 3
    assert load_settings(history=7).history == 7


@pytest.mark.feature(245, 246, 247, 248, 249, 250)
def test_no_older_name_touches_what_an_index_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    before = load_settings()
    for name in ("CHUNK_SIZE", "CHUNK_OVERLAP", "EMBEDDING_MODEL", "GENERATION_MODEL", "VECTOR_STORE_PATH", "TOP_K"):
        monkeypatch.setenv(f"RAG_{name}", "17")
    for name in ("RAG_RETRIEVAL_COUNT", "CHUNK_SIZE_MIN", "CHUNK_SIZE_MAX", "CHUNK_OVERLAP"):
        monkeypatch.setenv(name, "17")

    assert load_settings() == before


def test_a_threshold_that_cannot_be_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_SIMILARITY_THRESHOLD", "high")

    with pytest.raises(ConfigurationError, match="high"):
        load_settings()


def test_topics_of_other_producers_have_their_tenants() -> None:
    assert load_settings(tenant_topics="acme.in:acme, globex.in:globex").topics_of_tenants == {
        "acme.in": "acme",
        "globex.in": "globex",
    }


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("acme.in", "acme.in must be topic:tenant"),
        ("acme.in:", "acme.in: must be topic:tenant"),
        ("a/b:acme", "a/b:acme must be topic:tenant"),
        ("acme.in:acme,acme.in:globex", "the topic acme.in is listed twice"),
    ],
)
def test_a_topic_without_its_tenant_stops_the_start(given: str, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(sentence)):
        load_settings(tenant_topics=given)


def test_a_value_of_another_kind_is_named_with_its_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_PORT", "abc")

    with pytest.raises(ConfigurationError) as caught:
        load_settings()

    assert str(caught.value) == "SLUICE_PORT=abc: must be a valid integer"


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"host": "0.0.0.0"}, "SLUICE_HOST=0.0.0.0"),
        ({"cors_origins": "*"}, "SLUICE_CORS_ORIGINS=*"),
        ({"cors_origins": "https://chat.example.org, *"}, "SLUICE_CORS_ORIGINS=*"),
    ],
)
def test_what_lets_strangers_in_needs_keys(given: dict[str, str], named: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_settings(data=tmp_path, **given)

    assert named in str(caught.value)
    assert "SLUICE_API_KEYS" in str(caught.value)
    load_settings(data=tmp_path, api_keys=f"{'k' * 20}:t:query", **given)


def test_the_pages_of_one_site_need_no_keys(tmp_path: Path) -> None:
    assert load_settings(data=tmp_path, cors_origins="https://chat.example.org").origins


@pytest.mark.parametrize("every", ["0.0.0.0/0", "10.0.0.7, ::/0"])
def test_not_every_address_is_a_proxy(every: str) -> None:
    with pytest.raises(ConfigurationError, match="SLUICE_PROXIES"):
        load_settings(proxies=every)

    load_settings(metrics_allow=every)


def test_a_secret_that_can_be_guessed_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigurationError, match="SLUICE_SECRET") as caught:
        load_settings(secret="nineteen-characters")

    assert "nineteen" not in str(caught.value)
    load_settings(secret="twenty characters it")


def test_a_default_that_a_given_value_makes_wrong_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_CHUNK_UNIT", "tokens")  # 800 is a size in characters

    with pytest.raises(ConfigurationError, match=r"CHUNK_SIZE.*at most 500 tokens"):
        load_settings()
