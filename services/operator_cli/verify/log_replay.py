"""Folds the log's records, one by one, into what should be in the index. No I/O.

`documents.extracted` is the truth: the answering version of a document is the newest one that has a value and no dead
letter. The dead letters tell which versions failed, and `documents.submitted`, as far back as it reaches, what was
submitted.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from shared.contracts import ERASED, DeadLetter, DocumentExtracted, LogPosition, decode
from shared.errors import Rejected
from shared.log import Record
from shared.log.headers import position_of
from shared.state.generations import AsOf
from shared.state.ledger import older
from shared.submission import document_id_of
from shared.topics import DAY, EXTRACTED, SUBMITTED, chunks_topic

# The codes of outages. A record with a dead letter of such a code was given up too early.
TRANSIENT = frozenset(
    {
        "unavailable",
        "log_unavailable",
        "log_timeout",
        "log_closed",
        "busy",
        "rebalance",
        "no_collection",
        "store_failed",
    }
)


class TruthRecord(NamedTuple):
    """The location of a version's newest record on documents.extracted."""

    partition: int
    offset: int
    time: int  # the log's time, ms since 1970


class LoggedLetter(NamedTuple):
    """The parts of a dead letter that the replay needs."""

    stage: str
    code: str
    sentence: str
    time: int  # ms since 1970, when the record was appended
    last_seen: int  # ms since 1970


class LoggedDocument(msgspec.Struct):
    """The log's information about one document."""

    versions: dict[int, TruthRecord] = msgspec.field(default_factory=dict)  # versions that have a value
    failures: dict[int, LoggedLetter] = msgspec.field(default_factory=dict)  # in the second and third stage
    submitted: LogPosition | None = None  # place of the newest submission that is still on the log


class LogReplay:
    """The log as far as it has been read."""

    def __init__(self, generation: str, as_of: AsOf | None = None) -> None:
        """Take the generation's id, and the past moment that it shows."""
        self._as_of = as_of
        self._generation = generation
        self._chunks = chunks_topic(generation)
        self._unreadable: dict[tuple[int, int], LoggedLetter] = {}  # of events, by partition and offset
        self._letters: set[tuple[str, int, int]] = set()  # stage, and partition and offset of the submission
        self.documents: dict[str, LoggedDocument] = {}
        self.open: dict[bytes, LoggedLetter] = {}  # letters that aren't settled, by key
        self.unread: dict[tuple[int, int], LogPosition] = {}  # unreadable submissions, by partition and offset
        self.oddities: list[str] = []  # sentences about records that no worker of ours writes

    def see(self, record: Record) -> str | None:
        """Add the next record; return the document that it is about, None if that is unknown."""
        if record.topic == SUBMITTED:
            return self._submitted(record)
        if record.topic == EXTRACTED:
            return self._extracted(record)
        if record.topic == self._chunks:
            return (record.key or b"").decode(errors="replace")
        return self._letter(record)

    def _submitted(self, record: Record) -> str | None:
        place = position_of(record)
        name = document_id_of(record)
        if name is None:
            self.unread[record.partition, record.offset] = place
            return None
        document = self.documents.setdefault(name, LoggedDocument())
        if document.submitted is None or older(document.submitted, place):
            document.submitted = place
        return name

    def _extracted(self, record: Record) -> str | None:
        name, _, number = (record.key or b"").decode(errors="replace").partition("/")
        if not (number.isascii() and number.isdigit()):
            self.oddities.append(
                f"the key {record.key!r} at {EXTRACTED}/{record.partition}@{record.offset} names no version"
            )
            return None
        document = self.documents.setdefault(name, LoggedDocument())
        if self._as_of is not None and not self._as_of.covers(record.partition, record.offset):
            if is_erasure(record):  # an erasure applies to all past moments
                document.versions = {int(number): TruthRecord(record.partition, record.offset, record.timestamp)}
            return name
        if record.value is None:
            document.versions.pop(int(number), None)
        else:
            document.versions[int(number)] = TruthRecord(record.partition, record.offset, record.timestamp)
        return name

    def _letter(self, record: Record) -> str | None:
        key = record.key or b""
        # Only the key is used: compaction leaves only the key of a settled letter, and removes that after a day.
        stage, _, *place = key.decode(errors="replace").split("/")[:4] if key.count(b"/") >= 3 else ("", "")
        if len(place) == 2 and all(part.isascii() and part.isdigit() for part in place):
            self._letters.add((stage, int(place[0]), int(place[1])))
        if record.value is None:
            self.open.pop(key, None)
            return None
        try:
            letter = decode(record.value, DeadLetter)
        except Rejected:
            self.oddities.append(f"{record.topic}/{record.partition}@{record.offset} is no dead letter")
            return None
        if letter.generation not in (None, self._generation):  # it doesn't concern this generation's points
            return letter.document_id
        seen = LoggedLetter(letter.stage, letter.code, letter.sentence, letter.time, letter.last_seen)
        self.open[key] = seen
        if letter.topic == EXTRACTED:
            self._unreadable[letter.partition, letter.offset] = seen
        if letter.topic in (EXTRACTED, self._chunks) and letter.document_id is not None and letter.version is not None:
            self.documents.setdefault(letter.document_id, LoggedDocument()).failures[letter.version] = seen
        return letter.document_id

    # Conclusions

    def set_aside(self, name: str, version: int) -> LoggedLetter | None:
        """Return why the version can't answer; None if no reason is known.

        A version that was published again after its dead letter may still answer.
        """
        document = self.documents[name]
        standing = document.versions[version]
        failure = document.failures.get(version)
        if failure is not None and failure.time >= standing.time:
            return failure
        return self._unreadable.get((standing.partition, standing.offset))

    def lettered(self, place: LogPosition, since: int, now: int) -> bool:
        """Return whether a stage dead-lettered the submission at `place`, or may have.

        `since` is the time of the failure and `now` the present, in ms since 1970. A settled letter leaves a null
        record, which compaction removes after a day, so after that an absent letter proves nothing.
        """
        known = any((stage, place.partition, place.offset) in self._letters for stage in ("ingest", "chunk", "embed"))
        return known or now - since > DAY

    def candidates(self, name: str) -> Iterator[int]:
        """Yield the versions that may answer, newest first, up to and including the first one without a failure."""
        for version in sorted(self.documents[name].versions, reverse=True):
            yield version
            if self.set_aside(name, version) is None:
                return


def is_erasure(record: Record) -> bool:
    """Return whether the record of documents.extracted erases a document."""
    try:
        return decode(record.value, DocumentExtracted).document.raw_hash == ERASED
    except Rejected:
        return False
