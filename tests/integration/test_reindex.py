"""Another generation is built, takes over, gives back, and goes, while the index is used."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio

from services.ingest_worker.chunk import CHUNKER
from services.operator_cli.verify import command
from services.operator_cli.verify.command import opened
from services.query_api.ops import generation_service
from shared.contracts import DocumentSubmitted
from shared.ids import document_id
from shared.runtime.resources import wanted_generation
from shared.settings import ConfigurationError, Settings
from shared.state.generations import FORMAT, REGISTRY_POINT, first_registry, registry_of, serving
from shared.state.index import GENERATIONS, Index
from shared.state.ledger import Entry
from shared.store import Point
from shared.store.bm25 import current_bm25
from shared.store.edge import EdgeStore
from tests.builders import default_embedder
from tests.e2e.text import paragraphs
from tests.integration.api import a_client
from tests.integration.pipeline import Quiet, running
from tests.integration.reindex_rig import Rig
from tests.selection import CI_ONLY

pytestmark = pytest.mark.asyncio(loop_scope="session")

COUNT = 12
TEXTS = {f"{number}.md": "\n\n".join(paragraphs(number, 6)) for number in range(COUNT)}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def rig(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Rig]:
    async with running(tmp_path_factory.mktemp("reindex")) as pipeline:
        rig = Rig(pipeline)
        await rig.load(TEXTS)
        yield rig


@CI_ONLY
async def test_another_chunk_size_is_built_takes_over_gives_back_and_goes(rig: Rig) -> None:
    first = (await rig.status())["serving"]
    plan = await rig.post("/ops/generations/start", {"chunkSize": 300, "dryRun": True})
    assert (plan["documents"], await rig.states()) == (COUNT, ["serving"])

    await rig.post("/ops/generations/start", {"chunkSize": 300})
    second = (await rig.until_ready())["id"]
    await rig.pipeline.send(DocumentSubmitted(source="s", path="0.md", text="A heron stands on the pier."))
    assert await rig.verified(second) == "right"
    assert (await rig.post("/ops/generations/switch", {"dryRun": True}))["serving"] == first
    assert (await rig.post("/ops/generations/switch", {}))["serving"] == second
    assert (await rig.post("/ops/generations/rollback", {"dryRun": True}))["serving"] == second
    assert await rig.states() == ["serving", "retired"]
    assert (await rig.found("heron on the pier"))[0] == ("0.md", "A heron stands on the pier.")
    assert await rig.verified() == "right"

    ended = await rig.pipeline.send(DocumentSubmitted(source="s", path="1.md", text="An otter swims in the harbour."))
    await _left_open(rig, ended)  # as if only the first one's stages had come that far
    back = await rig.post("/ops/generations/rollback", {})
    assert back["serving"] == first
    assert f"`sluice reindex switch {second}`" in back["sentence"], "the way forward is told"
    await rig.pipeline.end(ended.document_id, ended.last.place)
    assert (await rig.found("otter in the harbour"))[0] == ("1.md", "An otter swims in the harbour.")
    assert await rig.verified() == "right"

    assert "dropped" in (await rig.post("/ops/generations/gc", {}))["sentence"]
    assert await rig.states() == ["serving"]
    assert [group for group in await rig.pipeline.parts.log.groups() if second in group] == []
    collections = await rig.pipeline.parts.store.collections()
    assert [name for name in collections if second in name] == []
    entry = await rig.pipeline.parts.ledger.get(document_id("default", "s", "1.md"))
    assert entry is not None
    assert entry.last.status == "updated"


async def _left_open(rig: Rig, ended: Entry) -> None:
    def opened_again(entry: Entry | None) -> Entry:
        assert entry is not None
        return msgspec.structs.replace(entry, last=msgspec.structs.replace(entry.last, status="accepted"))

    await rig.pipeline.parts.ledger.update(ended.document_id, opened_again)


@CI_ONLY
async def test_another_model_takes_over_while_documents_come_and_searches_go_on(rig: Rig) -> None:
    await rig.pipeline.send(DocumentSubmitted(source="s", path="0.md", text="A heron stands on the pier."))
    searched, sent = [0], [0]
    ended = asyncio.Event()

    async def search() -> None:
        while not ended.is_set():
            assert (await rig.found("heron on the pier"))[0][0] == "0.md"
            searched[0] += 1

    async def send() -> None:
        while not ended.is_set():
            path, text = f"new-{sent[0]}.md", f"Parcel {sent[0]} stands in shed {sent[0]}."
            await rig.pipeline.send(DocumentSubmitted(source="s", path=path, text=text))
            assert path in [found for found, _ in await rig.found(text)], f"{path} was told created, and isn't found"
            sent[0] += 1

    before = rig.pipeline.embedded()
    async with asyncio.TaskGroup() as working:
        for each in (search, search, search, send):
            working.create_task(each())
        plan = await rig.post("/ops/generations/start", {"embedder": "minilm:"})
        second = (await rig.until_ready())["id"]
        assert (await rig.post("/ops/generations/switch", {}))["serving"] == second
        first = (await rig.post("/ops/generations/rollback", {}))["serving"]
        assert (await rig.post("/ops/generations/switch", {"id": second}))["serving"] == second
        ended.set()

    assert (searched[0] > 0, sent[0] > 0) == (True, True)
    assert plan["embed"] == plan["chunks"] > COUNT
    assert rig.pipeline.embedded() - before >= COUNT + 2 * sent[0]
    assert [await rig.verified(), await rig.verified(first)] == ["right", "right"]
    for generation in (first, second):
        async with opened(rig.pipeline.settings, generation) as parts:
            heads, _ = await Index(parts.store, parts.generation).heads_page()
        assert len([head for head in heads if not head.deleted]) == COUNT + sent[0]
    await rig.post("/ops/generations/gc", {})


@CI_ONLY
async def test_the_same_model_and_chunker_embed_nothing_and_other_chunks_only_new_texts(rig: Rig) -> None:
    first = (await rig.status())["serving"]
    before = rig.pipeline.embedded()

    plan = await rig.post("/ops/generations/start", {})
    await rig.until_ready()
    again = rig.pipeline.embedded() - before
    cancelled = (await rig.post("/ops/generations/cancel", {}))["sentence"]

    assert (plan["embed"], again) == (0, 0)
    assert ("dropped" in cancelled, await rig.states()) == (True, ["serving"])
    assert (await rig.status())["serving"] == first
    assert (await rig.post("/ops/generations/cancel", {}, 409))["code"] == "GENERATION"
    assert (await rig.post("/ops/generations/rollback", {}, 409))["code"] == "GENERATION"


@CI_ONLY
async def test_another_chunk_size_embeds_each_text_that_no_vector_was_made_of_once(rig: Rig) -> None:
    await rig.pipeline.send(DocumentSubmitted(source="s", path="short.md", text="A short one stays as it is."))
    first = await _texts(rig, (await rig.status())["serving"])
    before = rig.pipeline.embedded()

    await rig.post("/ops/generations/start", {"chunkSize": 350})
    second = await _texts(rig, (await rig.until_ready())["id"])

    assert "A short one stays as it is." in first & second
    assert rig.pipeline.embedded() - before == len(second - first) > 0
    await rig.post("/ops/generations/cancel", {})


async def _texts(rig: Rig, generation: str) -> set[str]:
    """Return the texts of the generation's chunks."""
    async with opened(rig.pipeline.settings, generation) as parts:
        page = await parts.store.scroll(parts.generation.chunks, limit=2000, fields=("text",))
    return {point.payload["text"] for point in page.points}


@CI_ONLY
async def test_an_erasure_reaches_every_generation(rig: Rig) -> None:
    words = "The smuggler hid the chest under the third plank."
    await rig.pipeline.send(DocumentSubmitted(source="s", path="secret.md", text=words))
    await rig.post("/ops/generations/start", {"chunkSize": 200})
    second = await rig.until_ready()

    erased = await rig.post("/ops/erase", {"documentIds": [document_id("default", "s", "secret.md")]})

    assert [each["outcome"] for each in erased["items"]] == ["erased"]
    async with opened(rig.pipeline.settings, second["id"]) as parts:
        index = Index(parts.store, parts.generation)
        assert await index.points(document_id("default", "s", "secret.md")) == 0
    for topic in await rig.chunk_topics():
        assert not [record for record in await rig.pipeline.records(topic) if b"smuggler" in (record.value or b"")]
    assert await rig.verified(second["id"]) == "right"
    await rig.post("/ops/generations/cancel", {})


@CI_ONLY
async def test_settings_that_differ_leave_the_index_as_it_is_and_are_named(tmp_path: Path) -> None:
    async with running(tmp_path, embedder="minilm:int8", chunk_size=400) as pipeline:
        await pipeline.send(DocumentSubmitted(source="s", path="heron.md", text="A heron stands on the pier."))
        first = pipeline.parts.index.generation

    async with running(tmp_path, embedder="minilm:", chunk_size=600) as pipeline:
        rig = Rig(pipeline)
        assert pipeline.parts.index.generation == first
        assert (await rig.found("heron on the pier"))[0][0] == "heron.md"
        assert await rig.verified() == "right"
        async with a_client(rig.api) as client:
            ready = (await client.get("/readyz")).json()
        assert ready["status"] == "ready"
        assert ready["details"]["settings"] == (
            "SLUICE_EMBEDDER=minilm: is not in force, the index was built with minilm:int8; "
            "SLUICE_CHUNK_SIZE=600 is not in force, the index was built with 400; "
            "build an index with it: sluice reindex start"
        )
        plan = await rig.post("/ops/generations/start", {"dryRun": True})
        assert (plan["embedder"], plan["chunkSize"]) == ("minilm:", 600)
        await rig.post("/ops/generations/start", {})
        await rig.until_ready()
        await rig.post("/ops/generations/switch", {})
        async with a_client(rig.api) as client:
            assert "settings" not in (await client.get("/readyz")).json().get("details", {})
        await rig.post("/ops/generations/rollback", {})

    async with running(tmp_path, embedder="minilm:int8", chunk_size=400) as pipeline:
        assert pipeline.parts.not_in_force == ()


@CI_ONLY
@pytest.mark.parametrize("tokenizer", [current_bm25().fingerprint, "bm25:elsewhere"])
async def test_an_index_of_other_code_answers_as_it_is_until_it_is_built_again(tmp_path: Path, tokenizer: str) -> None:
    made_by = "chunker elsewhere" if tokenizer == current_bm25().fingerprint else f"tokenizer {tokenizer}"
    settings, store, model = Settings(data=tmp_path), EdgeStore(tmp_path / "store"), default_embedder()
    await store.start()
    await model.start()
    wanted = msgspec.structs.replace(wanted_generation(settings, "elsewhere", model.model), bm25=tokenizer)
    first = first_registry(wanted, settings.embedder)
    other = msgspec.structs.replace(first, format=FORMAT + 1)
    await serving(store, other)
    await store.close()
    await model.close()

    async with running(tmp_path) as pipeline:
        assert pipeline.parts.generations is not None
        rig, store_ = Rig(pipeline), pipeline.parts.store
        await pipeline.send(DocumentSubmitted(source="s", path="heron.md", text="A heron stands on the pier."))
        async with a_client(rig.api) as client:
            said = (await client.get("/readyz")).json()["details"]["settings"]

        assert await registry_of(store_) == other
        assert (await rig.found("heron on the pier"))[0][0] == "heron.md"
        for part in (f"format {FORMAT + 1}", "chunker elsewhere", made_by, "sluice reindex start"):
            assert part in said
        async with opened(pipeline.settings) as parts:
            report = (await command.verify(parts, Quiet(), repair=False, dry_run=False, sample=0, patience_s=30)).report
        assert (report.verdict, report.made_by) == ("right", made_by.partition(" ")[2])

        await rig.post("/ops/generations/start", {})
        await rig.until_ready()
        await rig.post("/ops/generations/switch", {})
        known = await registry_of(store_)

        assert known is not None
        assert (known.format, known.current.generation.chunker) == (FORMAT, CHUNKER)
        assert await rig.verified() == "right"


@CI_ONLY
async def test_an_index_whose_registry_cant_be_read_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as pipeline:
        store = pipeline.parts.store
        point = (await store.retrieve(GENERATIONS, [REGISTRY_POINT]))[0]
        other = Point(id=point.id, payload={**point.payload, "format": FORMAT + 1, "serving": "unknown here"})
        await store.upsert(GENERATIONS, [other])

    with pytest.raises(ConfigurationError, match=f"its format is {FORMAT + 1}, this release has {FORMAT}"):
        async with running(tmp_path):
            pass


@CI_ONLY
async def test_two_generations_are_compared_by_questions_of_a_file_or_by_titles(rig: Rig) -> None:
    titled = "# The {0} of the harbour\n\nThe {0} stands on the pier and waits for the boat from the {0} island."
    for word in ("heron", "otter", "seal", "crane"):
        await rig.pipeline.send(DocumentSubmitted(source="s", path=f"{word}.md", text=titled.format(word)))
    assert "only one generation" in (await rig.post("/ops/generations/compare", {}, 409))["detail"]
    first = (await rig.status())["serving"]
    await rig.post("/ops/generations/start", {"chunkSize": 300})
    second = (await rig.until_ready())["id"]
    work = await rig.until_worked(second)

    drawn = await rig.post("/ops/generations/compare", {"sample": 4})
    questions = [
        {"question": "Which bird stands on the pier, a heron?", "documents": ["heron.md"]},
        {"question": "Where does the seal wait?", "documents": ["otter.md"]},
        {"question": "Who waits for the boat?"},
    ]
    asked = await rig.post("/ops/generations/compare", {"id": second, "questions": questions, "topK": 3})

    assert (drawn["serving"]["id"], drawn["other"]["id"], drawn["drawn"]) == (first, second, True)
    assert (drawn["questions"], drawn["judged"]) == (4, 4)
    assert drawn["drop"] == round(drawn["serving"]["ndcg"] - drawn["other"]["ndcg"], 4)
    assert drawn["serving"]["ndcg"] > 0  # several documents may have one title
    assert (asked["questions"], asked["judged"], asked["drawn"], asked["topK"]) == (3, 2, False, 3)
    assert asked["drop"] == round(asked["serving"]["ndcg"] - asked["other"]["ndcg"], 4)
    assert asked["serving"]["ndcg"] < 1.0
    for side in (asked["serving"], asked["other"]):
        assert side["documents"] == drawn["other"]["documents"]
        assert (side["diskBytes"] > 0, side["searchMs"] > 0) == (True, True)
    assert asked["other"]["chunks"] > asked["serving"]["chunks"]
    assert asked["other"]["embedded"] + asked["other"]["copied"] >= work
    assert asked["other"]["buildSeconds"] >= 0

    for wrong in ({"id": "0" * 12}, {"id": first}):
        assert (await rig.post("/ops/generations/compare", wrong, 409))["code"] == "GENERATION"
    await rig.post("/ops/generations/cancel", {})


@CI_ONLY
async def test_a_switch_that_would_lose_a_document_is_refused_unless_forced(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation_service, "SETTLE_S", 0.2)
    words = "The lighthouse keeper counts the ships."
    await rig.pipeline.send(DocumentSubmitted(source="s", path="keeper.md", text=words))
    name = document_id("default", "s", "keeper.md")
    await rig.post("/ops/generations/start", {"chunkSize": 250})
    second = (await rig.until_ready())["id"]
    parts = rig.pipeline.parts
    known = (await parts.watch.look()).find(second)
    assert known is not None
    index = Index(parts.store, known.generation)
    head = await index.head(name)
    assert head is not None
    await index.delete_version(name, head.version)

    refused = await rig.post("/ops/generations/switch", {}, 409)

    assert refused["code"] == "INCOMPLETE"
    assert "s/keeper.md" in refused["detail"]
    assert name in refused["detail"]
    assert (await rig.post("/ops/generations/switch", {"force": True}))["serving"] == second
    await rig.post("/ops/generations/rollback", {})
    assert (await rig.found(words))[0] == ("keeper.md", words)
    await rig.post("/ops/generations/gc", {})
