"""The standalone parts, started once for a module of tests, each of which is a tenant of its own."""

import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from litestar import Litestar
from pydantic import SecretStr

from services.query_api.app import ApiParts, make_api
from services.standalone.serve import start
from shared.log import Publish
from shared.log.publish import publish
from shared.log.sqlite import SqliteLog
from shared.settings import Settings
from shared.topics import pipeline_topics
from tests.integration.api import MAX_BODY, TENANTS, a_client


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def parts(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ApiParts]:
    keys = [f"key-of-t{n}:t{n}:ingest+query" for n in range(TENANTS)]
    keys += ["key-reader:reader:query", "key-writer:writer:ingest", "key-admin:admin:admin", "key-head:head:admin"]
    keys += ["key-operator:ops:admin+operator", "key-boss:boss:admin+operator"]
    keys += ["key-thumbs:thumbs:admin+operator"]  # its documents are counted
    settings = Settings(
        data=tmp_path_factory.mktemp("api"),
        samples="off",
        chat="extractive:",
        max_body=MAX_BODY,
        api_keys=SecretStr(",".join(keys)),
    )
    async with AsyncExitStack() as stack:
        yield await start(settings, stack)


@pytest.fixture(scope="session")
def tenants() -> Iterator[str]:
    return (f"t{n}" for n in itertools.count())


@pytest.fixture(scope="session")
def app(parts: ApiParts) -> Litestar:
    return make_api(parts)


@pytest_asyncio.fixture(loop_scope="session")
async def client(app: Litestar, tenants: Iterator[str]) -> AsyncIterator[httpx.AsyncClient]:
    async with a_client(app, next(tenants)) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="session")
async def unread(tmp_path: Path) -> AsyncIterator[Publish]:
    """Put records on a log that no worker reads."""
    log = SqliteLog(tmp_path / "unread")
    await log.start()
    await log.ensure_topics(pipeline_topics("none"))
    broker = log.broker("unread")
    await broker.start()
    try:
        yield partial(publish, broker)
    finally:
        await broker.stop()
        await log.stop()
