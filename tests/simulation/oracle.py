"""Computes what must be in the index from the records that were sent, by correctness.md, section 1, and nothing else.

It shares contracts and ids with the workers, and no decision.
"""

import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

import msgspec

from shared.ids import document_id
from shared.log import Record
from tests.fakes.blobs import UNKEPT
from tests.fakes.embedder import REFUSED, UNEMBEDDABLE

OURS = frozenset({"sluice-place", "sluice-rekeyed", "sluice-redrive"})


_id = lru_cache(document_id)


class Sent(msgspec.Struct, frozen=True):
    """A submission as the log has it."""

    place: tuple[int, int, int]  # time, partition, offset: the order of correctness.md, section 1
    tenant: str
    texts: tuple[str, ...] | None  # None: it deletes
    title: str | None
    tags: tuple[str, ...]
    mendable: str | None  # the stage that can't take it until it is mended
    hopeless: bool  # nothing will ever take it
    erases: bool

    def fails(self, *, mended: bool) -> bool:
        return self.hopeless or (self.mendable is not None and not mended)


class Expected(msgspec.Struct, frozen=True):
    """A document as it must stand at the end."""

    answer: Sent | None  # the newest that didn't fail; None: there is none
    newest: Sent
    failed: bool  # the newest did


def again(record: Record) -> bool:
    """Return whether a worker or an operator sent the record again."""
    return bool(OURS & {name for name, _ in record.headers})


def sent(records: Iterable[Record], blobs: Mapping[str, bytes]) -> dict[str, list[Sent]]:
    """Return the submissions of each document, oldest first; `blobs` are all that ever were, by name."""
    found: dict[str, list[Sent]] = {}
    for record in records:
        if again(record):
            continue
        body: dict[str, Any] = json.loads(record.value)
        id_ = body.get("erases") or _id(body["tenant"], body["source"], body["path"])
        found.setdefault(id_, []).append(_sent(record, body, blobs))
    return {id_: sorted(each, key=lambda sent: sent.place) for id_, each in found.items()}


def _sent(record: Record, body: dict[str, Any], blobs: Mapping[str, bytes]) -> Sent:
    text: str | None = body.get("text")
    unkept = "chunk"
    if "blob" in body:
        text, unkept = blobs[body["blob"]["sha256"]].decode(), "ingest"
    deletes = body.get("deleted", False)
    return Sent(
        place=(record.timestamp, record.partition, record.offset),
        tenant=body["tenant"],
        texts=None if deletes else tuple((text or "").split("\n\n")),
        title=body.get("title"),
        tags=tuple(body.get("tags", ())),
        mendable=unkept if UNKEPT in (text or "") else "embed" if _unembeddable(text or "") else None,
        hopeless=text is None and not deletes,
        erases="erases" in body,
    )


def _unembeddable(text: str) -> bool:
    return UNEMBEDDABLE in text or REFUSED in text


def expected(submissions: dict[str, list[Sent]], *, mended: bool) -> dict[str, Expected]:
    """Return how each document must stand when everything has ended."""
    found: dict[str, Expected] = {}
    for id_, all_ in submissions.items():
        good = [each for each in all_ if not each.fails(mended=mended)]
        found[id_] = Expected(good[-1] if good else None, all_[-1], failed=all_[-1].fails(mended=mended))
    return found
