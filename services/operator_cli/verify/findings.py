"""What was found wrong, in words, and what would mend it."""

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
    "I2": "nothing twice, stale or of a deleted document",
    "I3": "every submission has ended",
    "I4": "set aside with its reason, and for no outage",
    "I5": "offsets stand within the log",
    "I6": "a reader sees one whole version: seen only while it runs",
    "I7": "no embedding too many: seen only while it runs",
    "I8": "each point is its document's tenant's",
}
_SHOWN = 10


class IndexDifference(Message, frozen=True):
    """One thing that is not as the log says."""

    invariant: Invariant
    sentence: str
    document_id: str | None = None
    tenant: str | None = None


class Remedy(msgspec.Struct, frozen=True, kw_only=True):
    """What mends a document, in this order; then the workers do the rest."""

    delete_points: tuple[str, ...] = ()
    drop_head: Filter | None = None  # the point as it was seen, of which nothing is left to keep
    mend_points: tuple[Point, ...] = ()  # whose own vector is sound: copied, not embedded
    mend_head: Head | None = None
    drop_entry: Filter | None = None
    entry: Entry | None = None
    entry_rev: int | None = None  # what it replaces; None where nothing was there
    text: bool = False  # has to be put again as a blob
    publish: bool = False  # the version that answers, again
    resubmit: LogPosition | None = None  # the first stage decides again


class JudgedDocument(msgspec.Struct, frozen=True):
    """A document that was looked at."""

    differences: tuple[IndexDifference, ...] = ()
    remedy: Remedy = Remedy()


class VerifyReport(Message, frozen=True):
    """What a verification has seen."""

    documents: int  # that the log tells of
    points: int  # compared, each with its vectors
    embedded: int  # of these, embedded anew and compared
    counts: dict[str, int]  # differences by invariant
    first: dict[str, tuple[IndexDifference, ...]]  # the first ten by invariant
    unsettled: tuple[str, ...]  # documents that were still changing when the patience ended
    lag: dict[str, int]  # records by topic that its stage hasn't finished
    wrong: tuple[str, ...] = ()  # documents that differ
    strays: tuple[str, ...] = ()  # points that name no document
    older_chunker: int = 0  # documents that are right, and cut as an older chunker did

    @property
    def differences(self) -> int:
        """Return how many differences there are."""
        return sum(self.counts.values())

    @property
    def verdict(self) -> Literal["right", "wrong", "unsettled"]:
        """Return `wrong` when anything differs, `unsettled` when some documents couldn't be judged."""
        return "wrong" if self.differences else "unsettled" if self.unsettled else "right"


class Tally:
    """Counts differences, and keeps the first ten of each invariant and the names of all documents."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(INVARIANTS, 0)
        self.first: dict[Invariant, list[IndexDifference]] = {invariant: [] for invariant in INVARIANTS}
        self.wrong: dict[str, None] = {}
        self.strays: list[str] = []

    def add(self, difference: IndexDifference) -> None:
        """Take in one more."""
        self.counts[difference.invariant] += 1
        if len(self.first[difference.invariant]) < _SHOWN:
            self.first[difference.invariant].append(difference)
        if difference.document_id is not None:
            self.wrong[difference.document_id] = None
