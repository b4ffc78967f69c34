import asyncio
from pathlib import Path
from typing import Any

import pytest
from litestar.connection import ASGIConnection
from litestar.datastructures import Headers

from services.query_api.http import auth
from services.query_api.http.auth import ANYBODY, Caller, Keyring, UnknownKey, slowed
from services.query_api.http.browsers import sending_site
from services.query_api.http.problems import Problem
from shared.runtime.key_file import LOOK_S, KeyFile, editing, new_key
from shared.settings import ROLES, Role, parse_api_keys

KEYRING = Keyring(parse_api_keys("key-of-ann:ann:ingest+query,key-of-bob:bob:query,schlüssel-1:cia:admin"))


@pytest.mark.parametrize(
    ("headers", "tenant"),
    [
        ({"Authorization": "Bearer key-of-ann"}, "ann"),
        ({"authorization": "bearer  key-of-bob "}, "bob"),
        ({"X-API-Key": "key-of-bob"}, "bob"),
        ({"Authorization": "Basic eDp5", "X-API-Key": "key-of-ann"}, "ann"),
        ({"X-API-Key": "schlüssel-1".encode().decode("latin-1")}, "cia"),
    ],
)
def test_the_key_says_who_calls(headers: dict[str, str], tenant: str) -> None:
    assert KEYRING.caller(Headers(headers)).tenant == tenant


@pytest.mark.parametrize(
    "headers",
    [{}, {"X-API-Key": ""}, {"X-API-Key": "key-of-an"}, {"X-API-Key": "KEY-OF-ANN"}, {"Authorization": "key-of-ann"}],
)
def test_no_key_or_an_unknown_one_is_a_401(headers: dict[str, str]) -> None:
    with pytest.raises(Problem) as refused:
        KEYRING.caller(Headers(headers))

    assert refused.value.status == 401
    assert refused.value.headers == {"WWW-Authenticate": "Bearer"}


async def test_through_the_folders_socket_a_key_is_taken_and_none_is_needed() -> None:
    def asked(at: str, headers: list[tuple[bytes, bytes]]) -> ASGIConnection:  # type: ignore[type-arg]
        scope: Any = {"type": "http", "server": (at, None), "headers": headers}
        return ASGIConnection(scope)

    ann, wrong = [(b"x-api-key", b"key-of-ann")], [(b"x-api-key", b"another")]

    one = Keyring(parse_api_keys("key-of-ann:ann:query"))

    assert await Keyring(()).caller_of(asked("/data/serve.sock", [])) == ANYBODY
    assert await one.caller_of(asked("/data/serve.sock", [])) == Caller("ann", ANYBODY.roles)
    assert (await KEYRING.caller_of(asked("/data/serve.sock", []))).roles == {"operator"}, "whose documents, is unknown"
    assert (await KEYRING.caller_of(asked("/data/serve.sock", ann))).tenant == "ann"
    for at, headers in (("/data/serve.sock", wrong), ("127.0.0.1", []), ("::1", [])):
        with pytest.raises(Problem):
            await KEYRING.caller_of(asked(at, headers))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def with_key(key: str) -> Headers:
    return Headers({"X-API-Key": key})


def test_a_key_of_the_file_counts_from_when_it_is_made_until_it_is_revoked(tmp_path: Path) -> None:
    path, clock = tmp_path / "keys.json", Clock()
    keyring = Keyring((), KeyFile(path, clock=clock))
    assert (keyring.needed, keyring.caller(Headers())) == (False, ANYBODY)

    key, record = new_key("ann", ("query",), "2026-01-01T00:00:00Z")
    with editing(path) as keys:
        keys.append(record)
    clock.now += LOOK_S
    assert keyring.caller(with_key(key)) == Caller("ann", frozenset({"query"}), key=record.id)
    with pytest.raises(Problem):
        keyring.caller(Headers())

    with editing(path) as keys:
        keys.clear()
    clock.now += LOOK_S
    with pytest.raises(UnknownKey):  # the last key is gone, and still one is needed
        keyring.caller(with_key(key))


def test_a_lost_or_broken_key_file_lets_nobody_in(tmp_path: Path) -> None:
    path, clock = tmp_path / "keys.json", Clock()
    key, record = new_key("ann", ("query",), "2026-01-01T00:00:00Z")
    with editing(path) as keys:
        keys.append(record)
    keyring = Keyring((), KeyFile(path, clock=clock))

    for damage in (lambda: path.write_text("{"), path.unlink):
        damage()
        clock.now += LOOK_S
        assert keyring.needed
        assert keyring.caller(with_key(key)).tenant == "ann"
        with pytest.raises(UnknownKey):
            keyring.caller(with_key("another key"))


def test_a_second_tenant_in_the_file_ends_that_an_admin_is_an_operator(tmp_path: Path) -> None:
    path, clock = tmp_path / "keys.json", Clock()
    keyring = Keyring(parse_api_keys("key-number-one:t:admin"), KeyFile(path, clock=clock))
    assert keyring.caller(with_key("key-number-one")).may("operator")

    with editing(path) as keys:
        keys.append(new_key("u", ("query",), "2026-01-01T00:00:00Z")[1])
    clock.now += LOOK_S

    assert not keyring.caller(with_key("key-number-one")).may("operator")


def test_the_file_holds_no_key_and_is_nobody_else_s(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    key, record = new_key("ann", ("query",), "2026-01-01T00:00:00Z")
    with editing(path) as keys:
        keys.append(record)

    assert len(key) >= 20 + len("sluice_")
    assert key not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0


async def caller_of(headers: Headers) -> Caller:
    return KEYRING.caller(headers)


async def test_only_a_wrong_key_is_slowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auth, "WRONG_KEY_S", 3600)
    wrong = [asyncio.create_task(slowed(caller_of(with_key("wrong")))) for _ in range(100)]
    await asyncio.sleep(0)

    assert (await slowed(caller_of(with_key("key-of-ann")))).tenant == "ann"
    with pytest.raises(Problem):
        await slowed(caller_of(Headers()))
    assert not any(task.done() for task in wrong)
    for task in wrong:
        task.cancel()


def test_without_keys_everybody_is_the_default_tenant() -> None:
    assert Keyring(()).caller(Headers({"X-API-Key": "whatever"})) == ANYBODY


@pytest.mark.parametrize(
    ("role", "allowed"),
    [
        ("ingest", {"ingest"}),
        ("query", {"query"}),
        ("admin", {"ingest", "query", "admin"}),
        ("operator", {"operator"}),
    ],
)
def test_a_role_includes_what_belongs_to_its_tenant(role: Role, allowed: set[Role]) -> None:
    assert {each for each in ROLES if Caller("t", frozenset({role})).may(each)} == allowed


@pytest.mark.parametrize(
    ("keys", "operator"),
    [
        ("key-number-one:t:admin,key-number-two:t:query", True),
        ("key-number-one:t:admin,key-number-two:u:query", False),
        ("key-number-one:t:admin+operator,key-number-two:u:query", True),
        ("key-number-one:t:ingest+query", False),
    ],
)
def test_an_admin_is_an_operator_as_long_as_there_is_one_tenant(keys: str, operator: bool) -> None:
    caller = Keyring(parse_api_keys(keys)).caller(Headers({"X-API-Key": "key-number-one"}))

    assert caller.may("operator") == operator


# Header by header what browsers send, and whose page it was.
@pytest.mark.parametrize(
    ("headers", "site"),
    [
        ({}, "unknown"),
        ({"Sec-Fetch-Site": "none"}, "unknown"),
        ({"Sec-Fetch-Site": "same-site"}, "unknown"),
        ({"Sec-Fetch-Site": "same-origin"}, "own"),
        ({"Origin": "http://sluice.example:3000"}, "own"),
        ({"Origin": "https://public.example", "Sec-Fetch-Site": "same-origin"}, "own"),  # a proxy changed Host
        ({"Origin": "http://sluice.example"}, "other"),
        ({"Origin": "null"}, "other"),
        ({"Origin": "http://other.example", "Sec-Fetch-Site": "same-site"}, "other"),
        ({"Origin": "http://sluice.example:3000", "Sec-Fetch-Site": "cross-site"}, "other"),
    ],
)
def test_a_browser_says_whose_page_sent_a_request(headers: dict[str, str], site: str) -> None:
    assert sending_site(Headers({"Host": "sluice.example:3000", **headers})) == site
