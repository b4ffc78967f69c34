import pytest
from litestar.datastructures import Headers

from services.query_api.http.auth import ANYBODY, Caller, Keyring
from services.query_api.http.origins import sending_site
from services.query_api.http.problems import Problem
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
