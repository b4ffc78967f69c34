"""The pipeline with an API that follows the generations, as an operator uses it."""

import asyncio
from collections.abc import Mapping
from typing import Any

from services.operator_cli.verify import command
from services.operator_cli.verify.command import opened
from services.query_api.serving_api import ServingApi
from shared.contracts import DocumentSubmitted
from shared.topics import chunks_topic
from tests.contract.logs import HANG_S
from tests.integration.api import a_client
from tests.integration.pipeline import Pipeline, Quiet


class Rig:
    """The pipeline, with the API that follows the generations."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.api = ServingApi(pipeline.parts).app

    async def post(self, path: str, body: dict[str, Any], status: int = 200) -> Any:
        async with a_client(self.api) as client:
            reply = await client.post(path, json=body)
        assert reply.status_code == status, reply.text
        return reply.json()

    async def status(self) -> dict[str, Any]:
        async with a_client(self.api) as client:
            found: dict[str, Any] = (await client.get("/ops/generations")).json()
        return found

    async def states(self) -> list[str]:
        return [each["state"] for each in (await self.status())["items"]]

    async def until_ready(self) -> dict[str, Any]:
        async with asyncio.timeout(HANG_S):
            while True:
                for each in (await self.status())["items"]:
                    if each["state"] == "ready":
                        found: dict[str, Any] = each
                        return found
                await asyncio.sleep(0.05)

    async def until_state(self, generation: str, state: str) -> None:
        async with asyncio.timeout(HANG_S):
            while True:
                [found] = [each for each in (await self.status())["items"] if each["id"] == generation]
                if found["state"] == state:
                    return
                await asyncio.sleep(0.05)

    async def until_loaded(self, generation: str) -> None:
        """Wait until the API can search the past generation."""
        async with asyncio.timeout(HANG_S):
            while generation not in self.pipeline.parts.past.loaded:  # noqa: ASYNC110 - it tells nobody when
                await asyncio.sleep(0.05)

    async def until_worked(self, generation: str) -> int:
        """Wait until a heartbeat reports vectors of the generation; return how many were embedded or copied."""
        async with asyncio.timeout(HANG_S):
            while True:
                [found] = [each for each in (await self.status())["items"] if each["id"] == generation]
                if work := int(found["embedded"] + found["copied"]):
                    return work
                await asyncio.sleep(0.05)

    async def chunk_topics(self) -> list[str]:
        return [chunks_topic(each["id"]) for each in (await self.status())["items"]]

    async def load(self, texts: Mapping[str, str]) -> None:
        await asyncio.gather(
            *(self.pipeline.send(DocumentSubmitted(source="s", path=path, text=text)) for path, text in texts.items())
        )

    async def found(self, query: str) -> list[tuple[str, str]]:
        hits = (await self.post("/rag/search", {"query": query, "topK": 3}))["results"]
        return [(hit["metadata"]["path"], hit["text"]) for hit in hits]

    async def verified(self, generation: str | None = None) -> str:
        async with opened(self.pipeline.settings, generation) as parts:
            outcome = await command.verify(parts, Quiet(), repair=False, dry_run=False, sample=0, patience_s=20)
        return outcome.report.verdict
