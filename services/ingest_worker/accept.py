"""The first stage's decision, without I/O: is a submission new, unchanged, late, or in progress already?

correctness.md, section 1. `decide` runs on the entry as it was read, and again inside the ledger's conditional write,
so it must be deterministic: the same state gives the same decision.
"""

from typing import get_args

import msgspec

from services.ingest_worker.extract import READERS
from shared.contracts import (
    CHANGED,
    CONFLICT,
    ERASED,
    GONE,
    MAX_NATURAL,
    REFUSED,
    TERMINAL,
    BlobRef,
    Forwarded,
    Given,
    Kept,
    LogPosition,
    OnConflict,
    Status,
    VersionContent,
    VersionOutcome,
    like,
)
from shared.state.index import Head
from shared.state.ledger import NOWHERE, Accepted, Entry, Last, MovedTo, Replaced, noted, older

DELETION = "deleted"  # the raw hash of a submission without a body; no xxh3 hash looks like it
_SENT_AS = {
    "filename": "filename",
    "mediaType": "media_type",
    "url": "url",
    "chunkSize": "chunk_size",
    "chunkOverlap": "chunk_overlap",
}
YEAR_MS = 365 * 24 * 3600 * 1000


class Submission(VersionContent, frozen=True, kw_only=True):
    """The fields of a record of documents.submitted that affect the decision.

    `body` is None also if it wasn't read, because its page hasn't changed.
    """

    document_id: str
    tenant: str
    source: str
    path: str
    place: LogPosition
    title: str | None = None
    url: str | None = None
    tags: tuple[str, ...] = ()
    text: BlobRef | None = None  # the extracted text, already stored, where a new version needs it
    on_conflict: OnConflict | None = None
    source_record: Forwarded | None = None  # of a tenant's own topic, from which the submission was made

    @property
    def deletes(self) -> bool:
        """Return whether the submission deletes or erases the document."""
        return self.raw_hash in (DELETION, ERASED)

    @property
    def erases(self) -> bool:
        """Return whether the submission erases the document: its content, names and descriptions."""
        return self.raw_hash == ERASED


class IndexedVersion(Head, frozen=True, kw_only=True):
    """The document's head in the serving index."""

    whole: bool  # the index has as many points as the head says


class Superseded(msgspec.Struct, frozen=True):
    """A newer submission was accepted already. Nothing is written; its outcome counts for this one, too."""


class Unchanged(msgspec.Struct, frozen=True):
    """The index has exactly this content: the submission ends here, without an event."""

    entry: Entry


class Joined(msgspec.Struct, frozen=True):
    """The same content is already in progress: that version's outcome counts for both."""

    entry: Entry


class Published(msgspec.Struct, frozen=True):
    """A version whose event must be published: a new one, or one whose event may be missing from the log."""

    entry: Entry


class Conflict(msgspec.Struct, frozen=True):
    """The document exists with other content, and the submission asked not to replace it."""


Decision = Superseded | Unchanged | Joined | Published | Conflict


def decide(entry: Entry | None, submission: Submission, answering: IndexedVersion | None) -> Decision:
    """Return the decision on the submission.

    `entry` is the document's ledger entry and `answering` its state in the serving index; None where there is none.
    """
    entry = entry or _unknown(submission)
    accepted, place = entry.accepted, submission.place
    if late(entry, place):
        return Superseded()
    own = entry.submitted(place)
    if own is not None and (own.code in REFUSED or own.moved_to is not None):  # it was in conflict
        return Unchanged(entry)
    same = _same(entry, submission)
    stands = entry.standing(accepted.version)
    under_way = stands is not None and stands.status == "accepted"
    # While its end isn't written, whoever writes it ends this one too: `last` says of an entry whether it is open.
    if same and _answers(answering, accepted) and not under_way:
        status: Status = "deleted" if submission.deletes else "unchanged"
        if own is not None and own.version == accepted.version:
            # If it is marked failed, a worker that was overtaken wrote that.
            status = accepted.outcome if own.status == "failed" else own.status
        count = answering.chunk_count if answering and not answering.deleted else None
        last = Last(
            version=accepted.version,
            place=place,
            status=status,
            at=place.time,
            chunk_count=count,
            replaced=stands.replaced if stands is not None else None,
            dropped=stands.dropped if stands is not None and status != "unchanged" else (),
            changed=stands.changed if stands is not None and status != "unchanged" else (),
        )
        return Unchanged(_moved(entry, submission, last))
    if submission.deletes and accepted.version == 0 and answering is None:
        last = Last(version=0, place=place, status="deleted", at=place.time)
        return Unchanged(_moved(entry, submission, last))
    if same and place == accepted.place:
        # A finished version keeps its status while its event is published again. If this worker has lost the partition
        # and stops between this write and that event, no other worker would restore the status.
        if stands is not None and stands.status in TERMINAL:
            last = msgspec.structs.replace(stands, place=place)
        else:
            last = _under_way(entry, accepted.version, place)
        return Published(_moved(entry, submission, last))
    if same and under_way:
        moved = _moved(entry, submission, _under_way(entry, accepted.version, place))
        # In one partition the first record's event is on the log before the second record is read. Across
        # partitions it may not be, and moving the place would make the first one's redelivery look late.
        return Joined(moved) if place.partition == accepted.place.partition else Published(moved)
    there = _lives(entry, answering) or _lives(entry, None)
    if submission.on_conflict is not None and there and place != accepted.place:
        return Conflict()
    return Published(_next(entry, submission, answering))


def refused(entry: Entry, submission: Submission, sentence: str, code: str) -> Entry:
    """Return the entry with a refused submission, which leaves the document unchanged."""
    place = submission.place
    version = _version_after(entry, place)
    return noted(entry, Last(version=version, place=place, status="failed", at=place.time, error=sentence, code=code))


def unpatchable(entry: Entry, place: LogPosition, if_version: int | None) -> tuple[str, str] | None:
    """Return why the metadata can't be changed, as a sentence and its code; None if it can."""
    accepted, name = entry.accepted, f"{entry.source}/{entry.path}"
    if accepted.version == 0 or accepted.outcome == "deleted":
        return f"{name} does not exist", GONE
    if if_version is not None and accepted.version != if_version and accepted.place != place:
        return f"{name} has changed: version {accepted.version} was accepted, not {if_version}", CHANGED
    return None


def in_conflict(entry: Entry, submission: Submission, moved_to: MovedTo | None) -> Entry:
    """Return the entry with a submission in conflict: refused, or moved to another document."""
    place = submission.place
    if moved_to is None:
        sentence = f"{submission.source}/{submission.path} exists with other content, and onConflict is error"
        return refused(entry, submission, sentence, CONFLICT)
    version = _version_after(entry, place)
    return noted(entry, Last(version=version, place=place, status="unchanged", at=place.time, moved_to=moved_to))


def repeated(entry: Entry, submission: Submission) -> Entry:
    """Return the entry with a copy of a submission, which leaves the document unchanged."""
    place = entry.accepted.place if entry.accepted.version else entry.last.place
    return in_conflict(entry, submission, MovedTo(document_id=entry.document_id, place=place))


def standing(entry: Entry | None, submission: Submission, answering: IndexedVersion | None) -> Accepted | None:
    """Return the accepted version if it answers and the submission can differ from it only in its body, else None.

    Then its validators may be sent: if the body is unchanged, so is everything else.
    """
    if entry is None or submission.deletes or entry.accepted.outcome == "deleted":
        return None
    accepted = entry.accepted
    described = accepted.metadata_hash == submission.metadata_hash and READERS.has(accepted.extractor)
    return accepted if described and _answers(answering, accepted) else None


def _same(entry: Entry, submission: Submission) -> bool:
    """Return whether the submission has the content of the accepted version, and the same text can be read from it."""
    accepted = entry.accepted
    sent = submission.raw_hash, submission.metadata_hash
    if not accepted.version or (accepted.raw_hash, accepted.metadata_hash) != sent:
        return False
    if accepted.extractor == submission.extractor or READERS.has(accepted.extractor):
        return True
    # As JSON, because a store gives lists back for tuples.
    readings = {msgspec.json.encode(each.reading, order="sorted") for each in (submission, accepted)}
    return submission.text is not None and submission.text == accepted.text and len(readings) == 1


def late(entry: Entry | None, place: LogPosition) -> bool:
    """Return whether a submission newer than the one at `place` was accepted, so that this one has no effect."""
    return entry is not None and older(place, entry.accepted.place)


def settled(entry: Entry, place: LogPosition) -> bool:
    """Return whether the ledger holds how the submission at `place` ended: reading it again changes nothing.

    An end that is only known to be superseded doesn't count. The submission may still be on its way from another
    partition, and the newer one may have failed.
    """
    own = entry.submitted(place)
    return own is not None and own.status in TERMINAL


def fail(entry: Entry | None, submission: Submission, sentence: str, code: str) -> Entry | None:
    """Return the entry with the submission's failure; None if it is recorded, or another worker accepted it."""
    entry = entry or _unknown(submission)
    place = submission.place
    own, late_ = entry.submitted(place), older(place, entry.last.place) or older(place, entry.accepted.place)
    if place == entry.accepted.place:
        stands = entry.standing(entry.accepted.version)
        if stands is not None and stands.status in TERMINAL - {"failed"}:
            return None  # accepted and finished before a crash; only its replay failed
        version = entry.accepted.version
    elif own is not None and own.version:
        if own.status != "failed":
            return None  # another worker accepted it; that version's outcome counts
        version = own.version
    else:
        version = 0 if late_ else _version_after(entry, place)
    last = Last(version=version, place=place, status="failed", at=place.time, error=sentence, code=code)
    failed = noted(entry, last)
    if failed.last.place != place:
        return failed if not entry.erased else None  # the sentence could contain the erased document's file name
    # An erasure deletes the names, too; a new submission sets them again.
    return msgspec.structs.replace(
        failed,
        source=submission.source or entry.source,
        path=submission.path or entry.path,
        updated_at=place.time,
    )


def _answers(answering: IndexedVersion | None, accepted: Accepted) -> bool:
    return answering is not None and answering.version == accepted.version and answering.whole


def _under_way(entry: Entry, version: int, place: LogPosition) -> Last:
    last = Last(version=version, place=place, status="accepted", at=entry.last.at)
    stands = entry.standing(version)
    if stands is None:
        return last
    return msgspec.structs.replace(last, replaced=stands.replaced, dropped=stands.dropped, changed=stands.changed)


def _moved(entry: Entry, submission: Submission, last: Last) -> Entry:
    """Return the entry with the same accepted version, at the place of the submission that repeats it.

    The same bytes may have come with new validators, which the next fetch sends.
    """
    accepted = msgspec.structs.replace(
        entry.accepted,
        place=submission.place,
        validators=submission.validators,
        body=submission.body or entry.accepted.body,
        extractor=submission.extractor or entry.accepted.extractor,
    )
    moved = noted(msgspec.structs.replace(entry, accepted=accepted), last)
    # A failure after the erasure may have set names again.
    return _bare(moved) if submission.erases and moved.last.place == submission.place else moved


def _next(entry: Entry, submission: Submission, answering: IndexedVersion | None) -> Entry:
    version, place = _version_after(entry, submission.place), submission.place
    # The ledger may come from an older backup than the head, and a version below the head would never be applied. A
    # head far in the future is damaged; exceeding it would use up the version numbers.
    published = entry.published
    if answering is not None and answering.version < place.time + YEAR_MS:
        version = max(version, answering.version + 1)
        if answering.version not in published:  # then its record would stay in the truth for ever
            published = (*published, answering.version)
    before, failed = entry.accepted.version, entry.failed
    stands = entry.standing(before)
    if before in published and stands is not None and stands.status == "failed":
        failed = tuple(sorted({*failed, before}))
    lives = _lives(entry, answering)
    keeps = submission.deletes and not submission.erases  # lists of deleted documents show title, URL and tags
    outcome: VersionOutcome = "deleted" if submission.deletes else "updated" if lives else "created"
    taken = msgspec.structs.replace(
        entry,
        source=submission.source,
        path=submission.path,
        title=entry.title if keeps else submission.title,
        url=entry.url if keeps else submission.url,
        tags=entry.tags if keeps else submission.tags,
        accepted=msgspec.structs.replace(
            msgspec.convert(submission, Accepted, from_attributes=True), version=version, outcome=outcome
        ),
        created_at=entry.created_at if lives or submission.deletes else place.time,
        updated_at=place.time,
        published=(*published, version),
        failed=failed,
    )
    replaced = _replaced(entry, answering) if outcome == "updated" else None
    last = Last(
        version=version,
        place=place,
        status="accepted",
        at=place.time,
        replaced=replaced,
        dropped=_dropped(entry.accepted.given, submission.given) if outcome == "updated" else (),
        changed=_changed(entry.accepted, submission) if outcome == "updated" else (),
    )
    taken = noted(taken, last)
    # An erasure can't fail, so no earlier version answers again, and no earlier error sentence may be kept. Its own end
    # stays: a later submission may have been noted already.
    own = tuple(each for each in taken.earlier if each.place == place)
    return msgspec.structs.replace(taken, earlier=own) if submission.erases else taken


def _lives(entry: Entry, answering: IndexedVersion | None) -> bool:
    """Return whether an earlier version of the document answers or is in progress."""
    if answering is not None:
        return not answering.deleted
    stands = entry.standing(entry.accepted.version)
    failed = stands is not None and stands.status == "failed"
    return entry.accepted.version > 0 and entry.accepted.outcome != "deleted" and not failed


def _dropped(before: Given | None, given: Given | None) -> tuple[Kept, ...]:
    """Return the fields that the previous version has and the next one lacks; absent, null and empty are equal."""
    names: tuple[Kept, ...] = get_args(Kept)
    return tuple(name for name in names if getattr(before, name, None) and not getattr(given, name, None))


def _changed(before: Accepted, submission: Submission) -> tuple[str, ...]:
    """Return the fields that made a version of the same bytes, under their names in JSON; () if the bytes differ."""
    if before.raw_hash != submission.raw_hash or before.given is None or submission.given is None:
        return ()
    names: tuple[Kept, ...] = get_args(Kept)
    changed: list[str] = [name for name in names if getattr(before.given, name) != getattr(submission.given, name)]
    was, now = before.reading, submission.reading
    if was is not None and now is not None:
        changed += [json for json, name in _SENT_AS.items() if getattr(was, name) != getattr(now, name)]
    return tuple(changed)


def _replaced(entry: Entry, answering: IndexedVersion | None) -> Replaced | None:
    """Return the version that the next one replaces: the accepted one, or the answering one if that failed."""
    accepted, stands = entry.accepted, entry.standing(entry.accepted.version)
    answers = answering is not None and not answering.deleted
    failed = stands is not None and stands.status == "failed"
    if answering is not None and answers and (failed or answering.version == accepted.version):
        return Replaced(version=answering.version, updated_at=answering.updated_at)
    under_way = accepted.version > 0 and accepted.outcome != "deleted"
    return Replaced(version=accepted.version, updated_at=accepted.place.time) if under_way else None


def _bare(entry: Entry) -> Entry:
    """Return the entry without anything that came from the document or names it."""
    before = entry.accepted
    accepted = Accepted(version=before.version, place=before.place, raw_hash=ERASED, outcome=before.outcome)
    last = msgspec.structs.replace(entry.last, error=None, code=None)
    return msgspec.structs.replace(
        entry, source="", path="", title=None, url=None, tags=(), accepted=accepted, last=last, earlier=()
    )


def _version_after(entry: Entry, place: LogPosition) -> int:
    # Above every version in the entry: deleting a document that never existed has version 0, and failures have higher
    # ones.
    newest = max(entry.accepted.version, *(each.version for each in (entry.last, *entry.earlier)))
    return min(max(newest + 1, place.time), MAX_NATURAL)


def _unknown(submission: Submission) -> Entry:
    """Return the entry of an unknown document."""
    return like(
        Entry,
        submission,
        rev=0,
        writer="",
        accepted=Accepted(),
        last=Last(version=0, place=NOWHERE, status="accepted", at=submission.place.time),
        created_at=submission.place.time,
        updated_at=submission.place.time,
    )
