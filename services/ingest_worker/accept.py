"""The first stage's decision, without I/O: is this submission new, known, late, or already here?

correctness.md, section 1. `decide` is run on the entry as it was read, and again under the ledger's conditional
write, so it must give the same answer for the same state, however often it is asked.
"""

from typing import get_args

import msgspec

from shared.contracts import (
    CHANGED,
    CONFLICT,
    ERASED,
    GONE,
    REFUSED,
    TERMINAL,
    UNPATCHABLE,
    BlobRef,
    Given,
    Kept,
    LogPosition,
    OnConflict,
    Status,
    Validators,
    VersionOutcome,
)
from shared.state.ledger import NOWHERE, Accepted, Entry, Last, MovedTo, Replaced, TextReading, noted, older

DELETION = "deleted"  # the raw hash of a submission without a body; no xxh3 hash looks like it
MAX_VERSION = 2**53 - 1  # stores compare numbers as float64
YEAR_MS = 365 * 24 * 3600 * 1000


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A record of documents.submitted, reduced to what decides."""

    document_id: str
    tenant: str
    source: str
    path: str
    place: LogPosition
    raw_hash: str
    metadata_hash: str
    extractor: str
    title: str | None = None
    url: str | None = None
    tags: tuple[str, ...] = ()
    validators: Validators | None = None
    text: BlobRef | None = None  # what was read of the body, where that is needed; its blob is there
    reading: TextReading | None = None
    given: Given | None = None
    on_conflict: OnConflict | None = None

    @property
    def deletes(self) -> bool:
        """Return whether the submission takes the document away."""
        return self.raw_hash in (DELETION, ERASED)

    @property
    def erases(self) -> bool:
        """Return whether it also takes away all that names or describes the document."""
        return self.raw_hash == ERASED


class IndexedVersion(msgspec.Struct, frozen=True, kw_only=True):
    """What the serving index holds of the document."""

    version: int
    deleted: bool
    whole: bool  # as many points as the head says
    chunk_count: int = 0
    updated_at: int = 0  # ms since 1970


class Superseded(msgspec.Struct, frozen=True):
    """A newer submission was taken already: nothing to write, its end stands for this one."""


class Unchanged(msgspec.Struct, frozen=True):
    """The index holds just this content: the submission ends here, without an event."""

    entry: Entry


class Joined(msgspec.Struct, frozen=True):
    """The same content is on its way: that version's end answers both."""

    entry: Entry


class Published(msgspec.Struct, frozen=True):
    """A version whose event has to be on the log: a new one, or one whose event may not have got there."""

    entry: Entry


class Conflict(msgspec.Struct, frozen=True):
    """The document is there with other content, and the submission asked not to replace it."""


Decision = Superseded | Unchanged | Joined | Published | Conflict


def decide(entry: Entry | None, submission: Submission, answering: IndexedVersion | None) -> Decision:
    """Return what the submission means for the document.

    `entry` is the ledger's, None when there is none; `answering` the serving index's head, likewise.
    """
    entry = entry or _unknown(submission)
    accepted, place = entry.accepted, submission.place
    if late(entry, place):
        return Superseded()
    own = entry.submitted(place)
    if own is not None and _in_conflict(own):
        return Unchanged(entry)
    same = accepted.version > 0 and (accepted.raw_hash, accepted.metadata_hash, accepted.extractor) == (
        submission.raw_hash,
        submission.metadata_hash,
        submission.extractor,
    )
    stands = entry.standing(accepted.version)
    if same and _answers(answering, accepted):
        status: Status = "deleted" if submission.deletes else "unchanged"
        if own is not None and own.version == accepted.version:
            # If it is marked failed, a worker that was overtaken wrote that.
            status = accepted.outcome if own.status in ("accepted", "failed") else own.status
        count = answering.chunk_count if answering and not answering.deleted else None
        last = Last(
            version=accepted.version,
            place=place,
            status=status,
            at=place.time,
            chunk_count=count,
            replaced=stands.replaced if stands is not None else None,
            dropped=stands.dropped if stands is not None and status != "unchanged" else (),
        )
        return Unchanged(_moved(entry, submission, last))
    if submission.deletes and accepted.version == 0 and answering is None:
        last = Last(version=0, place=place, status="deleted", at=place.time)
        return Unchanged(_moved(entry, submission, last))
    if same and place == accepted.place:
        # What has ended stays so while its event is sent again: whoever reads its record anew, late and with the
        # partition in other hands, may stop between this write and that event, and nobody else would come.
        if stands is not None and stands.status in TERMINAL:
            last = msgspec.structs.replace(stands, place=place)
        else:
            last = _under_way(entry, accepted.version, place)
        return Published(_moved(entry, submission, last))
    if same and stands is not None and stands.status == "accepted":
        moved = _moved(entry, submission, _under_way(entry, accepted.version, place))
        # In one partition the first record's event is on the log before the second record is read. Across
        # partitions it may not be, and moving the place would make the first one's redelivery look late.
        return Joined(moved) if place.partition == accepted.place.partition else Published(moved)
    there = _lives(entry, answering) or _lives(entry, None)
    if submission.on_conflict is not None and there and place != accepted.place:
        return Conflict()
    return Published(_next(entry, submission, answering))


def refused(entry: Entry, submission: Submission, sentence: str, code: str) -> Entry:
    """Return the entry with the end of a submission that leaves the document as it is."""
    place = submission.place
    version = _version_after(entry, place)
    return noted(entry, Last(version=version, place=place, status="failed", at=place.time, error=sentence, code=code))


def unpatchable(entry: Entry, place: LogPosition, if_version: int | None) -> tuple[str, str] | None:
    """Return why a change of metadata can't be made, as a sentence and its code; None: it can."""
    accepted, name = entry.accepted, f"{entry.source}/{entry.path}"
    if accepted.version == 0 or accepted.outcome == "deleted":
        return f"{name} is not there", GONE
    if if_version is not None and accepted.version != if_version and accepted.place != place:
        return f"{name} has changed: version {accepted.version} was accepted, not {if_version}", CHANGED
    if accepted.reading is None or accepted.text is None or accepted.given is None:
        return f"{name} was read by an earlier release, which kept too little: send it once more", UNPATCHABLE
    return None


def in_conflict(entry: Entry, submission: Submission, moved_to: MovedTo | None) -> Entry:
    """Return the entry with the end of a submission that was not to replace the document: refused, or moved."""
    place = submission.place
    if moved_to is None:
        sentence = f"{submission.source}/{submission.path} is there with other content, and onConflict is error"
        return refused(entry, submission, sentence, CONFLICT)
    version = _version_after(entry, place)
    return noted(entry, Last(version=version, place=place, status="unchanged", at=place.time, moved_to=moved_to))


def _in_conflict(own: Last) -> bool:
    return own.code in REFUSED or own.moved_to is not None


def standing(entry: Entry | None, submission: Submission, answering: IndexedVersion | None) -> Accepted | None:
    """Return the version that answers where the submission differs from it in its body at most, else None.

    Its validators may be used then: should the body be the same, the index holds just this.
    """
    if entry is None or submission.deletes or entry.accepted.outcome == "deleted":
        return None
    accepted = entry.accepted
    described = (accepted.metadata_hash, accepted.extractor) == (submission.metadata_hash, submission.extractor)
    return accepted if described and _answers(answering, accepted) else None


def late(entry: Entry | None, place: LogPosition) -> bool:
    """Return whether something newer than `place` was accepted: whatever was submitted there counts no more."""
    return entry is not None and older(place, entry.accepted.place)


def fail(entry: Entry | None, submission: Submission, sentence: str, code: str) -> Entry | None:
    """Return the entry with the submission's failure, or None where that is known, or it was taken and not by us."""
    entry = entry or _unknown(submission)
    place = submission.place
    own, late_ = entry.submitted(place), older(place, entry.last.place) or older(place, entry.accepted.place)
    if place == entry.accepted.place:
        stands = entry.standing(entry.accepted.version)
        if stands is not None and stands.status in TERMINAL - {"failed"}:
            return None  # read again after a crash, it can't be taken any more; it was, and that has ended
        version = entry.accepted.version
    elif own is not None and own.version:
        if own.status != "failed":
            return None  # another worker took it; its version's end is this one's
        version = own.version
    else:
        version = 0 if late_ else _version_after(entry, place)
    last = Last(version=version, place=place, status="failed", at=place.time, error=sentence, code=code)
    failed = noted(entry, last)
    if failed.last.place != place:
        return failed if not entry.erased else None  # what an erased document's file was called is in no sentence
    # An erasure takes the names as well; whoever sends the document again gives them anew.
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
    return msgspec.structs.replace(last, replaced=stands.replaced, dropped=stands.dropped)


def _moved(entry: Entry, submission: Submission, last: Last) -> Entry:
    """Return the entry with the same accepted version, asked for again by the submission.

    The same bytes may have come with other validators: the next request sends those.
    """
    accepted = msgspec.structs.replace(entry.accepted, place=submission.place, validators=submission.validators)
    moved = noted(msgspec.structs.replace(entry, accepted=accepted), last)
    # A failure that came after an erasure has brought names of its own.
    return _bare(moved) if submission.erases and moved.last.place == submission.place else moved


def _next(entry: Entry, submission: Submission, answering: IndexedVersion | None) -> Entry:
    version, place = _version_after(entry, submission.place), submission.place
    # The ledger may be of an older backup than the head, and below that nothing would be applied. A head that no clock
    # can have given is damaged: to outdo it would leave no higher version for ever.
    if answering is not None and answering.version < place.time + YEAR_MS:
        version = max(version, answering.version + 1)
    lives = _lives(entry, answering)
    keeps = submission.deletes and not submission.erases  # a list of what was deleted shows what it was
    outcome: VersionOutcome = "deleted" if submission.deletes else "updated" if lives else "created"
    taken = msgspec.structs.replace(
        entry,
        source=submission.source,
        path=submission.path,
        title=entry.title if keeps else submission.title,
        url=entry.url if keeps else submission.url,
        tags=entry.tags if keeps else submission.tags,
        accepted=Accepted(
            version=version,
            place=place,
            raw_hash=submission.raw_hash,
            metadata_hash=submission.metadata_hash,
            extractor=submission.extractor,
            outcome=outcome,
            validators=submission.validators,
            text=submission.text,
            reading=submission.reading,
            given=None if submission.deletes else submission.given,
        ),
        created_at=entry.created_at if lives or submission.deletes else place.time,
        updated_at=place.time,
    )
    replaced = _replaced(entry, answering) if outcome == "updated" else None
    last = Last(
        version=version,
        place=place,
        status="accepted",
        at=place.time,
        replaced=replaced,
        dropped=_dropped(entry.accepted.given, submission.given) if outcome == "updated" else (),
    )
    taken = noted(taken, last)
    # An erasure can't fail, so nothing before it answers any more, and no sentence about that may name it.
    return msgspec.structs.replace(taken, earlier=()) if submission.erases else taken


def _lives(entry: Entry, answering: IndexedVersion | None) -> bool:
    """Return whether an earlier version of the document is there, or on its way."""
    if answering is not None:
        return not answering.deleted
    stands = entry.standing(entry.accepted.version)
    failed = stands is not None and stands.status == "failed"
    return entry.accepted.version > 0 and entry.accepted.outcome != "deleted" and not failed


def _dropped(before: Given | None, given: Given | None) -> tuple[Kept, ...]:
    """Return what the version before was given and the next one isn't; absent, null and empty are one."""
    names: tuple[Kept, ...] = get_args(Kept)
    return tuple(name for name in names if getattr(before, name, None) and not getattr(given, name, None))


def _replaced(entry: Entry, answering: IndexedVersion | None) -> Replaced | None:
    """Return the version that the next one follows: the accepted one, unless that failed and an older one answers."""
    accepted, stands = entry.accepted, entry.standing(entry.accepted.version)
    answers = answering is not None and not answering.deleted
    failed = stands is not None and stands.status == "failed"
    if answering is not None and answers and (failed or answering.version == accepted.version):
        return Replaced(version=answering.version, updated_at=answering.updated_at)
    under_way = accepted.version > 0 and accepted.outcome != "deleted"
    return Replaced(version=accepted.version, updated_at=accepted.place.time) if under_way else None


def _bare(entry: Entry) -> Entry:
    """Return the entry with nothing that came from the document or named it."""
    accepted = msgspec.structs.replace(
        entry.accepted,
        raw_hash=ERASED,
        metadata_hash="",
        extractor="",
        validators=None,
        text=None,
        reading=None,
        given=None,
    )
    last = msgspec.structs.replace(entry.last, error=None, code=None)
    return msgspec.structs.replace(
        entry, source="", path="", title=None, url=None, tags=(), accepted=accepted, last=last, earlier=()
    )


def _version_after(entry: Entry, place: LogPosition) -> int:
    # Above all that the entry knows: a deletion of what never was is version 0, and failures may stand before it.
    newest = max(entry.accepted.version, *(each.version for each in (entry.last, *entry.earlier)))
    return min(max(newest + 1, place.time), MAX_VERSION)


def _unknown(submission: Submission) -> Entry:
    """Return the entry of a document nobody has heard of."""
    return Entry(
        document_id=submission.document_id,
        tenant=submission.tenant,
        source=submission.source,
        path=submission.path,
        rev=0,
        writer="",
        accepted=Accepted(),
        last=Last(version=0, place=NOWHERE, status="accepted", at=submission.place.time),
        created_at=submission.place.time,
        updated_at=submission.place.time,
        title=submission.title,
        url=submission.url,
        tags=submission.tags,
    )
