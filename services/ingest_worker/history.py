"""History: folds the log's records, one by one, into what they say of each document. No I/O.

`documents.extracted` is the truth: the newest version that has a value and no dead letter answers. The dead letters say
what failed, and `documents.submitted`, as far back as it is kept, what was submitted. A rebuild makes ledger entries of
this, and `sluice verify` compares the index with it.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from shared.contracts import (
    ERASED,
    MAX_NATURAL,
    BlobRef,
    DocumentExtracted,
    DocumentVersion,
    LetterHead,
    LogPosition,
    decode,
    like,
)
from shared.errors import Rejected
from shared.log import Record
from shared.log.headers import position_of
from shared.state.generations import AsOf
from shared.state.index import Head
from shared.state.ledger import Accepted, Entry, Last, older
from shared.submission import submission_of
from shared.topics import EXTRACTED, SUBMITTED, chunks_topic

_ERASED: bytes = ERASED.encode()  # in the record of every erasure


class VersionRecord(NamedTuple):
    """The newest record of a version on documents.extracted."""

    partition: int
    offset: int
    time: int  # ms since 1970, the log's


class FoldedLetters:
    """The dead letters, as far as they concern one generation."""

    def __init__(self, generation: str, before: Iterable[str] = ()) -> None:
        """Take the generation and the lost ones in whose place it is; letters of other ones tell nothing about it."""
        self._generations = {None, generation, *before}
        self._late = {EXTRACTED, chunks_topic(generation), *map(chunks_topic, before)}
        self._of_versions: dict[tuple[str, int], dict[bytes, LetterHead]] = {}  # settled ones, too, as the next
        self._of_records: dict[tuple[int, int], dict[bytes, LetterHead]] = {}  # by partition and offset of the event
        self._seen: dict[tuple[str, int, int], bool] = {}  # by stage and submission: whether a letter was settled
        self.open: dict[bytes, LetterHead] = {}  # by key
        self.oddities: list[str] = []  # sentences about records that no worker of ours writes

    def see(self, record: Record) -> str | None:
        """Add the next record of dead.letters; return the document that it is about, None if that is unknown."""
        key = record.key or b""
        # Only the key is used: compaction leaves only the key of a settled letter, and removes that after a day.
        stage, _, *place = key.decode(errors="replace").split("/")[:4] if key.count(b"/") >= 3 else ("", "")
        if len(place) == 2 and all(part.isascii() and part.isdigit() for part in place):
            submission = stage, int(place[0]), int(place[1])
            self._seen[submission] = record.value is None or self._seen.get(submission, False)
        if record.value is None:
            self.open.pop(key, None)
            return None
        try:
            letter = decode(record.value, LetterHead)
        except Rejected:
            self.oddities.append(f"{record.topic}/{record.partition}@{record.offset} is no dead letter")
            return None
        if letter.generation in self._generations:
            self.open[key] = letter
            if letter.topic == EXTRACTED:
                self._of_records.setdefault((letter.partition, letter.offset), {})[key] = letter
            if letter.topic in self._late and letter.document_id is not None and letter.version is not None:
                self._of_versions.setdefault((letter.document_id, letter.version), {})[key] = letter
        return letter.document_id

    def failure(self, name: str, version: int, at: VersionRecord, *, settled: bool) -> LetterHead | None:
        """Return the letter because of which the version can't answer; None if there is none.

        Letters that were settled only count with `settled`. A version that was published again after it was set aside
        has a new chance.
        """
        of_version = (each for each in self._of_versions.get((name, version), {}).items() if each[1].time >= at.time)
        of_record = self._of_records.get((at.partition, at.offset), {}).items()
        return next((letter for key, letter in (*of_version, *of_record) if settled or key in self.open), None)

    def of_submissions(self) -> dict[str, LetterHead]:
        """Return each document's newest failed submission whose letter is open."""
        newest: dict[str, LetterHead] = {}
        for letter in self.open.values():
            if letter.topic != SUBMITTED or letter.document_id is None:
                continue
            seen = newest.get(letter.document_id)
            if seen is None or older(seen.place, letter.place):
                newest[letter.document_id] = letter
        return newest

    def lettered(self, place: LogPosition) -> bool:
        """Return whether the submission has a dead letter, or had one that is still on the log."""
        return any((stage, place.partition, place.offset) in self._seen for stage in ("ingest", "chunk", "embed"))

    def settled(self, place: LogPosition) -> bool:
        """Return whether the submission had a dead letter that was settled."""
        return any(self._seen.get((stage, place.partition, place.offset)) for stage in ("ingest", "chunk", "embed"))


class EndedSubmission(NamedTuple):
    """The newest submission of a document that was read."""

    place: LogPosition
    deletes: tuple[str, str, str] | None  # tenant, source and path if it deletes; an erasure has no source and path


class FoldedVersions:
    """The versions of documents, as far as the truth has them: those of the present, or of a past moment."""

    def __init__(self, letters: FoldedLetters, as_of: AsOf | None = None) -> None:
        self._letters = letters
        self._as_of = as_of
        self.documents: dict[str, dict[int, VersionRecord]] = {}
        self.oddities: list[str] = []  # as of FoldedLetters

    def see(self, record: Record) -> str | None:
        """Add the next record of documents.extracted; return its document, None if the key names no version."""
        name, _, number = (record.key or b"").decode(errors="replace").partition("/")
        if not (number.isascii() and number.isdigit()):
            self.oddities.append(
                f"the key {record.key!r} at {EXTRACTED}/{record.partition}@{record.offset} names no version"
            )
            return None
        versions = self.documents.setdefault(name, {})
        standing = VersionRecord(record.partition, record.offset, record.timestamp)
        if self._as_of is not None and not self._as_of.covers(record.partition, record.offset):
            if erased(record) is not None:  # an erasure applies to all past moments
                versions.clear()
                versions[int(number)] = standing
        elif record.value is None:
            versions.pop(int(number), None)
        else:
            versions[int(number)] = standing
        if not versions:
            del self.documents[name]
        return name

    def failure(self, name: str, version: int, *, settled: bool = False) -> LetterHead | None:
        """Return why the version can't answer; None if no reason is known. Settled letters count with `settled`."""
        return self._letters.failure(name, version, self.documents[name][version], settled=settled)

    def candidates(self, name: str, *, settled: bool = False) -> Iterator[int]:
        """Yield the versions that may answer, newest first, up to and including the first one without a failure."""
        for version in sorted(self.documents.get(name, ()), reverse=True):
            yield version
            if self.failure(name, version, settled=settled) is None:
                return

    def newest(self) -> dict[int, str]:
        """Return each document by the offset of its newest version's record."""
        return {versions[max(versions)].offset: name for name, versions in self.documents.items()}


class History:
    """All that the log says about one generation's index, as far as it was read."""

    def __init__(self, generation: str, as_of: AsOf | None = None, before: Iterable[str] = ()) -> None:
        """Take the generation's id, the past moment that it shows, and the lost generations in whose place it is."""
        self._chunks = chunks_topic(generation)
        self.letters = FoldedLetters(generation, before)
        self.newest: dict[str, EndedSubmission] = {}  # submission of each document
        self.unreadable: dict[tuple[int, int], LogPosition] = {}  # submissions, by partition and offset
        self.versions = FoldedVersions(self.letters, as_of)

    def see(self, record: Record) -> str | None:
        """Add the next record; return the document that it is about, None if that is unknown."""
        if record.topic == SUBMITTED:
            return self._see_submission(record)
        if record.topic == EXTRACTED:
            return self.versions.see(record)
        if record.topic == self._chunks:  # what it says follows from the truth
            return (record.key or b"").decode(errors="replace")
        return self.letters.see(record)

    def _see_submission(self, record: Record) -> str | None:
        place = position_of(record)
        try:
            submitted = submission_of(record)
        except Rejected:
            self.unreadable[record.partition, record.offset] = place
            return None
        name = submitted.document_id
        seen = self.newest.get(name)
        if seen is None or older(seen.place, place):
            deletes = (submitted.tenant, submitted.source, submitted.path) if submitted.deleted else None
            self.newest[name] = EndedSubmission(place, deletes)
        return name

    @property
    def documents(self) -> set[str]:
        """Return the documents that were submitted or have a version."""
        return self.newest.keys() | self.versions.documents.keys()

    def entry(self, newest: DocumentVersion, *, failed: LetterHead | None, head: Head | None) -> Entry:
        """Return the ledger entry of a document with this newest version; `failed` and `head` are as in `entry_of`."""
        name = newest.document_id
        submitted = self.newest.get(name)
        older = tuple(each for each in sorted(self.versions.documents[name]) if each < newest.version)
        return entry_of(
            newest,
            self.versions.failure(name, newest.version),
            published=(*older, newest.version),
            failed_versions=tuple(each for each in older if self.versions.failure(name, each) is not None),
            submitted=submitted,
            failed=failed,
            settled=submitted is not None and self.letters.settled(submitted.place),
            head=head,
        )

    def bare(self, names: set[str], failed: Mapping[str, LetterHead]) -> list[Entry]:
        """Return the entries of those documents that have no version."""
        found = (
            entry_without_version(name, self.newest.get(name), failed.get(name))
            for name in sorted(names - self.versions.documents.keys())
        )
        return [entry for entry in found if entry is not None]


def erased(record: Record) -> DocumentVersion | None:
    """Return the version that erases a document; None if the record of documents.extracted is another one."""
    if record.value is None or _ERASED not in record.value:
        return None
    try:
        document = decode(record.value, DocumentExtracted).document
    except Rejected:
        return None
    return document if document.raw_hash == ERASED else None


# Entries of the ledger


def entry_of(
    newest: DocumentVersion,
    failure: LetterHead | None,
    *,
    published: tuple[int, ...] = (),
    failed_versions: tuple[int, ...] = (),
    submitted: EndedSubmission | None = None,
    failed: LetterHead | None = None,
    settled: bool = False,
    head: Head | None = None,
) -> Entry:
    """Return a document's ledger entry; `failure` is why its `newest` version can't answer.

    `published` are all versions that have a record, `failed_versions` those below the newest that failed, oldest first.
    `submitted` is its newest submission that has ended and `failed` the newest open letter of the first stage;
    `settled` says whether `submitted` had a dead letter that was settled. `head` is None unless the
    head and all of its points are in the index; a version that must be applied again is `accepted` until then.
    """
    entry = like(
        Entry,
        newest,
        rev=0,
        writer="",
        accepted=accepted_of(newest),
        last=_end(newest, failure, head),
        published=published,
        failed=failed_versions,
    )
    if failed is not None and older(newest.place, failed.place) and _last(failed, submitted):
        return _failed(entry, failed.place, failed)
    if submitted is None or not older(newest.place, submitted.place):
        return entry
    if settled:
        return _failed(entry, submitted.place, None)
    # It changed nothing, so it ended as the newest version did.
    return msgspec.structs.replace(
        entry,
        accepted=msgspec.structs.replace(entry.accepted, place=submitted.place),
        last=msgspec.structs.replace(entry.last, place=submitted.place),
    )


def accepted_of(version: DocumentVersion) -> Accepted:
    """Return the version as the ledger has accepted it."""
    text = None if version.deleted else BlobRef(sha256=version.text_sha256 or "", size=version.text_size)
    return msgspec.structs.replace(msgspec.convert(version, Accepted, from_attributes=True), text=text)


def _last(failed: LetterHead, submitted: EndedSubmission | None) -> bool:
    """Return whether the failed submission is the newest that ended."""
    return submitted is None or not older(failed.place, submitted.place)


def _end(newest: DocumentVersion, failure: LetterHead | None, head: Head | None) -> Last:
    if failure is not None:
        return Last(
            version=newest.version,
            place=newest.place,
            status="failed",
            at=failure.last_seen,
            error=failure.sentence,
            code=failure.code,
        )
    stands = head is not None and head.version == newest.version
    chunk_count = 0 if newest.deleted else head.chunk_count if head is not None and stands else None
    return Last(
        version=newest.version,
        place=newest.place,
        status=newest.outcome if stands or newest.deleted else "accepted",
        at=newest.updated_at,
        chunk_count=chunk_count,
    )


def _failed(entry: Entry, place: LogPosition, letter: LetterHead | None) -> Entry:
    """Return the entry with a later submission that failed; if it has no letter, the letter was settled."""
    version = min(max(entry.accepted.version + 1, place.time), MAX_NATURAL)
    settled_reason = "the submission was set aside, and its dead letter was settled since"
    last = Last(
        version=version,
        place=place,
        status="failed",
        at=place.time,
        error=letter.sentence if letter is not None else settled_reason,
        code=letter.code if letter is not None else None,
    )
    earlier = (entry.last,) if entry.accepted.version else ()
    return msgspec.structs.replace(entry, last=last, earlier=earlier, updated_at=place.time)


def entry_without_version(name: str, submitted: EndedSubmission | None, failed: LetterHead | None) -> Entry | None:
    """Return the entry of a document without a version on the log; None if the log has too little for one."""
    if failed is not None and _last(failed, submitted):
        place, failure = failed.place, failed
        tenant, source, path = failed.tenant, failed.source, failed.path
    elif submitted is not None and submitted.deletes is not None:
        place, failure = submitted.place, None
        tenant, source, path = submitted.deletes
    else:
        return None
    if tenant is None or source is None or path is None:
        return None
    last = Last(version=0, place=place, status="deleted", at=place.time)
    entry = Entry(
        document_id=name,
        tenant=tenant,
        source=source,
        path=path,
        rev=0,
        writer="",
        accepted=Accepted() if failure is not None else Accepted(place=place, raw_hash="" if source else ERASED),
        last=last,
        created_at=place.time,
        updated_at=place.time,
    )
    return entry if failure is None else _failed(entry, place, failure)
