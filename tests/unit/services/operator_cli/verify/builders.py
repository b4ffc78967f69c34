"""A document as the log tells it, and as the store should hold it."""

from typing import Any

import msgspec
import numpy as np

from services.operator_cli.verify.compare import Expected, expected_of
from shared.contracts import BlobRef, Chunk, DocumentVersion, LogPosition
from shared.ids import document_id, text_hash
from shared.state.index import vector_hash
from shared.state.ledger import Accepted, Entry, Last
from shared.store import Payload, Point, Sparse

PLACE = LogPosition(partition=3, offset=7, time=1_700_000_000_000)
NAME = document_id("t", "s", "p")


def a_version(**fields: Any) -> DocumentVersion:
    given: dict[str, Any] = {
        "document_id": NAME,
        "version": 5,
        "place": PLACE,
        "tenant": "t",
        "source": "s",
        "path": "p",
        "outcome": "created",
        "raw_hash": "a" * 32,
        "title": "A title",
        "tags": ("red", "blue"),
        "metadata": {"colour": "red", "deep": {"list": [1, None]}},
        "text_sha256": "0" * 64,
        "text_size": 9,
        "created_at": 1_700_000_000_000,
        "updated_at": 1_700_000_000_001,
    }
    return DocumentVersion(**(given | fields))


def chunks_of(*texts: str) -> tuple[Chunk, ...]:
    return tuple(
        Chunk(order=n, text=text, hash=text_hash(text), start=n, end=n + len(text), tokens=1)
        for n, text in enumerate(texts)
    )


def an_expectation(*texts: str, **fields: Any) -> Expected:
    chunks = chunks_of(*texts)
    return expected_of(a_version(**fields), chunks, [Sparse([n], [0.5 + n]) for n in range(len(chunks))])


def right_points(wanted: Expected) -> list[Point]:
    """Return the points as the store holds them when all is well."""
    points = []
    for number, point in enumerate(wanted.points.values()):
        dense = np.array([number, 1], np.float32)
        metadata = {**point.payload["metadata"], "vectorHash": vector_hash(dense)}
        points.append(msgspec.structs.replace(point, payload={**point.payload, "metadata": metadata}, dense=dense))
    return points


def payload_of(struct: Any) -> Payload:
    """Return a head or an entry as the store holds it."""
    payload: Payload = msgspec.json.decode(msgspec.json.encode(struct))
    return payload


def right_entry(document: DocumentVersion) -> Entry:
    return Entry(
        document_id=document.document_id,
        tenant=document.tenant,
        source=document.source,
        path=document.path,
        rev=4,
        writer="w",
        accepted=Accepted(
            version=document.version,
            place=document.place,
            raw_hash=document.raw_hash,
            metadata_hash=document.metadata_hash,
            extractor=document.extractor,
            outcome=document.outcome,
            validators=document.validators,
            text=None if document.deleted else BlobRef(sha256=document.text_sha256 or "", size=document.text_size),
        ),
        last=Last(version=document.version, place=document.place, status=document.outcome, at=9),
        created_at=document.created_at,
        updated_at=document.updated_at,
    )
