"""Ledger entries for tests."""

from typing import Any

from shared.contracts import LogPosition, Status
from shared.state.ledger import Accepted, Entry, Last

FIRST = LogPosition(partition=0, offset=0, time=1)


def an_entry(
    document_id: str,
    *,
    accepted: int = 0,
    place: LogPosition = FIRST,
    status: Status = "accepted",
    raw_hash: str = "",
    **fields: Any,
) -> Entry:
    """Return how a document stands whose version `accepted` was taken; with 0 it was only submitted."""
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
