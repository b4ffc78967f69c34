"""What a caller sees of a reader's bug: a fixed sentence, a code and the request's id; the log has the rest."""

from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path

import pytest
from pydantic import SecretStr

from services.ingest_worker import parsers
from services.ingest_worker.parsers import ParserPool
from services.query_api.app import make_api
from services.standalone.serve import start
from shared.settings import Settings
from tests.integration.api import a_client, problem
from tests.integration.hostile_run import internals
from tests.selection import CI_ONLY

BUG = b"ROUGH bug - 0 "


@CI_ONLY
@pytest.mark.asyncio
async def test_a_bug_of_a_reader_shows_nothing_of_the_server_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rough = partial(ParserPool, program="tests.integration.rough_parser")
    monkeypatch.setattr(parsers, "ParserPool", lambda size, **rest: rough(size, **rest | {"confined": False}))
    keys = SecretStr("key-of-t0:t0:ingest+query+admin")
    settings = Settings(data=tmp_path, samples="off", chat="extractive:", api_keys=keys)
    async with AsyncExitStack() as stack:
        app = make_api(await start(settings, stack))
        client = await stack.enter_async_context(a_client(app, "t0"))

        alone = await client.post("/rag/ingest/upload", files={"f": ("a.pdf", BUG)}, headers={"X-Request-Id": "seen"})
        several = [("f", (name, BUG, "application/pdf")) for name in ("b.pdf", "c.pdf")]
        together = await client.post("/rag/ingest/upload", files=several)
        loaded = await client.put("/process", content=BUG, headers={"X-Filename": "d.pdf"})
        document = await client.get(f"/rag/documents/{alone.json()['details']['documentId']}")
        letters = await client.get("/ops/dead-letters")
        letter = await client.get(f"/ops/dead-letters/{letters.json()['items'][0]['id']}")
        listed = await client.get("/rag/documents")

    assert "log has the details" in problem(alone, 422, "BUG")
    assert alone.json()["details"]["requestId"] == alone.headers["x-request-id"] == "seen"
    assert problem(loaded, 500, "BUG")
    assert {each["code"] for each in together.json()["details"]["items"]} == {"BUG"}
    assert {each["code"] for each in letters.json()["items"]} == {"BUG"}
    for reply in (alone, together, loaded, document, letters, letter, listed):
        assert internals(reply.text.replace("Internal Server Error", "")) == []  # the title of a 500
        assert str(Path.cwd()) not in reply.text
