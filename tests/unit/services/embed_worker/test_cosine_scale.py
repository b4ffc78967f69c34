"""A model without a calibration, whose cosines are on a scale of their own."""

from collections.abc import AsyncIterator, Sequence
from functools import partial
from pathlib import Path

import msgspec
import pytest
from pydantic import SecretStr

from services.embed_worker import cosine_scale
from services.embed_worker.cosine_scale import cosine_scale as measured
from services.embed_worker.cosine_scale import unrelated
from services.query_api.search.candidates import Candidate
from services.query_api.search.relevance import question, scorer_of
from shared.embedder import Embedder, Vector
from shared.embedder.openai import openai_embedder
from shared.ids import point_id, text_hash
from shared.log.publish import publish
from shared.log.sqlite import SqliteLog
from shared.model_server.openai import OpenAiAddress
from shared.runtime.stage_runner import GenerationParts
from shared.settings import ConfigurationError
from shared.state.generation_statuses import GenerationStatuses
from shared.state.generation_watch import GenerationWatch
from shared.state.generations import REGISTRY_POINT, CosineScale, first_registry, scaled
from shared.state.index import GENERATIONS, Index
from shared.state.ledger import Ledger
from shared.store import Point
from shared.store.bm25 import current_bm25
from tests.fakes.embedder import MemoryEmbedder, vector_of
from tests.fakes.state import GENERATION
from tests.fakes.store import MemoryStore
from tests.features import features
from tests.selection import CI_ONLY
from tests.servers.fake_openai import EMBEDDING_MODEL, fake_openai

SUBJECTS = ("ferry", "mill", "bridge", "heron", "lantern", "harbour", "orchard", "quarry")
VERBS = ("painted", "mended", "counted", "sold", "measured", "closed", "opened")
THINGS = ("rye", "ropes", "stones", "apples", "tolls")
RUSSIAN = "тридцать букв другого письма тоже"


def text_of(number: int, sign: str = RUSSIAN) -> str:
    subject, verb = SUBJECTS[number % 8], VERBS[number // 8 % 7]
    return f"The {subject} keeper {verb} all {THINGS[number // 56]} in year {number}, {sign}."


def a_point(number: int, vector: Vector, *, documents: int = 40, sign: str = RUSSIAN) -> Point:
    name, text = f"document {number % documents}", text_of(number, sign)
    metadata = {
        "documentId": name,
        "version": 1,
        "chunkOrder": number,
        "tenant": "t",
        "title": f"Chronicle {number % documents}",
        "sectionTitle": f"Chronicle {number % documents} > {SUBJECTS[number % 8]} {number}",
        "embeddedHash": text_hash(text),
    }
    return Point(id=point_id(name, 1, number), payload={"text": text, "metadata": metadata}, dense=vector)


async def filled(model: Embedder, count: int, *, documents: int = 40, sign: str = RUSSIAN) -> Index:
    vectors = await model.embed_documents([text_of(number, sign) for number in range(count)])
    index = Index(MemoryStore(), msgspec.structs.replace(GENERATION, model=model.model))
    await index.create()
    await index.put([a_point(n, vector, documents=documents, sign=sign) for n, vector in enumerate(vectors)])
    return index


@pytest.fixture
async def narrow() -> AsyncIterator[Embedder]:
    """Give a model by whose cosines all texts are near each other."""
    async with fake_openai() as server:
        server.narrow = 3.0
        model = openai_embedder(OpenAiAddress(server.base, EMBEDDING_MODEL), SecretStr(""))
        await model.start()
        yield model
        await model.close()


async def passing(model: Embedder, scale: CosineScale | None, pairs: Sequence[tuple[str, str]]) -> int:
    """Return how many of the questions have a score at the default gate or above with their passages."""
    scorer, count = scorer_of("BAAI/bge-m3", scale), 0
    for asked, text in pairs:
        [vector] = await model.embed_documents([text])
        cosine = float((await model.embed_query(asked)) @ vector)
        count += scorer.score(*features(question(asked), Candidate(text, cosine=cosine))) >= 0.02
    return count


@CI_ONLY
async def test_scores_of_a_model_with_near_cosines_refuse_what_is_off_the_subject(narrow: Embedder) -> None:
    index = await filled(narrow, 240)

    scale = await measured(index, narrow)

    assert scale is not None
    assert scale.mean > 0.85
    assert scale.spread < scale.built_in_spread
    off = [(f"Recipe {number} for vegetable soup with garlic?", text_of(number)) for number in range(40)]
    on = [
        (f"When was it that the {SUBJECTS[n % 8]} keeper {VERBS[n // 8 % 7]} {THINGS[n // 56]}?", text_of(n))
        for n in range(40)
    ]
    assert await passing(narrow, scale, off) <= 6
    assert await passing(narrow, scale, on) == 40


@pytest.mark.parametrize(("count", "documents"), [(199, 40), (240, 1)])
async def test_a_small_index_and_one_of_a_single_document_have_no_scale(count: int, documents: int) -> None:
    model = MemoryEmbedder()
    index = await filled(model, count, documents=documents)
    model.asked.clear()

    assert await measured(index, model) is None
    assert model.asked == []


@CI_ONLY
async def test_english_pairs_are_compared_by_the_built_in_model(narrow: Embedder) -> None:
    foreign = await measured(await filled(narrow, 240), narrow)
    english = await measured(await filled(narrow, 240, sign="“so they say” – ’tis true"), narrow)

    assert foreign is not None
    assert english is not None
    assert english.mean == pytest.approx(foreign.mean, abs=0.02)
    assert 0.0 < english.built_in_mean < 0.6, "of texts that are all alike"
    assert (english.built_in_mean, english.built_in_spread) != (foreign.built_in_mean, foreign.built_in_spread)


def test_pairs_are_of_two_documents_and_two_headings() -> None:
    points = [a_point(number, vector_of(text_of(number)), documents=3) for number in range(9)]

    pairs = list(unrelated(points))

    headings = {f"{SUBJECTS[n % 8]} {n}": n % 3 for n in range(9)}
    assert len(pairs) == 9 * 6
    assert all(point.payload["metadata"]["documentId"] != f"document {headings[name]}" for name, point in pairs)


async def test_a_registry_that_can_not_be_read_now_is_read_again(tmp_path: Path) -> None:
    store, registry, broker = MemoryStore(), first_registry(GENERATION), SqliteLog(tmp_path / "log").broker("test")
    watch, send = GenerationWatch(store, "test"), partial(publish, broker)
    parts = GenerationParts(
        registered=registry.current,
        index=Index(store, GENERATION),
        embedder=MemoryEmbedder(),
        bm25=current_bm25(),
        statuses=GenerationStatuses(Ledger(store), send, store=store, watch=watch, generation=GENERATION.id),
        publish=send,
        broker=broker,
        fills=lambda: False,
        siblings=list,
    )
    await store.create_collection(GENERATIONS, size=None, sparse=False, indexes={})
    await store.upsert(GENERATIONS, [Point(id=REGISTRY_POINT, payload={"format": 99})])

    with pytest.raises(ConfigurationError):
        await cosine_scale.measure(parts, store, watch)
    known = scaled(registry, GENERATION.id, CosineScale(mean=0.8, spread=0.1, built_in_mean=0.1, built_in_spread=0.1))
    await store.upsert(GENERATIONS, [Point(id=REGISTRY_POINT, payload=msgspec.to_builtins(known))])

    await cosine_scale.measure(parts, store, watch)

    assert (await watch.certain()).current.cosines == known.current.cosines


def test_a_scale_that_is_there_stays() -> None:
    registry = first_registry(GENERATION)
    one, other = (CosineScale(mean=mean, spread=0.1, built_in_mean=0.1, built_in_spread=0.1) for mean in (0.8, 0.7))

    first = scaled(registry, GENERATION.id, one)

    assert first.current.cosines == one
    assert scaled(first, GENERATION.id, other) is first
    assert scaled(registry, "another", one) is registry
