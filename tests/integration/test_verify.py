"""The verifier against a real pipeline whose store is damaged behind its back: each damage is named, and healed."""

import asyncio
import json
import os
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import pytest_asyncio

from services.operator_cli.verify import command
from services.operator_cli.verify.command import VerifyOutcome, opened
from services.operator_cli.verify.findings import VerifyReport
from services.operator_cli.verify.verifier import VerifierParts
from services.standalone.serve import start
from shared.blobs import collect
from shared.contracts import DocumentSubmitted
from shared.errors import Unavailable
from shared.ids import document_id, point_id
from shared.settings import Settings
from shared.state import ledger, verification_result
from shared.state.index import vector_hash
from shared.store import Filter, Ids, Match, Point
from shared.store.edge import EdgeStore
from shared.topics import SUBMITTED
from tests.e2e.harness import served
from tests.e2e.text import paragraph, paragraphs
from tests.integration.pipeline import Pipeline, Quiet
from tests.selection import CI_ONLY

pytestmark = pytest.mark.asyncio(loop_scope="session")

SHARED = paragraph(99, 0, 0, of=1)  # stands in two documents and two tenants
A, B = document_id("default", "s", "a.md"), document_id("default", "s", "b.md")


@dataclass
class Rig:
    """A pipeline with documents in every state, and what `sluice verify` opens of it."""

    pipeline: Pipeline
    parts: VerifierParts
    patience_s: float = 20.0  # a hang guard, but where documents never come to rest

    async def verify(self, *, repair: bool = False, dry_run: bool = False, sample: int | None = 0) -> VerifyOutcome:
        return await command.verify(
            self.parts, Quiet(), repair=repair, dry_run=dry_run, sample=sample, patience_s=self.patience_s
        )

    async def points(self, name: str) -> list[Point]:
        where = Filter(must=(Match("metadata.documentId", (name,)),))
        page = await self.parts.store.scroll(self.parts.generation.chunks, where, vectors=True)
        return sorted(page.points, key=lambda point: int(point.payload["metadata"]["chunkOrder"]))

    async def put(self, *points: Point) -> None:
        await self.parts.store.upsert(self.parts.generation.chunks, points)

    async def version(self, name: str) -> int:
        head = await self.pipeline.parts.index.head(name)
        assert head is not None
        return head.version

    async def change_head(self, name: str, **fields: Any) -> None:
        [point] = await self.parts.store.retrieve(self.parts.generation.heads, [name])
        payload = {**point.payload, **fields}
        await self.parts.store.upsert(self.parts.generation.heads, [Point(id=name, payload=payload)])

    async def change_entry(self, name: str, part: str, **fields: Any) -> None:
        [point] = await self.parts.store.retrieve(ledger.COLLECTION, [name])
        payload = {**point.payload, part: {**point.payload[part], **fields}}
        await self.parts.store.upsert(ledger.COLLECTION, [Point(id=name, payload=payload)])

    async def everything(self) -> dict[str, dict[str, Any]]:
        """Return all that the store holds, but how often and when it was written."""
        found: dict[str, dict[str, Any]] = {}
        for name in (self.parts.generation.chunks, self.parts.generation.heads, ledger.COLLECTION):
            page = await self.parts.store.scroll(name, limit=1000, vectors=True)
            assert page.after is None
            for point in page.points:
                payload = json.loads(json.dumps(point.payload))
                payload.pop("rev", None), payload.pop("writer", None), payload.pop("earlier", None)
                for field in ("at", "extractedAt", "chunkedAt"):
                    payload.get("last", {}).pop(field, None)
                dense = None if point.dense is None else vector_hash(point.dense)
                found[f"{name}/{point.id}"] = {"payload": payload, "dense": dense, "sparse": point.sparse}
        return found


def changed(before: dict[str, dict[str, Any]], after: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return what differs between two states of the store."""
    names = before.keys() | after.keys()
    return {name: (before.get(name), after.get(name)) for name in names if before.get(name) != after.get(name)}


def a_document(path: str, *texts: str, **fields: Any) -> DocumentSubmitted:
    return DocumentSubmitted(**({"source": "s", "path": path, "text": "\n\n".join(texts)} | fields))


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(data=tmp_path_factory.mktemp("verify"), samples="off", chat="extractive:")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def rig(settings: Settings) -> AsyncIterator[Rig]:
    async with AsyncExitStack() as stack:
        pipeline = Pipeline(await start(settings, stack), settings)
        own = {"colour": "red", "size": 1.5, "nested": {"list": [1, None, True]}}
        a, b = paragraphs(1, 2), paragraphs(2, 3)
        sent = (
            [a_document("a.md", a[0], paragraph(1, 1, 1, of=2)), a_document("b.md", *b, title="B", metadata=own)],
            [a_document("a.md", *a, SHARED), a_document("c.md", SHARED), a_document("c.md", SHARED, tenant="other")],
            [a_document("c.md", SHARED), a_document("gone.md", "Soon gone.")],
            [DocumentSubmitted(source="s", path="gone.md", deleted=True)],
            [DocumentSubmitted(source="s", path="never.md", deleted=True)],
            [a_document("bad.md", " \n "), a_document("worse.md", "Good at first.", title="W")],
            [a_document("worse.md", content=b"%PDF-1.7 nonsense", text=None, filename="worse.pdf")],
        )
        for documents in sent:
            await asyncio.gather(*(pipeline.send(document) for document in documents))
        await pipeline.parts.publish(SUBMITTED, b"{not json", key=b"foreign")
        body = b'{"source": "s", "path": "n8n.md", "text": "From elsewhere."}'
        await pipeline.send(body, key=b"another key", of=a_document("n8n.md"))
        yield Rig(pipeline, await stack.enter_async_context(opened(settings)))


async def test_an_untouched_index_is_right_whatever_became_of_its_documents(rig: Rig) -> None:
    report = (await rig.verify(sample=None)).report

    assert (report.verdict, report.first) == ("right", {})
    assert (report.documents, report.points, report.embedded) == (9, 10, 10)
    assert not report.lag


Damage = Callable[[Rig], Awaitable[None]]


async def points_deleted(rig: Rig) -> None:
    await rig.parts.store.delete(rig.parts.generation.chunks, Filter(must=(Ids(((await rig.points(B))[1].id,)),)))


async def vector_altered(rig: Rig) -> None:
    point = (await rig.points(B))[0]
    assert point.dense is not None
    await rig.put(msgspec.structs.replace(point, dense=np.roll(point.dense, 1)))


async def shared_vector_altered(rig: Rig) -> None:
    point = (await rig.points(A))[2]
    assert point.dense is not None
    await rig.put(msgspec.structs.replace(point, dense=np.roll(point.dense, 1)))


async def vector_and_its_hash_altered(rig: Rig) -> None:
    point = (await rig.points(B))[0]
    assert point.dense is not None
    dense = np.roll(point.dense, 1)
    metadata = {**point.payload["metadata"], "vectorHash": vector_hash(dense)}
    await rig.put(msgspec.structs.replace(point, dense=dense, payload={**point.payload, "metadata": metadata}))


async def sparse_altered(rig: Rig) -> None:
    first, second, _ = await rig.points(B)
    await rig.put(msgspec.structs.replace(first, sparse=second.sparse))


async def text_altered(rig: Rig) -> None:
    point = (await rig.points(B))[2]
    await rig.put(msgspec.structs.replace(point, payload={**point.payload, "text": "Something else."}))


async def tags_altered(rig: Rig) -> None:
    point = (await rig.points(B))[2]
    metadata = {**point.payload["metadata"], "tags": ["secret"]}
    await rig.put(msgspec.structs.replace(point, payload={**point.payload, "metadata": metadata}))


async def tenant_altered(rig: Rig) -> None:
    point = (await rig.points(B))[2]
    metadata = {**point.payload["metadata"], "tenant": "other"}
    await rig.put(msgspec.structs.replace(point, payload={**point.payload, "metadata": metadata}))


async def _copied(rig: Rig, version: int, **changed: Any) -> None:
    point = (await rig.points(B))[0]
    metadata = {**point.payload["metadata"], "version": version, **changed}
    copy = point_id(str(metadata["documentId"]), version, metadata["chunkOrder"])
    await rig.put(msgspec.structs.replace(point, id=copy, payload={**point.payload, "metadata": metadata}))


async def stale_point(rig: Rig) -> None:
    await _copied(rig, await rig.version(B) - 1)


async def point_ahead(rig: Rig) -> None:
    await _copied(rig, await rig.version(B) + 1)


async def point_twice(rig: Rig) -> None:
    await _copied(rig, await rig.version(B), chunkOrder=7)


async def point_of_nobody(rig: Rig) -> None:
    await _copied(rig, 7, documentId=document_id("default", "s", "unknown.md"))


async def point_without_a_name(rig: Rig) -> None:
    await _copied(rig, 8, documentId=8)


async def deleted_document_back(rig: Rig) -> None:
    name = document_id("default", "s", "gone.md")
    await _copied(rig, await rig.version(name), documentId=name)


async def head_raised(rig: Rig) -> None:
    await rig.change_head(B, version=await rig.version(B) + 1_000_000)


async def head_lowered(rig: Rig) -> None:
    await rig.change_head(B, version=1)


async def head_miscounts(rig: Rig) -> None:
    await rig.change_head(B, chunkCount=2)


async def head_lost(rig: Rig) -> None:
    await rig.parts.store.delete(rig.parts.generation.heads, Filter(must=(Ids((B,)),)))


async def head_unreadable(rig: Rig) -> None:
    await rig.change_head(B, version="the newest")


async def text_lost(rig: Rig) -> None:
    assert await collect(rig.parts.blobs, ("default", B), frozenset(), -60.0) > 0


async def entry_forgets(rig: Rig) -> None:
    await rig.change_entry(B, "accepted", rawHash="0" * 32)


async def entry_raised(rig: Rig) -> None:
    await rig.change_entry(B, "accepted", version=await rig.version(B) + 1_000_000)


async def entry_says_failed(rig: Rig) -> None:
    await rig.change_entry(B, "last", status="failed", error="It was fine.")


async def entry_unreadable(rig: Rig) -> None:
    await rig.change_entry(B, "last", status="splendid")


async def entry_lost(rig: Rig) -> None:
    await rig.parts.store.delete(ledger.COLLECTION, Filter(must=(Ids((B,)),)))


async def failure_forgotten(rig: Rig) -> None:
    lost = (document_id("default", "s", "bad.md"), document_id("default", "s", "worse.md"))
    await rig.parts.store.delete(ledger.COLLECTION, Filter(must=(Ids(lost),)))


@pytest.mark.parametrize(
    ("damage", "named", "embedded"),
    [
        (points_deleted, {"I1": "is missing"}, 1),
        (vector_altered, {"I1": "doesn't match its vectorHash"}, 1),
        pytest.param(shared_vector_altered, {"I1": "doesn't match its vectorHash"}, 0, marks=CI_ONLY),
        pytest.param(vector_and_its_hash_altered, {"I1": "differs from the model's"}, 1, marks=CI_ONLY),
        (sparse_altered, {"I1": "the sparse vector"}, 0),
        (text_altered, {"I1": "'Something else.'"}, 0),
        pytest.param(tags_altered, {"I1": "tags is ['secret'], not []"}, 0, marks=CI_ONLY),
        (tenant_altered, {"I8": "its tenant is 'other', its document's 'default'"}, 0),
        (stale_point, {"I2": "is stale"}, 0),
        pytest.param(point_ahead, {"I2": "is ahead"}, 0, marks=CI_ONLY),
        (point_twice, {"I2": "does not belong to version"}, 0),
        pytest.param(point_of_nobody, {"I2": "not on the log"}, 0, marks=CI_ONLY),
        pytest.param(point_without_a_name, {"I2": "names no document"}, 0, marks=CI_ONLY),
        (deleted_document_back, {"I2": "does not belong to version"}, 0),
        (head_raised, {"I1": "the head is at version"}, 0),
        pytest.param(head_lowered, {"I1": "the head is at version 1,"}, 0, marks=CI_ONLY),
        pytest.param(head_miscounts, {"I1": "chunkCount is 2, not 3"}, 0, marks=CI_ONLY),
        (head_lost, {"I1": "has no head"}, 0),
        pytest.param(head_unreadable, {"I1": "can't be read"}, 0, marks=CI_ONLY),
        (text_lost, {"I1": "can't be shown"}, 0),
        (entry_forgets, {"I3": "rawHash is '0000"}, 0),
        pytest.param(entry_raised, {"I3": "the log's newest is"}, 0, marks=CI_ONLY),
        (entry_says_failed, {"I4": "without a dead letter: 'It was fine.'"}, 0),
        pytest.param(entry_unreadable, {"I3": "can't be read"}, 0, marks=CI_ONLY),
        (entry_lost, {"I3": "has no entry"}, 0),
        pytest.param(failure_forgotten, {"I3": "neither an entry nor an event"}, 0, marks=CI_ONLY),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
async def test_a_damage_is_named_and_healed_and_healing_again_changes_nothing(
    rig: Rig, damage: Damage, named: dict[str, str], embedded: int
) -> None:
    sample = None if damage is vector_and_its_hash_altered else 0
    before = await rig.everything()
    await damage(rig)
    damaged = await rig.everything()

    planned = await rig.verify(repair=True, dry_run=True, sample=sample)
    assert await rig.everything() == damaged
    assert await verification_result.trouble(rig.parts.store) is not None
    calls = rig.pipeline.embedded()
    healed = await rig.verify(repair=True, sample=sample)
    again = await rig.verify(repair=True, sample=sample)

    for outcome in (planned, healed):
        assert outcome.found is not None
        shown = {name: " | ".join(each.sentence for each in found) for name, found in outcome.found.first.items()}
        for invariant, words in named.items():
            assert words in shown[invariant]
    assert planned.report.verdict == "wrong"
    assert planned.repaired is not None
    assert healed.repaired == planned.repaired
    assert (healed.report.first, healed.report.verdict) == ({}, "right")
    assert (again.report.verdict, again.repaired) == ("right", None)
    assert rig.pipeline.embedded() - calls == embedded
    assert changed(before, await rig.everything()) == {}
    assert await verification_result.trouble(rig.parts.store) is None


@CI_ONLY
async def test_an_emptied_store_is_named_and_left_to_the_worker(rig: Rig, tmp_path: Path) -> None:
    empty = EdgeStore(tmp_path / "store")
    await empty.start()
    try:
        emptied = replace(rig, parts=replace(rig.parts, store=empty), patience_s=0.0)
        report = (await emptied.verify()).report
        with pytest.raises(Unavailable, match="an ingest worker rebuilds it"):
            await emptied.verify(repair=True)
        made = await empty.collections()
    finally:
        await empty.close()

    found = {name: " | ".join(each.sentence for each in report.first[name]) for name in ("I1", "I3")}
    assert "the store has no generation" in found["I1"]
    assert "all 3 points" in found["I1"]
    assert "the ledger has no entry" in found["I3"]
    assert not {ledger.COLLECTION, rig.parts.generation.heads, rig.parts.generation.chunks} & set(made)


@CI_ONLY
async def test_beside_a_load_nothing_is_called_wrong(rig: Rig) -> None:
    rng = random.Random(7)
    edits = 0

    async def edit(number: int) -> None:
        nonlocal edits
        while edits < 12:
            revision = rng.randrange(1_000_000)
            texts = [paragraph(number, revision, n, of=9, seed=n % 2) for n in range(rng.randint(1, 3))]
            document = a_document(f"hot{number}.md", *texts)
            gone = DocumentSubmitted(source="s", path=document.path, deleted=True)
            await rig.pipeline.send(gone if rng.random() < 0.2 else document)
            edits += 1
            await asyncio.sleep(rng.uniform(0.1, 0.5))  # the pace of the load

    impatient = replace(rig, patience_s=1.0)
    reports = list[VerifyReport]()
    editing = asyncio.gather(*(edit(number) for number in range(3)))
    while not editing.done():
        reports.append((await impatient.verify()).report)
    await editing
    after = (await rig.verify()).report

    assert [report.first for report in reports] == [{}] * len(reports)
    assert after.verdict == "right"


def sluice(data: Path, *arguments: str) -> tuple[int, str]:
    """Return the exit code and the output of the command, run as a user would."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SLUICE_")}
    done = subprocess.run(
        [sys.executable, "-m", "services.operator_cli", *arguments],
        env=environment | {"SLUICE_DATA": str(data)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


async def _damage(data: Path) -> None:
    store = EdgeStore(data / "store", attach=True)
    await store.start()
    try:
        [chunks] = [name for name in await store.collections() if name.startswith("chunks.")]
        await store.delete(chunks, Filter(must=(Match("metadata.chunkOrder", (1,)),)))
    finally:
        await store.close()


@CI_ONLY
@pytest.mark.slow
@pytest.mark.timeout(400)
async def test_the_command_looks_at_a_server_and_at_a_stopped_one_and_readiness_hears_of_it(tmp_path: Path) -> None:
    data = tmp_path / "data"
    nothing = await asyncio.to_thread(sluice, tmp_path, "verify")
    with served(data) as server, server.client() as client:
        for number in range(2):
            body = {"source": "s", "path": f"{number}.md", "text": "\n\n".join(paragraphs(number, 2))}
            client.post("/rag/ingest", json=body, headers={"Prefer": "wait=60"}).raise_for_status()
        right = await asyncio.to_thread(sluice, data, "verify", "--embed", "all")
        await _damage(data)
        wrong = await asyncio.to_thread(sluice, data, "verify", "--json")
        red = client.get("/readyz")
        healed = await asyncio.to_thread(sluice, data, "verify", "--repair")
        green = client.get("/readyz")
    stopped = await asyncio.to_thread(sluice, data, "verify")

    assert (nothing[0], right[0], wrong[0], healed[0], stopped[0]) == (2, 0, 1, 0, 0), (right, wrong, healed, stopped)
    assert "no document was ever sent to it" in nothing[1]
    assert "2 documents, 4 points compared, 4 of them embedded again" in right[1]
    assert json.loads(wrong[1])["verdict"] == "wrong"
    assert json.loads(wrong[1])["report"]["counts"] == {"I1": 2}
    assert red.status_code == 503
    assert "2 differences from the log" in red.json()["checks"]["index"]
    assert "repaired: 2 versions published again" in healed[1]
    assert "index and log agree" in healed[1]
    assert green.status_code == 200
    assert "index and log agree" in stopped[1]
