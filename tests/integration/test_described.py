"""Descriptions and language variants are searched in new indexes; older indexes go on as they were built."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from services.operator_cli.verify import command
from services.operator_cli.verify.command import opened
from services.query_api.app import make_api
from services.standalone.serve import start
from shared.settings import Settings
from tests.integration.api import HERONS, LANTERN, a_client, ingested
from tests.integration.pipeline import Quiet
from tests.selection import CI_ONLY

LINE = {"languageVariants": {"en": {"text": "Good evening."}, "tr": {"text": "İyi akşamlar dilerim."}}}


async def found(settings: Settings) -> dict[str, list[dict[str, Any]]]:
    """Return the hits for words that only a description and only a variant have, after loading both."""
    async with AsyncExitStack() as stack:
        parts = await start(settings, stack)
        client = await stack.enter_async_context(a_client(make_api(parts)))
        text = "\n\n".join([LANTERN, *(f"Paragraph {n} is about nothing much. " * 12 for n in range(4))])
        await ingested(client, text, path="lantern", description="Rules for zeppelins")
        await ingested(client, HERONS, path="herons", metadata={"description": "the caller's own"})
        await client.post("/rag/ingest", json={"source": "s", "path": "lines", "chunks": [LINE]})
        hits = {}
        for query in ("zeppelins", "akşamlar", "herons", "nothing much paragraph"):
            reply = await client.post(
                "/rag/search", json={"query": query, "mode": "sparse", "topK": 3, "language": "tr"}
            )
            hits[query] = reply.json()["results"]
    return hits


async def verdict(settings: Settings) -> tuple[str, int]:
    async with opened(settings) as parts:
        outcome = await command.verify(parts, Quiet(), repair=False, dry_run=False, sample=0, patience_s=30)
    return outcome.report.verdict, outcome.exit_code


@pytest.mark.feature(32, 34, 39, 68)
@CI_ONLY
async def test_descriptions_and_variants_are_searched_and_shown(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path, samples="off", chat="extractive:")

    hits = await found(settings)

    [described] = hits["zeppelins"]  # one hit for a description, not one for each chunk
    assert (described["metadata"]["path"], described["metadata"]["chunkOrder"]) == ("lantern", 0)
    assert described["score"] > 0.3
    assert {hit["metadata"]["description"] for hit in hits["nothing much paragraph"]} == {"Rules for zeppelins"}
    assert [(hit["text"], hit["metadata"]["path"]) for hit in hits["akşamlar"]] == [("İyi akşamlar dilerim.", "lines")]
    assert hits["herons"][0]["metadata"]["description"] == "the caller's own"
    assert await verdict(settings) == ("right", 0)
