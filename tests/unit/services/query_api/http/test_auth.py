import pytest
from litestar.datastructures import Headers

from services.query_api.http.auth import ANYBODY, Caller, Keyring
from services.query_api.http.problems import Problem
from shared.settings import ROLES, parse_api_keys

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


def test_without_keys_everybody_is_the_default_tenant() -> None:
    assert Keyring(()).caller(Headers({"X-API-Key": "whatever"})) == ANYBODY


def test_admin_may_everything_and_others_what_they_have() -> None:
    assert all(Caller("t", frozenset({"admin"})).may(role) for role in ROLES)
    assert not Caller("t", frozenset({"query"})).may("ingest")
