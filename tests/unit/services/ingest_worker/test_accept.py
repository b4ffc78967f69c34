from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from services.ingest_worker import accept
from services.ingest_worker.accept import (
    Conflict,
    Decision,
    IndexedVersion,
    Joined,
    Published,
    Submission,
    Superseded,
    Unchanged,
)
from shared.contracts import ERASED, MAX_NATURAL, BlobRef, Given, LogPosition, Status, TextReading, Validators
from shared.state.ledger import MOST_ENDED, Accepted, End, Entry, Last, MovedTo, finished, older


def at(offset: int, *, partition: int = 0, time: int | None = None) -> LogPosition:
    return LogPosition(partition=partition, offset=offset, time=1000 * offset if time is None else time)


def a_submission(place: LogPosition, content: str = "a", **other: object) -> Submission:
    fields: dict[str, object] = {
        "document_id": "d",
        "tenant": "t",
        "source": "s",
        "path": "p",
        "place": place,
        "raw_hash": content,
        "metadata_hash": "m",
        "extractor": "x",
    }
    return Submission(**(fields | other))  # type: ignore[arg-type]  # a builder


def a_deletion(place: LogPosition) -> Submission:
    return a_submission(place, accept.DELETION, metadata_hash="", extractor="")


def an_erasure(place: LogPosition) -> Submission:
    return a_submission(place, ERASED, metadata_hash="", extractor="", source="", path="")


def words_of(entry: Entry) -> list[str]:
    """What the entry tells of the document, but its id."""
    told = (
        entry.source,
        entry.path,
        entry.title,
        entry.url,
        *entry.tags,
        (entry.accepted.validators or Validators(url="")).url,
        entry.last.error,
    )
    return [each for each in told if each]


def entry_of(decision: Decision) -> Entry:
    assert not isinstance(decision, Superseded | Conflict)
    return decision.entry


def applied(entry: Entry) -> tuple[Entry, IndexedVersion]:
    """The version as the later stages leave it."""
    ended = finished(entry, entry.accepted.version, End(entry.accepted.outcome, 0, chunk_count=3))
    deleted = entry.accepted.outcome == "deleted"
    return ended or entry, IndexedVersion(
        document_id="d", tenant="t", version=entry.accepted.version, deleted=deleted, whole=True
    )


def first() -> tuple[Entry, IndexedVersion]:
    return applied(entry_of(accept.decide(None, a_submission(at(1)), None)))


def test_a_new_document_is_created_with_the_append_time_as_version() -> None:
    decision = accept.decide(None, a_submission(at(1)), None)

    assert isinstance(decision, Published)
    assert decision.entry.accepted.version == 1000
    assert decision.entry.accepted.outcome == "created"
    assert decision.entry.last.status == "accepted"


def test_changed_content_is_an_update_and_equal_content_ends_at_once() -> None:
    entry, answering = first()

    changed = accept.decide(entry, a_submission(at(2), "b"), answering)
    equal = accept.decide(entry, a_submission(at(2)), answering)

    assert isinstance(changed, Published)
    assert changed.entry.accepted.outcome == "updated"
    assert isinstance(equal, Unchanged)
    assert equal.entry.last.status == "unchanged"
    assert equal.entry.ended(at(2))


@pytest.mark.parametrize("field", ["metadata_hash", "extractor"])
def test_new_metadata_or_a_new_extractor_is_a_new_version(field: str) -> None:
    entry, answering = first()

    assert isinstance(accept.decide(entry, a_submission(at(2), **{field: "other"}), answering), Published)


@pytest.mark.parametrize(
    "answering",
    [
        None,
        IndexedVersion(document_id="d", tenant="t", version=1000, deleted=False, whole=False),
        IndexedVersion(document_id="d", tenant="t", version=999, deleted=False, whole=True),
    ],
    ids=["the store was emptied", "points are missing", "an older version answers"],
)
def test_equal_content_that_the_index_does_not_answer_with_is_taken_again(answering: IndexedVersion | None) -> None:
    entry, _ = first()

    decision = accept.decide(entry, a_submission(at(2)), answering)

    assert isinstance(decision, Published)
    assert decision.entry.accepted.version > entry.accepted.version


def test_a_version_grows_even_when_the_logs_clock_stands_still() -> None:
    entry, answering = first()

    decision = accept.decide(entry, a_submission(at(2, time=1000), "b"), answering)

    assert entry_of(decision).accepted.version == 1001


def test_the_same_record_again_is_published_again_until_its_version_ended() -> None:
    under_way = entry_of(accept.decide(None, a_submission(at(1)), None))

    again = accept.decide(under_way, a_submission(at(1)), None)
    entry, answering = applied(under_way)
    after = accept.decide(entry, a_submission(at(1)), answering)

    assert isinstance(again, Published)
    assert again.entry.accepted == under_way.accepted
    assert isinstance(after, Unchanged)
    assert after.entry.last.status == "created"


def test_the_same_content_on_its_way_joins_that_version() -> None:
    under_way = entry_of(accept.decide(None, a_submission(at(1)), None))

    decision = accept.decide(under_way, a_submission(at(2)), None)

    assert isinstance(decision, Joined)
    assert decision.entry.accepted.version == under_way.accepted.version
    assert applied(decision.entry)[0].ended(at(2))


def test_the_same_content_joins_a_version_that_answers_until_its_end_is_written() -> None:
    under_way = entry_of(accept.decide(None, a_submission(at(1)), None))
    _, answering = applied(under_way)

    decision = accept.decide(under_way, a_submission(at(2)), answering)
    again = accept.decide(entry_of(decision), a_submission(at(2)), answering)

    assert isinstance(decision, Joined)
    assert isinstance(again, Published)
    for joined in (decision.entry, again.entry):
        assert joined.last.status == "accepted"  # so that whoever looks for what is open finds it
        assert all(applied(joined)[0].ended(place) for place in (at(1), at(2)))


def test_an_older_record_is_superseded() -> None:
    entry, answering = first()

    assert isinstance(accept.decide(entry, a_submission(at(0), "z"), answering), Superseded)


def test_a_delete_is_a_version_and_a_second_one_ends_at_once() -> None:
    entry, answering = first()

    deletion = accept.decide(entry, a_deletion(at(2)), answering)
    entry, answering = applied(entry_of(deletion))
    again = accept.decide(entry, a_deletion(at(3)), answering)
    back = accept.decide(entry, a_submission(at(4)), answering)

    assert isinstance(deletion, Published)
    assert deletion.entry.accepted.outcome == "deleted"
    assert isinstance(again, Unchanged)
    assert again.entry.last.status == "deleted"
    assert entry_of(back).accepted.outcome == "created"


def test_deleting_what_never_was_ends_at_once() -> None:
    decision = accept.decide(None, a_deletion(at(1)), None)

    assert isinstance(decision, Unchanged)
    assert decision.entry.last.status == "deleted"


def test_an_erasure_is_a_version_without_a_name_and_a_second_one_ends_at_once() -> None:
    submission = a_submission(at(1), title="T", url="u", tags=("tag",))
    entry, answering = applied(entry_of(accept.decide(None, submission, None)))

    erased = accept.decide(entry, an_erasure(at(2)), answering)
    entry, answering = applied(entry_of(erased))
    again = accept.decide(entry, an_erasure(at(3)), answering)

    assert isinstance(erased, Published)
    assert (entry.accepted.version, entry.accepted.outcome, entry.erased) == (2000, "deleted", True)
    assert words_of(entry) == []
    assert isinstance(again, Unchanged)
    assert again.entry.accepted.version == 2000
    assert again.entry.last.status == "deleted"


def test_what_was_only_deleted_is_erased_by_one_version_more() -> None:
    entry, answering = first()
    entry, answering = applied(entry_of(accept.decide(entry, a_deletion(at(2)), answering)))

    erased = accept.decide(entry, an_erasure(at(3)), answering)

    assert words_of(entry) != []
    assert isinstance(erased, Published)
    assert words_of(erased.entry) == []


def test_what_came_before_an_erasure_is_superseded_and_what_comes_after_it_is_the_next_version() -> None:
    entry, answering = first()
    entry, answering = applied(entry_of(accept.decide(entry, an_erasure(at(3)), answering)))

    created = accept.decide(entry, a_submission(at(4)), answering)

    assert isinstance(accept.decide(entry, a_submission(at(2), "b"), answering), Superseded)
    assert isinstance(created, Published)
    assert (created.entry.accepted.outcome, created.entry.source, created.entry.path) == ("created", "s", "p")
    assert created.entry.accepted.version > entry.accepted.version


def test_the_names_that_a_failure_brings_after_an_erasure_go_with_the_next_one() -> None:
    entry, answering = first()
    entry, answering = applied(entry_of(accept.decide(entry, an_erasure(at(2)), answering)))

    failed = accept.fail(entry, a_submission(at(3), "b"), "no text in p", "empty")
    erased = accept.decide(failed, an_erasure(at(4)), answering)
    late = accept.decide(failed, an_erasure(at(2)), answering)

    assert failed is not None
    assert words_of(failed) == ["s", "p", "no text in p"]
    assert isinstance(erased, Unchanged)
    assert (words_of(erased.entry), erased.entry.last.status) == ([], "deleted")
    assert words_of(entry_of(late)) == words_of(failed)  # read once more, it says nothing of what came after it


def test_a_document_that_only_failed_is_erased_without_a_version() -> None:
    failed = accept.fail(None, a_submission(at(1)), "no text in p", "empty")

    erased = accept.decide(failed, an_erasure(at(2)), None)

    assert isinstance(erased, Unchanged)
    assert words_of(erased.entry) == []
    assert erased.entry.ended(at(2))


def test_a_failure_moves_only_the_last_submission() -> None:
    entry, _ = first()

    failed = accept.fail(entry, a_submission(at(2), "b"), "b.pdf is damaged", "damaged")

    assert failed is not None
    assert failed.accepted == entry.accepted
    assert (failed.last.status, failed.last.error, failed.last.code) == ("failed", "b.pdf is damaged", "damaged")
    assert failed.ended(at(2))
    assert accept.fail(failed, a_submission(at(2), "b"), "b.pdf is damaged", "damaged") == failed


def test_a_failure_older_than_what_was_taken_is_told_only_to_whoever_asks_for_it() -> None:
    entry, _ = first()

    failed = accept.fail(entry, a_submission(at(0), "b"), "x", "damaged")

    assert failed is not None
    assert (failed.last, failed.accepted, failed.updated_at) == (entry.last, entry.accepted, entry.updated_at)
    assert ends_of(failed, at(0), at(1)) == ["failed", "created"]


def ends_of(entry: Entry, *places: LogPosition) -> list[str]:
    return [end.status if (end := entry.end_of(place)) else "" for place in places]


def test_a_broken_file_leaves_the_end_of_the_good_one_that_is_under_way() -> None:
    under_way = entry_of(accept.decide(None, a_submission(at(1)), None))

    broken = accept.fail(under_way, a_submission(at(2), "b"), "b.pdf is damaged", "damaged")

    assert broken is not None
    assert ends_of(broken, at(1), at(2), at(3)) == ["", "failed", ""]
    entry, _ = applied(broken)
    assert ends_of(entry, at(1), at(2)) == ["created", "failed"]
    assert (entry.last.place, entry.last.status) == (at(2), "failed")


def test_of_two_versions_under_way_each_submission_has_its_own_end() -> None:
    first_version = entry_of(accept.decide(None, a_submission(at(1)), None))
    both = entry_of(accept.decide(first_version, a_submission(at(2), "b"), None))

    applied_first = finished(both, first_version.accepted.version, End("created", 0))
    assert applied_first is not None
    failed = finished(applied_first, both.accepted.version, End("failed", 0, error="no model takes it"))
    assert failed is not None

    assert ends_of(applied_first, at(1), at(2)) == ["created", ""]
    assert ends_of(failed, at(1), at(2)) == ["created", "failed"]


def test_a_version_that_a_newer_one_has_overtaken_is_superseded() -> None:
    first_version = entry_of(accept.decide(None, a_submission(at(1)), None))
    both = entry_of(accept.decide(first_version, a_submission(at(2), "b"), None))

    entry = finished(both, both.accepted.version, End("updated", 0))

    assert entry is not None
    assert ends_of(entry, at(0), at(1), at(2)) == ["superseded", "superseded", "updated"]


def test_what_is_accepted_after_a_newer_one_failed_leaves_that_failure() -> None:
    failed = accept.fail(None, a_submission(at(2), "b"), "b.pdf is damaged", "damaged")

    taken = entry_of(accept.decide(failed, a_submission(at(1)), None))

    assert ends_of(taken, at(1), at(2)) == ["", "failed"]
    entry, answering = applied(taken)
    assert ends_of(entry, at(1), at(2)) == ["created", "failed"]
    assert isinstance(accept.decide(entry, a_submission(at(3)), answering), Unchanged)


def test_only_the_last_ends_of_a_document_are_kept() -> None:
    entry, answering = first()
    for number in range(2, 40):
        next_one = a_submission(at(number), str(number))
        entry, answering = applied(entry_of(accept.decide(entry, next_one, answering)))
    later = entry_of(accept.decide(entry, a_submission(at(40, time=10**9)), answering))

    assert ends_of(entry, at(39), at(38), at(2)) == ["updated", "updated", "superseded"]
    assert len(entry.earlier) <= MOST_ENDED
    assert later.earlier == ()


def test_an_erasure_forgets_why_others_failed() -> None:
    entry = entry_of(accept.decide(None, a_submission(at(1)), None))
    failed = accept.fail(entry, a_submission(at(2), "b"), "p is damaged", "damaged")

    erased = entry_of(accept.decide(failed, an_erasure(at(3)), None))

    assert erased.earlier == ()
    assert finished(erased, entry.accepted.version, End("failed", 0, error="p gives no chunk")) is None
    assert accept.fail(erased, a_submission(at(2), "b"), "p is damaged", "damaged") is None


@pytest.mark.parametrize("repeated", [False, True], ids=["created", "sent again, unchanged"])
def test_a_record_that_is_read_again_and_can_not_be_any_more_leaves_its_good_end(repeated: bool) -> None:
    entry, answering = first()
    if repeated:
        entry = entry_of(accept.decide(entry, a_submission(at(2)), answering))

    assert accept.fail(entry, a_submission(entry.accepted.place), "its blob is missing", "blob_missing") is None


def test_a_version_that_failed_for_one_worker_and_answers_by_another_ended_well() -> None:
    entry, answering = first()
    failed = msgspec.structs.replace(entry, last=msgspec.structs.replace(entry.last, status="failed", error="x"))

    settled = accept.decide(failed, a_submission(at(1)), answering)

    assert isinstance(settled, Unchanged)
    assert (settled.entry.last.status, settled.entry.last.error) == ("created", None)


@pytest.mark.parametrize("status", ["created", "failed"])
def test_a_version_that_has_ended_stays_so_while_its_event_is_sent_again(status: Status) -> None:
    entry = entry_of(accept.decide(None, a_submission(at(1)), None))
    ended = finished(entry, entry.accepted.version, End(status, 0))
    assert ended is not None

    again = accept.decide(ended, a_submission(at(1)), None)

    assert isinstance(again, Published)
    assert again.entry == ended


def test_a_head_above_the_ledger_is_outdone_unless_it_is_damaged() -> None:
    entry, _ = first()
    next_one = a_submission(at(2), "b")

    versions = [
        entry_of(
            accept.decide(
                entry, next_one, IndexedVersion(document_id="d", tenant="t", version=ahead, deleted=False, whole=True)
            )
        ).accepted.version
        for ahead in (5000, MAX_NATURAL)
    ]

    assert versions == [5001, 2000]


def test_content_that_failed_is_tried_again() -> None:
    failed = accept.fail(None, a_submission(at(1)), "x", "damaged")

    decision = accept.decide(failed, a_submission(at(2)), None)

    assert isinstance(decision, Published)
    assert decision.entry.accepted.outcome == "created"


def test_an_end_is_written_only_where_the_last_version_is_its_own() -> None:
    entry, _ = first()

    assert finished(entry, entry.last.version - 1, End("failed", 0)) is None
    assert finished(None, 1, End("created", 0)) is None


def test_places_of_one_partition_go_by_offset_and_time_together() -> None:
    assert older(at(1), at(2))
    assert not older(at(2), at(1))
    assert not older(at(1), at(1))
    # A topic made anew begins at offset 0 again, and its times go on.
    assert not older(at(0, time=9000), at(5, time=5000))
    assert older(at(9, partition=1, time=1), at(0, partition=2, time=2))


def test_an_entry_survives_the_wire() -> None:
    entry = Entry(
        document_id="d",
        tenant="t",
        source="s",
        path="p",
        rev=3,
        writer="w",
        accepted=Accepted(version=5, place=at(1), raw_hash="r"),
        last=Last(version=5, place=at(1), status="created", at=1, chunk_count=2),
        created_at=1,
        updated_at=2,
        tags=("a", "b"),
    )

    assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(entry)), Entry) == entry


def test_a_submission_that_a_door_has_entered_is_not_answered_by_an_older_one() -> None:
    entry, _ = first()
    entered = Last(version=0, place=at(2), status="accepted", at=0)
    entry = msgspec.structs.replace(entry, accepted=Accepted(), last=entered)

    older_one = entry_of(accept.decide(entry, a_submission(at(1)), None))
    ended = finished(older_one, older_one.accepted.version, End("created", 0))

    assert ended is not None
    assert ended.ended(at(1))
    assert not ended.ended(at(2))


def given(**fields: Any) -> dict[str, Any]:
    """Return what makes a submission differ by what it says of the document."""
    said = Given(**fields)
    return {"given": said, "metadata_hash": repr(said)}


def test_an_update_names_what_it_left_out() -> None:
    first_one = a_submission(at(1), **given(title="T", tags=("a",), metadata={"year": 1}))
    entry, answering = applied(entry_of(accept.decide(None, first_one, None)))

    bare = entry_of(accept.decide(entry, a_submission(at(2), **given(metadata={"year": 2})), answering))
    again = entry_of(accept.decide(bare, a_submission(at(2), **given(metadata={"year": 2})), answering))
    ended, answering = applied(again)

    assert bare.last.dropped == again.last.dropped == ended.last.dropped == ("title", "tags")
    unchanged = accept.decide(ended, a_submission(at(3), **given(metadata={"year": 2})), answering)
    assert entry_of(unchanged).last.dropped == ()


@pytest.mark.parametrize("asked", ["error", "new"])
def test_a_submission_that_is_not_to_replace_meets_a_conflict_only_where_other_content_is_there(asked: str) -> None:
    entry, answering = first()
    under_way = entry_of(accept.decide(None, a_submission(at(1)), None))
    deleted, none = applied(entry_of(accept.decide(entry, a_deletion(at(2)), answering)))

    assert isinstance(accept.decide(None, a_submission(at(1), on_conflict=asked), None), Published)
    assert isinstance(accept.decide(entry, a_submission(at(2), on_conflict=asked), answering), Unchanged)
    assert isinstance(accept.decide(under_way, a_submission(at(2), on_conflict=asked), None), Joined)
    assert isinstance(accept.decide(under_way, a_submission(at(1), on_conflict=asked), None), Published)
    assert isinstance(accept.decide(entry, a_submission(at(2), "b", on_conflict=asked), answering), Conflict)
    assert isinstance(accept.decide(under_way, a_submission(at(2), "b", on_conflict=asked), None), Conflict)
    assert isinstance(accept.decide(deleted, a_submission(at(3), "b", on_conflict=asked), none), Published)


def test_a_conflict_stays_one_when_its_record_is_read_again() -> None:
    entry, answering = first()
    refused = accept.in_conflict(entry, a_submission(at(2), "b", on_conflict="error"), None)
    moved = accept.in_conflict(
        entry, a_submission(at(2), "b", on_conflict="new"), MovedTo(document_id="e", place=at(9))
    )

    for told in (refused, moved):
        again = accept.decide(told, a_submission(at(2), "b", on_conflict="error"), answering)
        assert isinstance(again, Unchanged)
        assert again.entry == told
        assert told.accepted == entry.accepted
    assert ends_of(refused, at(1), at(2)) == ["created", "failed"]
    assert ends_of(moved, at(1), at(2)) == ["created", "unchanged"]


def moved(entry: Entry, place: LogPosition) -> Entry:
    return accept.in_conflict(entry, a_submission(place, "b", on_conflict="new"), MovedTo(document_id="e", place=at(9)))


def repeated(entry: Entry, place: LogPosition) -> Entry:
    return accept.repeated(entry, a_submission(place, "b"))


@pytest.mark.parametrize("later", [moved, repeated])
def test_what_became_another_document_s_neither_ends_nor_hides_the_version_under_way(
    later: Callable[[Entry, LogPosition], Entry],
) -> None:
    entry = entry_of(accept.decide(None, a_submission(at(1)), None))

    for number in range(2, MOST_ENDED + 4):
        entry = later(entry, at(number))
        assert ends_of(entry, at(1), at(number)) == ["", "unchanged"]
        assert entry.last.status == "accepted"  # so that whoever looks for what is open finds it
    ended, _ = applied(entry)

    assert ends_of(ended, at(1), at(2), at(number)) == ["created", "superseded", "unchanged"]
    assert ended.open_versions == ()


def test_a_version_is_above_those_that_failed_before_the_document_was_deleted() -> None:
    failed = accept.fail(None, a_submission(at(1, time=5000)), "p has no body", "no_body")
    deleted = entry_of(accept.decide(failed, a_deletion(at(2, time=5000)), None))

    entry, _ = applied(entry_of(accept.decide(deleted, a_submission(at(3, time=5000), "b"), None)))

    assert entry.accepted.version == 5001
    assert ends_of(entry, at(1, time=5000), at(3, time=5000)) == ["failed", "created"]


TEXT = BlobRef(sha256="0" * 64, size=3)
READING = TextReading(extracted={"document_type": "md", "pages": (1, 2)})


@pytest.mark.parametrize(
    ("text", "reading", "decided"),
    [
        (TEXT, READING, Unchanged),
        (None, None, Published),  # not read again yet
        (BlobRef(sha256="1" * 64, size=3), READING, Published),
        (TEXT, TextReading(extracted={"document_type": "md", "title": "T"}), Published),
    ],
)
def test_given_another_reader_when_it_gives_the_same_text_then_nothing_has_changed(
    text: BlobRef | None, reading: TextReading | None, decided: type[Decision]
) -> None:
    taken = entry_of(accept.decide(None, a_submission(at(1), text=TEXT, reading=READING), None))
    entry, answering = applied(msgspec.json.decode(msgspec.json.encode(taken), type=Entry))

    decision = accept.decide(entry, a_submission(at(2), extractor="y", text=text, reading=reading), answering)

    assert isinstance(decision, decided)
    assert entry_of(decision).accepted.extractor == "y"
