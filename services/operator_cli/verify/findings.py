"""The differences between index and log, and the remedy of each."""

from typing import Literal, get_args

import msgspec

from shared.contracts import LogPosition, Message
from shared.state.index import Head
from shared.state.ledger import Entry
from shared.store import Filter, Point

Invariant = Literal["I1", "I2", "I3", "I4", "I5", "I6", "I7", "I8"]
INVARIANTS: tuple[Invariant, ...] = get_args(Invariant)
MEANINGS: dict[Invariant, str] = {
    "I1": "the index holds what the log says",
    "I2": "no duplicate, stale or deleted points",
    "I3": "every submission has ended",
    "I4": "dead letters have reasons, and none is from an outage",
    "I5": "committed offsets are within the log",
    "I6": "readers see one whole version (not checked here)",
    "I7": "no needless embeddings (not checked here)",
    "I8": "each point has its document's tenant",
}
_SHOWN = 10


class IndexDifference(Message, frozen=True):
    """One difference between the log and the stored state."""

    invariant: Invariant
    sentence: str
    document_id: str | None = None
    tenant: str | None = None


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """The repair of one document, in the order of the fields; the workers then apply what is published."""

    delete_points: tuple[str, ...] = ()
    drop_head: Filter | None = None  # the head in the state in which it was seen, if no version should answer
    mend_points: tuple[Point, ...] = ()  # points with sound vectors: overwritten, but not embedded again
    mend_head: Head | None = None
    drop_entry: Filter | None = None
    entry: Entry | None = None
    entry_rev: int | None = None  # revision of the replaced entry; None if there was none
    text: bool = False  # whether the text must be stored again as a blob
    publish: bool = False  # whether the answering version is published again
    resubmit: LogPosition | None = None  # submission about which the first stage decides again


class JudgedDocument(msgspec.Struct, frozen=True):
    """The differences and the remedy of one document."""

    differences: tuple[IndexDifference, ...] = ()
    remedy: Remedy = Remedy()


class VerifyReport(Message, frozen=True):
    """The result of a verification."""

    documents: int  # documents on the log
    points: int  # points compared, with their vectors
    embedded: int  # points whose text was embedded again and compared
    counts: dict[str, int]  # differences by invariant
    first: dict[str, tuple[IndexDifference, ...]]  # the first ten by invariant
    unsettled: tuple[str, ...]  # documents that were still changing at the end
    lag: dict[str, int]  # unfinished records by topic
    wrong: tuple[str, ...] = ()  # documents that differ
    strays: tuple[str, ...] = ()  # points that name no document
    made_by: str | None = None  # the index's chunker or tokenizer if it isn't this release's: chunks weren't compared

    @property
    def differences(self) -> int:
        """Return the number of differences."""
        return sum(self.counts.values())

    @property
    def verdict(self) -> Literal["right", "wrong", "unsettled"]:
        """Return `wrong` if anything differs, else `unsettled` if some documents couldn't be judged."""
        return "wrong" if self.differences else "unsettled" if self.unsettled else "right"


class Tally:
    """Counts differences, and keeps the first ten of each invariant and the names of all documents."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(INVARIANTS, 0)
        self.first: dict[Invariant, list[IndexDifference]] = {invariant: [] for invariant in INVARIANTS}
        self.wrong: dict[str, None] = {}
        self.strays: list[str] = []

    def add(self, difference: IndexDifference) -> None:
        """Count one more difference."""
        self.counts[difference.invariant] += 1
        if len(self.first[difference.invariant]) < _SHOWN:
            self.first[difference.invariant].append(difference)
        if difference.document_id is not None:
            self.wrong[difference.document_id] = None
