"""One secret for all APIs of an installation."""

import asyncio

import pytest

from shared.state import pairing
from shared.state.signing_secret import signing_secret
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
