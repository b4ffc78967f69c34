"""Builders of values that tests in several places need; each shows only what matters to its test."""

from collections.abc import Iterable
from typing import Any, Final

from aiokafka import ConsumerRecord

from shared.contracts import Chunk, DocumentVersion, LogPosition, Status
from shared.embedder import Embedder
from shared.embedder.open import open_embedder
from shared.ids import text_hash
from shared.log import Record
from shared.settings import Settings
from shared.state.ledger import Accepted, Entry, Last

PLACE: Final = LogPosition(partition=3, offset=7, time=1_700_000_000_000)
FIRST: Final = LogPosition(partition=0, offset=0, time=1)


def a_record(value: bytes | None = b"body", headers: Iterable[tuple[str, bytes | None]] = (), **more: Any) -> Record:
    """Return a record of documents.submitted as it is read from the log."""
    return ConsumerRecord(
        **{
            "topic": "documents.submitted",
            "partition": 3,
            "offset": 41,
            "timestamp": 1_700,
            "timestamp_type": 1,
            "key": b"k\xff",
            "value": value,
            "checksum": None,
            "serialized_key_size": 2,
            "serialized_value_size": 0,
            "headers": tuple(headers),
            **more,
        }
    )


def an_event(offset: int, key: bytes | None = b"k", value: bytes | None = b"v") -> Record:
    """Return a record at an offset, with two headers."""
    return ConsumerRecord("events", 0, offset, 0, 1, key, value, None, 0, 0, (("h", b"12"), ("null", None)))


def a_version(**fields: object) -> DocumentVersion:
    """Return version 5 of document d."""
    given: dict[str, object] = {
        "document_id": "d",
        "version": 5,
        "place": PLACE,
        "tenant": "t",
        "source": "s",
        "path": "p",
        "outcome": "created",
        "created_at": 1_700_000_000_000,
        "updated_at": 1_700_000_000_001,
    }
    return DocumentVersion(**(given | fields))  # type: ignore[arg-type]  # a builder


def chunks_of(*texts: str) -> list[Chunk]:
    """Return a chunk per text."""
    return [
        Chunk(order=n, text=text, hash=text_hash(text), start=n, end=n + len(text), tokens=1)
        for n, text in enumerate(texts)
    ]


def an_entry(
    document_id: str,
    *,
    accepted: int = 0,
    place: LogPosition = FIRST,
    status: Status = "accepted",
    raw_hash: str = "",
    **fields: Any,
) -> Entry:
    """Return the ledger entry of a document whose version `accepted` was accepted; with 0 it was only submitted."""
    last = Last(version=accepted, place=place, status=status, at=1)
    taken = Accepted(version=accepted, place=place, raw_hash=raw_hash) if accepted else Accepted()
    plain: dict[str, Any] = {
        "tenant": "default",
        "source": "s",
        "path": "p",
        "rev": 0,
        "writer": "",
        "created_at": 1,
        "updated_at": 1,
    }
    return Entry(document_id=document_id, accepted=taken, last=last, **(plain | fields))


def default_embedder() -> Embedder:
    """Return the embedder of a new folder where nothing is set, not started."""
    return open_embedder(Settings.model_fields["embedder"].default)


class Counted:
    """A part that counts the calls of its methods."""

    def __init__(self, part: Any) -> None:
        self._part = part
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._part, name)
        if not callable(method):
            return method

        def counted(*args: Any, **options: Any) -> Any:
            self.calls.append(name)
            return method(*args, **options)

        return counted
