"""Measures the cosines of a model without a calibration, once for each generation. docs/adr/0020-scores.md

Each model has its own scale: unrelated texts have a cosine of 0.1 by one and of 0.7 by another. The same pairs by the
built-in model tell what a cosine would be on the scale that scores are calibrated for.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from statistics import fmean, pstdev
from typing import Final

import structlog

from shared.embedder import Embedder
from shared.embedder.open import open_embedder
from shared.runtime.stage_runner import GenerationParts
from shared.settings import ConfigurationError
from shared.state.generation_watch import GenerationWatch
from shared.state.generations import CosineScale, change, scaled
from shared.state.index import Index, embedded_text
from shared.store import Payload, Point, Store

ENOUGH: Final = 200  # passages
PAIRS: Final = 300
_ADDRESS: Final = "minilm:int8"  # of the built-in model
# The built-in model reads English. Where fewer than `_FEWEST` pairs may be English, these are its mean and spread.
_FEWEST: Final = 100
_ENGLISH: Final = (0.07, 0.10)
_ROUNDS: Final = 10  # in which each heading gets another passage
_WORDS: Final = 8  # of a passage without heading and title that stand for them

log = structlog.get_logger(__name__)


async def measure(parts: GenerationParts, store: Store, watch: GenerationWatch) -> None:
    """Measure the generation's cosines, unless they are known, or it hasn't enough passages yet.

    Raises:
        PipelineError: a part is away, or refuses a heading. ConfigurationError: another release wrote the registry.
    """
    generation = parts.registered.id
    known = (await watch.certain()).find(generation)
    if known is None or known.cosines is not None:
        return
    if (found := await cosine_scale(parts.index, parts.embedder)) is not None:
        await change(store, partial(scaled, id_=generation, cosines=found))
        log.info("cosines_measured", generation=generation, mean=found.mean, spread=found.spread)


async def cosine_scale(index: Index, embedder: Embedder) -> CosineScale | None:
    """Return the scale of the model's cosines; None if the index hasn't enough passages of several documents.

    Raises:
        PipelineError: a part is away, or refuses a heading.
    """
    points = await index.sample(2 * PAIRS)
    if len(points) < ENOUGH:
        return None
    pairs = list(islice(unrelated(points), PAIRS))
    if len(pairs) < _FEWEST:
        return None
    english = [(heading, point) for heading, point in pairs if _may_be_english(heading + point.payload["text"])]
    built_in = await _by_built_in(english) if len(english) >= _FEWEST else []
    own = []
    for heading, point in english if built_in else pairs:
        assert point.dense is not None  # of `unrelated`
        own.append(float((await embedder.embed_query(heading)) @ point.dense))
    if not pstdev(own):
        return None
    mean, spread = (fmean(built_in), pstdev(built_in)) if built_in else _ENGLISH
    return CosineScale(mean=fmean(own), spread=pstdev(own), built_in_mean=mean, built_in_spread=spread)


def unrelated(points: Sequence[Point]) -> Iterator[tuple[str, Point]]:
    """Yield headings, each with a passage of another document that stands under another heading."""
    headings = [_heading(point.payload) for point in points]
    for step in range(1, min(len(points), _ROUNDS + 1)):
        for at, point in enumerate(points):
            other = points[to := (at + step) % len(points)]
            apart = _document(point) != _document(other) and headings[at] != headings[to]
            if apart and headings[at] and other.dense is not None:
                yield headings[at], other


def _may_be_english(text: str) -> bool:
    letters = [letter for letter in text if letter.isalpha()]
    return 10 * sum(map(str.isascii, letters)) > 9 * len(letters)


def _heading(payload: Payload) -> str:
    """Return the passage's innermost heading, else its document's title, else its first words."""
    of = payload["metadata"]
    section: str = of.get("sectionTitle") or ""
    return section.rsplit(" > ", 1)[-1] or of.get("title") or " ".join(payload["text"].split()[:_WORDS])


def _document(point: Point) -> str:
    name: str = point.payload["metadata"]["documentId"]
    return name


async def _by_built_in(pairs: Sequence[tuple[str, Point]]) -> list[float]:
    """Return the cosine of each pair by the built-in model; none if it isn't installed."""
    model = open_embedder(_ADDRESS)
    try:
        await model.start()
        return [(await model.similarities(heading, [embedded_text(point.payload)]))[0] for heading, point in pairs]
    except ConfigurationError as error:
        log.info("built_in_model_missing", reason=str(error))
        return []
    finally:
        await model.close()
