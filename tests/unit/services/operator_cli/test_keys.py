"""`sluice keys`: what is printed, what is stored, and what is refused."""

import json
from pathlib import Path

import pytest

from shared.runtime.key_file import digest_of, read_keys
from tests.unit.services.operator_cli.conftest import Sluice


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLUICE_DATA", str(tmp_path))
    monkeypatch.delenv("SLUICE_API_KEYS", raising=False)
    return tmp_path / "keys.json"


def test_a_new_key_is_printed_once_and_stored_as_a_hash(sluice: Sluice, path: Path) -> None:
    ran = sluice("keys", "new", "--tenant", "acme", "--role", "query", "--role", "ingest", "--note", "n8n")

    key = ran.out.strip()
    (record,) = read_keys(path)
    assert (ran.code, record.tenant, record.roles, record.note) == (0, "acme", ("ingest", "query"), "n8n")
    assert record.sha256 == digest_of(key.encode()).hex()
    assert record.id in ran.err
    assert "every request needs one from now on" in ran.err


def test_keys_are_listed_with_those_of_the_environment(
    sluice: Sluice, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_API_KEYS", "short-key:t:query")
    made = json.loads(sluice("keys", "new", "-t", "t", "-r", "admin", "--json").out)

    rows = json.loads(sluice("keys", "ls", "--json").out)

    assert [(row["id"] == made["id"], row["tenant"], row["roles"]) for row in rows] == [
        (True, "t", ["admin"]),
        (False, "t", ["query"]),
    ]
    assert rows[1]["note"] == "SLUICE_API_KEYS; shorter than 20 characters"
    assert made["key"] not in json.dumps(rows)


@pytest.mark.parametrize(("name", "value"), [("SLUICE_HOST", "0.0.0.0"), ("SLUICE_CORS_ORIGINS", "*")])
def test_the_first_key_is_made_where_the_settings_need_one(
    sluice: Sluice, path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)

    refused = sluice("keys", "ls")
    made = sluice("keys", "new", "-t", "t", "-r", "admin")

    assert (refused.code, name in refused.err) == (2, True)
    assert made.code == 0, made.err
    assert sluice("keys", "ls").code == 0


def test_a_second_tenant_is_told_about_operators(sluice: Sluice, path: Path) -> None:
    sluice("keys", "new", "-t", "t", "-r", "admin")

    assert "make a key with --role operator" in sluice("keys", "new", "-t", "u", "-r", "admin").err


def test_a_revoked_key_is_gone_and_the_last_one_is_told(sluice: Sluice, path: Path) -> None:
    ids = [json.loads(sluice("keys", "new", "-t", "t", "-r", "query", "--json").out)["id"] for _ in range(2)]

    first, second = sluice("keys", "revoke", ids[0]), sluice("keys", "revoke", ids[1])

    assert first.out == f"revoked {ids[0]} of t\n"
    assert second.out.endswith("No key is left, so every request is refused; sluice keys new makes one.\n")
    assert read_keys(path) == ()


def test_what_cannot_be_revoked_is_named_and_nothing_is_revoked(
    sluice: Sluice, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICE_API_KEYS", "key-of-the-environment:t:query")
    made = json.loads(sluice("keys", "new", "-t", "t", "-r", "query", "--json").out)["id"]
    fixed = digest_of(b"key-of-the-environment").hex()[:16]

    unknown, environment = sluice("keys", "revoke", made, "0" * 16), sluice("keys", "revoke", fixed)

    assert (unknown.code, "is not in" in unknown.err, "no key was revoked" in unknown.err) == (2, True, True)
    assert "remove it there and restart the servers" in environment.err
    assert len(read_keys(path)) == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("-t", "t", "-r", "owner"), "owner is not a role; roles are ingest, query, admin, operator"),
        (("-t", "a b", "-r", "query"), "the tenant 'a b' must have"),
    ],
)
def test_a_key_that_cannot_be_is_refused(sluice: Sluice, path: Path, arguments: tuple[str, ...], sentence: str) -> None:
    ran = sluice("keys", "new", *arguments)

    assert (ran.code, sentence in ran.err) == (2, True)
    assert not path.exists()


def test_a_broken_file_is_named(sluice: Sluice, path: Path) -> None:
    path.write_text("{")

    ran = sluice("keys", "ls")

    assert (ran.code, str(path) in ran.err) == (2, True)
