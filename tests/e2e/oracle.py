"""Compares all points of a stopped-down system with what an oracle expects: both directions, vectors too."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from shared.embedder import Embedder, Vector
from shared.embedder.half_precision import half_precision
from shared.store import Point
from shared.store.edge import EdgeStore
from tests.builders import default_embedder

QUIET_GUARD_S = 60.0

Alike = Callable[[Vector, Vector], bool]


def identical(one: Vector, other: Vector) -> bool:
    """Return whether a stored vector is that of the model to the bit, in the index's precision."""
    return one.tobytes() in (half_precision([other])[0].tobytes(), other.tobytes())


def nearly(one: Vector, other: Vector) -> bool:
    """Return whether they are the same but for what a server's batches change in the last digits."""
    return float(one @ other) >= 0.9999


async def all_points(store: EdgeStore, kind: str) -> list[Point]:
    """Return every point of the collections whose name begins with `kind`."""
    points = []
    for name in await store.collections():
        if not name.startswith(kind):
            continue
        after: str | None = None
        while True:
            page = await store.scroll(name, after=after, vectors=True, limit=500)
            points += page.points
            if page.after is None:
                break
            after = page.after
    return points


async def differences(
    folder: Path,
    expected: Mapping[str, tuple[str, ...]],
    embedder: Embedder | None = None,
    alike: Alike = identical,
    *,
    described: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
    quiet_s: float = QUIET_GUARD_S,
) -> list[str]:
    """Return what is wrong, as sentences: the store in `folder` against {document id: paragraphs}.

    `embedder` gives the vectors that should be there, the default model unless given; `described` the members that the
    metadata of each of a document's chunks must have. What is wrong for less than `quiet_s` isn't told: a sweep may
    still be at work.
    """
    store = EdgeStore(folder, attach=True)
    embedder = embedder or default_embedder()
    await store.start()
    await embedder.start()
    try:
        vectors: dict[str, Vector] = {}
        deadline = time.monotonic() + quiet_s
        while True:
            points = await all_points(store, "chunks.")
            texts = sorted({_embedded(point) for point in points} - vectors.keys())
            vectors |= zip(texts, await embedder.embed_documents(texts), strict=True)
            found = await _differences(store, points, expected, vectors, described, alike)
            if not found or time.monotonic() > deadline:
                return found
            await asyncio.sleep(0.5)
    finally:
        await embedder.close()
        await store.close()


def _embedded(point: Point) -> str:
    """Return what the model reads of a passage: what the point says is above it, then its text."""
    return "\n".join(filter(None, (point.payload.get("prefix"), point.payload["text"])))


def _place(point: Point) -> str:
    """Return title and section of the passage's document, of which a beginning may be above it."""
    return " > ".join(filter(None, (point.payload["metadata"].get(name) for name in ("title", "sectionTitle"))))


async def _differences(
    store: EdgeStore,
    points: list[Point],
    expected: Mapping[str, tuple[str, ...]],
    vectors: Mapping[str, Vector],
    described: Mapping[str, Mapping[str, Any]],
    alike: Alike,
) -> list[str]:
    found: list[str] = []
    keys = Counter((p.payload["metadata"]["documentId"], p.payload["metadata"]["chunkOrder"]) for p in points)
    found += [f"duplicate or stale: {key} stands {count} times" for key, count in keys.items() if count > 1]
    actual = {(p.payload["metadata"]["documentId"], p.payload["metadata"]["chunkOrder"]): p for p in points}
    wanted = {(document, order): text for document, texts in expected.items() for order, text in enumerate(texts)}
    found += [f"lost: {key}" for key in wanted.keys() - actual.keys()]
    found += [f"stale: {key}" for key in actual.keys() - wanted.keys()]
    for key in wanted.keys() & actual.keys():
        point = actual[key]
        if point.payload["text"] != wanted[key]:
            found.append(f"wrong text: {key}")
        elif not _place(point).startswith(point.payload.get("prefix", "")):
            found.append(f"wrong prefix: {key}")
        elif point.dense is None or not alike(point.dense, vectors[_embedded(point)]):
            found.append(f"wrong vector: {key}")
        else:
            wanted_of, metadata = described.get(key[0], {}), point.payload["metadata"]
            strange = {name: metadata.get(name) for name in wanted_of if metadata.get(name) != wanted_of[name]}
            if strange:
                found.append(f"wrong description: {key}: {strange}")
    heads = {p.id: p.payload for p in await all_points(store, "heads.")}
    for document, texts_ in expected.items():
        head = heads.get(document)
        versions = {p.payload["metadata"]["version"] for p in points if p.payload["metadata"]["documentId"] == document}
        if texts_ and (head is None or versions != {head["version"]} or head.get("chunkCount") != len(texts_)):
            found.append(f"head and points disagree: {document}")
    return found
