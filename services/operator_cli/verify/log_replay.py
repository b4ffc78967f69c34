"""What the log says, folded record by record. No I/O.

`documents.extracted` is the truth: the newest version of a document that has a value and wasn't set aside is the one
that answers. The dead letters say what was set aside, and `documents.submitted`, as far back as it reaches, what has
been asked for.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from shared.contracts import DeadLetter, LogPosition, decode
from shared.errors import Rejected
from shared.log import Record
from shared.log.headers import position_of
from shared.state.ledger import older
from shared.submission import submission_of
from shared.topics import DAY, EXTRACTED, SUBMITTED, chunks_topic

# What an outage is called where it is raised. A record that was set aside for one of these was given up too early.
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
    """Where the newest record of a version stands on documents.extracted."""

    partition: int
    offset: int
    time: int  # ms since 1970, the log's


class LoggedLetter(NamedTuple):
    """What a dead letter says of its record."""

    stage: str
    code: str
    sentence: str
    time: int  # ms since 1970, when the record was appended
    last_seen: int  # ms since 1970


class LoggedDocument(msgspec.Struct):
    """What the log tells of one document."""

    versions: dict[int, TruthRecord] = msgspec.field(default_factory=dict)  # those that have a value
    failures: dict[int, LoggedLetter] = msgspec.field(default_factory=dict)  # in the stages that make chunks and points
    submitted: LogPosition | None = None  # of the newest submission that is still on the log


class LogReplay:
    """The log, as far as it has been read."""

    def __init__(self, generation: str) -> None:
        self._generation = generation
        self._chunks = chunks_topic(generation)
        self._unreadable: dict[tuple[int, int], LoggedLetter] = {}  # events, by partition and offset
        self._letters: set[tuple[str, int, int]] = set()  # stage, and partition and offset of the submission
        self.documents: dict[str, LoggedDocument] = {}
        self.open: dict[bytes, LoggedLetter] = {}  # letters that nobody has settled, by key
        self.unread: dict[
            tuple[int, int], LogPosition
        ] = {}  # submissions that name no document, by partition and offset
        self.oddities: list[str] = []  # records that no worker of ours writes

    def see(self, record: Record) -> str | None:
        """Take in the next record; return the document that it is about, where that can be told."""
        if record.topic == SUBMITTED:
            return self._submitted(record)
        if record.topic == EXTRACTED:
            return self._extracted(record)
        if record.topic == self._chunks:
            return (record.key or b"").decode(errors="replace")
        return self._letter(record)

    def _submitted(self, record: Record) -> str | None:
        place = position_of(record)
        name = _document_of(record)
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
        if record.value is None:
            document.versions.pop(int(number), None)
        else:
            document.versions[int(number)] = TruthRecord(record.partition, record.offset, record.timestamp)
        return name

    def _letter(self, record: Record) -> str | None:
        key = record.key or b""
        # From the key alone: compaction leaves only the key of a settled letter, and after a day nothing.
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
        if letter.generation not in (None, self._generation):  # it says nothing of this generation's points
            return letter.document_id
        seen = LoggedLetter(letter.stage, letter.code, letter.sentence, letter.time, letter.last_seen)
        self.open[key] = seen
        if letter.topic == EXTRACTED:
            self._unreadable[letter.partition, letter.offset] = seen
        if letter.topic in (EXTRACTED, self._chunks) and letter.document_id is not None and letter.version is not None:
            self.documents.setdefault(letter.document_id, LoggedDocument()).failures[letter.version] = seen
        return letter.document_id

    # What follows from it

    def set_aside(self, name: str, version: int) -> LoggedLetter | None:
        """Return why the version can't answer; None if no reason is known.

        A version that was published again after it was set aside has a new chance.
        """
        document = self.documents[name]
        standing = document.versions[version]
        failure = document.failures.get(version)
        if failure is not None and failure.time >= standing.time:
            return failure
        return self._unreadable.get((standing.partition, standing.offset))

    def lettered(self, place: LogPosition, since: int, now: int) -> bool:
        """Return whether some stage set aside what was submitted at `place`, or may have.

        `since` is when it failed, and `now` the time, in ms since 1970: a letter that was settled leaves a null, and
        compaction takes that after a day.
        """
        known = any((stage, place.partition, place.offset) in self._letters for stage in ("ingest", "chunk", "embed"))
        return known or now - since > DAY

    def candidates(self, name: str) -> Iterator[int]:
        """Yield the versions that may answer, newest first, up to the first with nothing against it."""
        for version in sorted(self.documents[name].versions, reverse=True):
            yield version
            if self.set_aside(name, version) is None:
                return


def _document_of(record: Record) -> str | None:
    try:
        return submission_of(record).document_id
    except Rejected:
        return None
