"""Blobs that go missing or are altered between two stages: a letter with the reason, no harm to others, and healed."""

import asyncio
import random
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from services.query_api.app import make_api
from shared.blobs import Blobs
from shared.blobs.open import open_blobs
from shared.claim_check import submission_value
from shared.contracts import BlobRef, DocumentSubmitted
from shared.runtime import resources
from shared.state.ledger import Entry
from tests.e2e.faults import rounds
from tests.e2e.load import new_seed
from tests.e2e.text import paragraph
from tests.integration.pipeline import Pipeline, running

LARGE = 570  # equal paragraphs: over the claim check's size at every stage, and one text to embed
STAGES = ("ingest", "chunk", "embed")  # each reads the blob that was put last, the first one what the door has put
HARMS = ("blob_missing", "blob_altered")
NEIGHBOURS = 3  # for each document that is harmed
HANG_S = 120.0


class Harm(NamedTuple):
    """What becomes of a document's blob before a stage reads it."""

    stage: str
    code: str


class HarmedBlobs:
    """The blob store, in whose folder somebody removes and alters files."""

    def __init__(self, blobs: Blobs, folder: Path) -> None:
        self.harms: dict[str, Harm] = {}  # by document id
        self.kept: dict[str, bytes] = {}  # what was there before
        self._blobs = blobs
        self._folder = folder
        self._puts: dict[str, int] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._blobs, name)

    async def put(self, tenant: str, document: str, data: bytes) -> BlobRef:
        ref = await self._blobs.put(tenant, document, data)
        number = self._puts[document] = self._puts.get(document, 0) + 1
        harm = self.harms.get(document)
        if harm is not None and STAGES.index(harm.stage) == number - 1:
            self.kept[document] = data
            file = self._folder / tenant / document / ref.sha256
            if harm.code == "blob_missing":
                file.unlink()
            else:
                file.write_bytes(data.replace(b"a", b"b"))
        return ref


@pytest.mark.slow
@pytest.mark.timeout(900)
async def test_given_harmed_blobs_when_others_are_well_then_each_is_told_once_and_heals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(new_seed())
    made: list[HarmedBlobs] = []

    def opened(setting: str, data: Path) -> Any:
        made.append(HarmedBlobs(open_blobs(setting, data), data / "blobs"))
        return made[-1]

    monkeypatch.setattr(resources, "open_blobs", opened)
    harms = [Harm(stage, code) for _ in range(rounds(ci=1)) for stage, code in product(STAGES, HARMS)]
    rng.shuffle(harms)
    async with running(tmp_path / "data", partitions=2) as pipeline:
        [blobs] = made
        documents = [
            DocumentSubmitted(source="harmed", path=f"{number}.md", text="\n\n".join([_text(number)] * LARGE))
            for number in range(len(harms))
        ]
        blobs.harms = {document.document_id: harm for document, harm in zip(documents, harms, strict=True)}
        sending = [_sent(pipeline, document) for document in documents]
        sending += [_sent(pipeline, _neighbour(number)) for number in range(NEIGHBOURS * len(harms))]
        rng.shuffle(sending)
        ended = {entry.document_id: entry for entry in await asyncio.gather(*sending)}
        letters = {letter.document_id: Harm(letter.stage, letter.code) for letter in await pipeline.dead_letters()}
        count = len(await pipeline.dead_letters())

        told = {name: Harm(blobs.harms[name].stage, ended[name].last.code or "") for name in blobs.harms}
        assert told == letters == blobs.harms
        assert count == len(harms)
        assert {name: entry.last.status for name, entry in ended.items()} == {
            name: "failed" if name in blobs.harms else "created" for name in ended
        }

        transport = httpx.ASGITransport(make_api(pipeline.parts))  # type: ignore[arg-type]  # Litestar's are narrower
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=HANG_S) as http:
            healed = await asyncio.gather(*(_healed(pipeline, http, blobs, document) for document in documents))
        for document in [*documents, *(_neighbour(number) for number in range(NEIGHBOURS * len(harms)))]:
            assert "\n\n".join(await pipeline.texts(document.document_id)) == document.text
        checks = await pipeline.parts.readiness()

    assert {entry.last.status for entry in healed} == {"created"}
    assert {name: said for name, said in checks.items() if said is not None} == {}


def _text(number: int) -> str:
    return paragraph(number, 0, 0, of=1)


def _neighbour(number: int) -> DocumentSubmitted:
    return DocumentSubmitted(source="good", path=f"{number}.md", text=_text(10_000 + number))


async def _sent(pipeline: Pipeline, document: DocumentSubmitted) -> Entry:
    value = await submission_value(document, pipeline.parts.blobs)
    return await pipeline.send(value, HANG_S, of=document)


async def _healed(
    pipeline: Pipeline, http: httpx.AsyncClient, blobs: HarmedBlobs, document: DocumentSubmitted
) -> Entry:
    """Return how the document ended that was sent again, or whose blob came back from a copy and was tried again."""
    name = document.document_id
    if blobs.harms[name].code == "blob_altered":
        return await _sent(pipeline, document)
    await blobs.put(document.tenant, name, blobs.kept[name])
    reply = await http.post("/ops/dead-letters/redrive", json={"documentId": name})
    assert [item["outcome"] for item in reply.json()["items"]] == ["redriven"], reply.text

    async def look() -> Entry | None:
        entry = await pipeline.parts.ledger.get(name)
        return entry if entry is not None and entry.last.status == "created" else None

    entry = await pipeline.parts.notices.until(name, look, HANG_S)
    assert entry is not None, await pipeline.parts.ledger.get(name)
    return entry
