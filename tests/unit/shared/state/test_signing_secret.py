"""One secret for all APIs of an installation."""

import asyncio
import base64

import pytest

from shared.contracts import LogPosition
from shared.state import pairing
from shared.state.signing_secret import content_of, signed_token, signing_secret, submission_token, submitted_at
from tests.fakes.store import MemoryStore


@pytest.fixture
async def store() -> MemoryStore:
    store = MemoryStore()
    await pairing.create(store)
    return store


async def test_the_first_api_makes_it_and_all_share_it(store: MemoryStore) -> None:
    secrets = await asyncio.gather(*(signing_secret(store) for _ in range(5)))

    assert len({*secrets, await signing_secret(store)}) == 1
    assert len(secrets[0]) == 32
    assert await pairing.in_store(store) is None  # it lies beside the pairing, and is none


async def test_two_installations_have_two(store: MemoryStore) -> None:
    other = MemoryStore()
    await pairing.create(other)

    assert await signing_secret(store) != await signing_secret(other)


async def test_a_given_one_counts(store: MemoryStore) -> None:
    assert await signing_secret(store, "given") == b"given"


SECRET, PLACE = b"a secret", LogPosition(partition=1_000_003, offset=41, time=1_767_225_599_000)


@pytest.mark.parametrize("content", [b"", b"x", b"x" * 32, b"x" * 1000])
def test_a_token_gives_its_content_back_and_is_the_same_each_time(content: bytes) -> None:
    token = signed_token(SECRET, "kind", "t", content)

    assert content_of(token, SECRET, "kind", "t") == content
    assert token == signed_token(SECRET, "kind", "t", content)


def test_a_token_that_was_changed_anywhere_or_is_of_others_is_none() -> None:
    token = signed_token(SECRET, "kind", "t", b"content")
    data = bytearray(base64.urlsafe_b64decode(token))

    for place in range(len(data)):
        data[place] ^= 1
        assert content_of(base64.urlsafe_b64encode(data).decode(), SECRET, "kind", "t") is None
        data[place] ^= 1
    others = [(SECRET, "kind", "u"), (SECRET, "other", "t"), (b"another", "kind", "t")]
    assert [content_of(token, *of_others) for of_others in others] == [None] * 3
    assert [content_of(each, SECRET, "kind", "t") for each in ("", "é", "====", "x", token[:-4])] == [None] * 5


def test_positions_next_to_each_other_have_tokens_with_nothing_in_common() -> None:
    places = [LogPosition(partition=0, offset=offset, time=7) for offset in (0, 1, 10**12)]
    tokens = [submission_token(SECRET, "t", place) for place in places]
    data = [base64.urlsafe_b64decode(token) for token in tokens]

    assert [submitted_at(token, SECRET, "t") for token in tokens] == places
    assert {len(each) for each in data} == {48}
    assert all(sum(a == b for a, b in zip(data[0], other, strict=True)) < 12 for other in data[1:])
    assert submitted_at(submission_token(SECRET, "t", PLACE), SECRET, "t") == PLACE
    assert submitted_at(submission_token(SECRET, "t", PLACE), SECRET, "u") is None
