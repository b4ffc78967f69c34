"""Folds the log's records, one by one, into a ledger entry per document. No I/O.

`documents.extracted` has the versions, the dead letters say what failed, and `documents.submitted`, as far as it is
kept, says which submissions had ended without a version of their own.
"""

from typing import NamedTuple

import msgspec

from shared.contracts import ERASED, MAX_NATURAL, BlobRef, DocumentVersion, LogPosition, Message, decode
from shared.errors import Rejected
from shared.log import Record
from shared.log.headers import position_of
from shared.state.index import Head
from shared.state.ledger import Accepted, Entry, Last, older
from shared.submission import submission_of
from shared.topics import EXTRACTED, SUBMITTED, chunks_topic


class FoldedLetter(Message, frozen=True):
    """The parts of a dead letter that the fold needs."""

    stage: str
    code: str
    sentence: str
    topic: str
    partition: int
    offset: int
    time: int  # ms since 1970, when its record was appended
    place: LogPosition
    document_id: str | None = None
    tenant: str | None = None
    source: str | None = None
    path: str | None = None
    version: int | None = None
    last_seen: int = 0  # ms since 1970
    generation: str | None = None


class FoldedLetters:
    """The open dead letters, and the log positions whose letters were settled."""

    def __init__(self, generation: str) -> None:
        """Take the generation that serves; letters of other ones tell nothing."""
        self._generation = generation
        self._chunks_topic = chunks_topic(generation)
        self._open: dict[bytes, FoldedLetter] = {}
        self._settled: set[tuple[str, int, int]] = set()  # stage, and partition and offset of the submission

    def see(self, record: Record) -> None:
        """Add the next record of dead.letters; one that can't be read is ignored."""
        key = record.key or b""
        if record.value is None:
            self._open.pop(key, None)
            stage, _, *place = key.decode(errors="replace").split("/")[:4] if key.count(b"/") >= 3 else ("", "")
            if len(place) == 2 and all(part.isascii() and part.isdigit() for part in place):
                self._settled.add((stage, int(place[0]), int(place[1])))
            return
        try:
            letter = decode(record.value, FoldedLetter)
        except Rejected:
            return
        if letter.generation in (None, self._generation):
            self._open[key] = letter

    def of_versions(self) -> dict[str, dict[int, FoldedLetter]]:
        """Return the open letters of versions, by document."""
        found: dict[str, dict[int, FoldedLetter]] = {}
        for letter in self._open.values():
            late = letter.topic in (EXTRACTED, self._chunks_topic)
            if late and letter.document_id is not None and letter.version is not None:
                found.setdefault(letter.document_id, {})[letter.version] = letter
        return found

    def of_records(self) -> dict[tuple[int, int], FoldedLetter]:
        """Return the open letters of records of documents.extracted, by partition and offset."""
        return {(one.partition, one.offset): one for one in self._open.values() if one.topic == EXTRACTED}

    def of_submissions(self) -> dict[str, FoldedLetter]:
        """Return each document's newest failed submission whose letter is open."""
        newest: dict[str, FoldedLetter] = {}
        for letter in self._open.values():
            if letter.topic != SUBMITTED or letter.document_id is None:
                continue
            seen = newest.get(letter.document_id)
            if seen is None or older(seen.place, letter.place):
                newest[letter.document_id] = letter
        return newest

    def settled(self, place: LogPosition) -> bool:
        """Return whether the submission had a dead letter that was settled."""
        return any((stage, place.partition, place.offset) in self._settled for stage in ("ingest", "chunk", "embed"))


class EndedSubmission(NamedTuple):
    """The newest submission of a document that the first stage has finished."""

    place: LogPosition
    deletes: tuple[str, str, str] | None  # tenant, source and path if it deletes; an erasure has no source and path


class FoldedSubmissions:
    """The newest submission of each document that the first stage has finished."""

    def __init__(self) -> None:
        self.newest: dict[str, EndedSubmission] = {}

    def see(self, record: Record) -> None:
        """Add a record of documents.submitted that the first stage has committed."""
        place = position_of(record)
        try:
            submitted = submission_of(record)
        except Rejected:
            return
        name = submitted.document_id
        seen = self.newest.get(name)
        if seen is not None and not older(seen.place, place):
            return
        deletes = (submitted.tenant, submitted.source, submitted.path) if submitted.deleted else None
        self.newest[name] = EndedSubmission(place, deletes)


class NewestVersion(NamedTuple):
    """The log's information about one document."""

    newest: DocumentVersion
    failure: FoldedLetter | None  # why the newest version can't answer
    published: tuple[int, ...] = ()  # all versions that have a record, oldest first
    failed: tuple[int, ...] = ()  # those below `newest` that failed, oldest first


class VersionRecord(NamedTuple):
    """The newest record of a version on documents.extracted."""

    partition: int
    offset: int
    time: int  # ms since 1970, the log's


class FoldedVersions:
    """The versions of the documents of one partition of documents.extracted, as far as the truth has them."""

    def __init__(self, letters: FoldedLetters) -> None:
        self._failed = letters.of_versions()
        self._unreadable = letters.of_records()
        self.documents: dict[str, dict[int, VersionRecord]] = {}

    def see(self, record: Record) -> None:
        """Add the next record; one whose key names no version is ignored."""
        name, _, number = (record.key or b"").decode(errors="replace").partition("/")
        if not (number.isascii() and number.isdigit()):
            return
        versions = self.documents.setdefault(name, {})
        if record.value is None:
            versions.pop(int(number), None)
            if not versions:
                del self.documents[name]
        else:
            versions[int(number)] = VersionRecord(record.partition, record.offset, record.timestamp)

    def newest(self) -> dict[int, str]:
        """Return each document by the offset of its newest version's record."""
        return {versions[max(versions)].offset: name for name, versions in self.documents.items()}

    def answering(self) -> dict[int, str]:
        """Return each document that a version can answer for, by the offset of that version's record."""
        found: dict[int, str] = {}
        for name, versions in self.documents.items():
            able = (version for version in sorted(versions, reverse=True) if self.failure(name, version) is None)
            if (version := next(able, None)) is not None:
                found[versions[version].offset] = name
        return found

    def failure(self, name: str, version: int) -> FoldedLetter | None:
        """Return why the version can't answer; None if no reason is known.

        A version that was published again after it was set aside has a new chance.
        """
        standing = self.documents[name][version]
        letter = self._failed.get(name, {}).get(version)
        if letter is not None and letter.time >= standing.time:
            return letter
        return self._unreadable.get((standing.partition, standing.offset))


def entry_of(
    document: NewestVersion,
    *,
    submitted: EndedSubmission | None,
    failed: FoldedLetter | None,
    settled: bool,
    head: Head | None,
) -> Entry:
    """Return a document's ledger entry.

    `submitted` is its newest submission that has ended and `failed` the newest open letter of the first stage;
    `settled` says whether `submitted` had a dead letter that was settled. `head` is None unless the
    head and all of its points are in the index; a version that must be applied again is `accepted` until then.
    """
    newest = document.newest
    entry = Entry(
        document_id=newest.document_id,
        tenant=newest.tenant,
        source=newest.source,
        path=newest.path,
        rev=0,
        writer="",
        accepted=Accepted(
            version=newest.version,
            place=newest.place,
            raw_hash=newest.raw_hash,
            metadata_hash=newest.metadata_hash,
            extractor=newest.extractor,
            outcome=newest.outcome,
            validators=newest.validators,
            reading=newest.reading,
            given=newest.given,
            body=newest.body,
            text=None if newest.deleted else BlobRef(sha256=newest.text_sha256 or "", size=newest.text_size),
        ),
        last=_end(newest, document.failure, head),
        created_at=newest.created_at,
        updated_at=newest.updated_at,
        title=newest.title,
        url=newest.url,
        tags=newest.tags,
        published=document.published,
        failed=document.failed,
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


def _last(failed: FoldedLetter, submitted: EndedSubmission | None) -> bool:
    """Return whether the failed submission is the newest that ended."""
    return submitted is None or not older(failed.place, submitted.place)


def _end(newest: DocumentVersion, failure: FoldedLetter | None, head: Head | None) -> Last:
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


def _failed(entry: Entry, place: LogPosition, letter: FoldedLetter | None) -> Entry:
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


def entry_without_version(name: str, submitted: EndedSubmission | None, failed: FoldedLetter | None) -> Entry | None:
    """Return the entry of a document without a version on the log; None if the log has too little for one."""
    if failed is not None and _last(failed, submitted):
        if failed.tenant is None or failed.source is None or failed.path is None:
            return None
        return _bare(name, (failed.tenant, failed.source, failed.path), failed.place, failed)
    if submitted is None or submitted.deletes is None:
        return None
    return _bare(name, submitted.deletes, submitted.place, None)


def _bare(name: str, named: tuple[str, str, str], place: LogPosition, failure: FoldedLetter | None) -> Entry:
    tenant, source, path = named
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
