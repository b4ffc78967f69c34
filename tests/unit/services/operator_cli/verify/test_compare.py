"""Whatever is changed in a right state is named, and its remedy leads back."""

from collections.abc import Iterable
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.operator_cli.verify.compare import (
    expected_of,
    index_judged,
    last_of,
    ledger_judged,
    misnamed,
    outage,
)
from services.operator_cli.verify.findings import JudgedDocument, Remedy
from shared.contracts import ERASED, DocumentVersion, Given, LetterHead, LogPosition, TextReading
from shared.store import Filter, Ids, Match, Point, Sparse
from tests.unit.services.operator_cli.verify.builders import (
    NAME,
    PLACE,
    a_version,
    an_expectation,
    payload_of,
    right_entry,
    right_points,
)

WANTED = an_expectation("first", "second", "first")
HEAD = payload_of(WANTED.head)
ENTRY = payload_of(right_entry(WANTED.document))
LATER = LogPosition(partition=3, offset=9, time=PLACE.time + 5)
LETTER = LetterHead(
    stage="chunk",
    code="empty",
    sentence="gives no chunk",
    topic="documents.extracted",
    partition=0,
    offset=0,
    time=7,
    place=PLACE,
    last_seen=8,
)


def entry(judged_as: str = "created", **fields: Any) -> dict[str, Any]:
    return ENTRY | {"last": ENTRY["last"] | {"status": judged_as} | fields}


def in_ledger(payload: dict[str, Any] | None, **more: Any) -> JudgedDocument:
    given: dict[str, Any] = {"failure": None, "submitted": PLACE, "lettered": True}
    return ledger_judged(NAME, WANTED.document, payload=payload, **(given | more))


def sentences(judged: JudgedDocument) -> str:
    return " | ".join(f"{each.invariant} {each.sentence}" for each in judged.differences)


def test_a_right_document_is_right() -> None:
    assert index_judged(NAME, WANTED, HEAD, right_points(WANTED)) == JudgedDocument()
    assert in_ledger(ENTRY) == JudgedDocument()


def test_what_a_metadata_change_needs_is_compared_and_repaired() -> None:
    told = msgspec.structs.replace(WANTED.document, given=Given(tags=("red",)), reading=TextReading(extracted={}))
    known = {"given": {"tags": ["red"]}, "reading": {"extracted": {}}}

    def judged(document: DocumentVersion, accepted: dict[str, Any]) -> JudgedDocument:
        payload = entry() | {"accepted": ENTRY["accepted"] | accepted}
        return ledger_judged(NAME, document, failure=None, submitted=PLACE, payload=payload, lettered=True)

    assert judged(told, known) == JudgedDocument()
    remedy = judged(told, {}).remedy
    assert remedy.entry is not None
    assert (remedy.entry.accepted.given, remedy.entry.accepted.reading) == (told.given, told.reading)


def test_a_deleted_document_has_a_head_and_no_point() -> None:
    gone = an_expectation(outcome="deleted", text_sha256=None)

    assert index_judged(NAME, gone, payload_of(gone.head), []) == JudgedDocument()
    assert "I2" in sentences(index_judged(NAME, gone, payload_of(gone.head), right_points(WANTED)))


def test_of_a_text_that_another_chunker_cut_the_chunks_themselves_are_not_compared() -> None:
    elsewhere = expected_of(WANTED.document, None)
    head, points = {**HEAD, "chunkCount": 1}, right_points(WANTED)[:1]
    points[0].payload["text"] = "cut elsewhere"
    stale = msgspec.structs.replace(points[0], id="stale", payload={"text": "", "metadata": {"version": 1}})

    assert index_judged(NAME, elsewhere, head, points) == JudgedDocument()
    assert sentences(index_judged(NAME, elsewhere, head, [])).startswith("I1")
    assert index_judged(NAME, elsewhere, head, [*points, stale]).remedy.delete_points == ("stale",)
    wrong = index_judged(NAME, elsewhere, {**head, "title": "another"}, points)
    assert (wrong.remedy.mend_head, wrong.remedy.publish) == (
        msgspec.structs.replace(elsewhere.head, chunk_count=1),
        True,
    )


METADATA = sorted(right_points(WANTED)[0].payload["metadata"])


@given(which=st.integers(0, 2), field=st.sampled_from(METADATA), gone=st.booleans())
def test_no_field_of_a_point_can_be_changed_unseen(which: int, field: str, gone: bool) -> None:
    points = right_points(WANTED)
    metadata = dict(points[which].payload["metadata"])
    metadata.pop(field)
    if not gone:
        metadata[field] = "another"
    points[which] = msgspec.structs.replace(
        points[which], payload={"text": points[which].payload["text"], "metadata": metadata}
    )

    judged = index_judged(NAME, WANTED, HEAD, points)

    assert len(judged.differences) == 1
    assert judged.differences[0].invariant == ("I8" if field == "tenant" else "I1")
    assert plain(_after(judged.remedy, points)) == plain(right_points(WANTED))


def plain(points: Iterable[Point]) -> dict[str, Any]:
    return {
        point.id: (point.payload, point.sparse, point.dense.tolist() if point.dense is not None else None)
        for point in points
    }


def _after(remedy: Remedy, points: list[Point]) -> list[Point]:
    """Return the points after the remedy, those that the worker will write anew among them."""
    assert remedy.publish
    mended = {point.id: point for point in remedy.mend_points}
    rest = [mended.get(point.id, point) for point in points if point.id not in remedy.delete_points]
    there = {point.id for point in rest}
    return [*rest, *(point for point in right_points(WANTED) if point.id not in there)]


@given(field=st.sampled_from(sorted({*HEAD} - {"version"})))
def test_no_field_of_a_head_can_be_changed_unseen_and_the_right_one_takes_its_place_at_once(field: str) -> None:
    other = {"chunkCount": 9, "textSize": 1, "updatedAt": 1, "tags": ["x"]}.get(field, "another")

    judged = index_judged(NAME, WANTED, HEAD | {field: other}, right_points(WANTED))

    assert judged.differences
    assert judged.remedy == Remedy(mend_head=WANTED.head, publish=True)


@pytest.mark.parametrize(("version", "goes"), [(6, True), (4, False)])
def test_a_raised_head_goes_before_the_version_comes_again_and_a_lower_one_is_replaced(
    version: int, goes: bool
) -> None:
    judged = index_judged(NAME, WANTED, HEAD | {"version": version}, right_points(WANTED))

    dropped = Filter(must=(Ids((NAME,)), Match("version", (version,)))) if goes else None
    assert sentences(judged) == f"I1 the head is at version {version}, the log at 5"
    assert judged.remedy == Remedy(drop_head=dropped, publish=True)


def test_a_damaged_vector_goes_and_a_sound_one_stays_whatever_else_is_wrong() -> None:
    damaged, mistaken, right = right_points(WANTED)
    damaged = msgspec.structs.replace(damaged, dense=np.array([9, 9], np.float32))
    mistaken = msgspec.structs.replace(mistaken, sparse=Sparse([8], [1.0]))

    judged = index_judged(NAME, WANTED, HEAD, [damaged, mistaken, right])

    assert judged.remedy.delete_points == (damaged.id,)
    assert plain(judged.remedy.mend_points) == plain(right_points(WANTED)[1:2])


def test_a_sparse_vector_is_its_own_in_any_order_and_at_the_stores_precision() -> None:
    wanted = an_expectation("one")
    [point] = wanted.points.values()
    point = msgspec.structs.replace(point, sparse=Sparse([7, 3], [0.1, 0.2]))
    wanted = msgspec.structs.replace(wanted, points={point.id: point})
    [stored] = right_points(wanted)
    stored = msgspec.structs.replace(stored, sparse=Sparse([3, 7], [float(np.float32(0.2)), float(np.float32(0.1))]))

    assert index_judged(NAME, wanted, payload_of(wanted.head), [stored]) == JudgedDocument()


def test_what_the_log_does_not_know_goes() -> None:
    points = right_points(WANTED)

    judged = index_judged(NAME, None, HEAD, points)

    assert {each.invariant for each in judged.differences} == {"I2"}
    assert judged.remedy.delete_points == tuple(point.id for point in points)
    assert judged.remedy.drop_head is not None
    assert not judged.remedy.publish


@pytest.mark.parametrize(
    ("names", "last", "right"),
    [
        (("", ""), 5, True),
        (("s", "p"), 5, False),  # they should have gone
        (("s", "p"), 9, True),  # sent again, it failed
        (("", ""), 9, True),
        (("s", "elsewhere"), 9, False),
    ],
)
def test_an_erased_document_has_names_only_when_it_was_sent_again(
    names: tuple[str, str], last: int, right: bool
) -> None:
    document = a_version(raw_hash=ERASED, outcome="deleted", source="", path="")
    entry = msgspec.structs.replace(right_entry(document), source=names[0], path=names[1])
    if last > document.version:
        later = msgspec.structs.replace(entry.last, version=last, status="failed", place=LATER)
        entry = msgspec.structs.replace(entry, last=later)

    judged = ledger_judged(NAME, document, failure=None, submitted=PLACE, payload=payload_of(entry), lettered=True)

    assert (sentences(judged) == "") is right
    assert right or "the ledger's entry is of" in sentences(judged)


@pytest.mark.parametrize(
    ("payload", "more", "words"),
    [
        (None, {}, "I3 version 5 was accepted, and the ledger has no entry"),
        (ENTRY | {"tenant": "thief"}, {}, "I8 the ledger entry has the tenant thief"),
        (ENTRY | {"path": "elsewhere"}, {}, "I3 the ledger's entry is of s/elsewhere"),
        (
            ENTRY | {"accepted": ENTRY["accepted"] | {"rawHash": "x"}},
            {},
            "I3 the ledger's version 5: rawHash is",
        ),
        (ENTRY | {"accepted": ENTRY["accepted"] | {"version": 6}}, {}, "I3 the ledger accepted version 6"),
        (entry("accepted"), {}, "I3 version 5 has not ended"),
        (entry("deleted"), {}, "I3 version 5 is deleted, and was accepted as created"),
        (entry("failed"), {}, "I4 version 5 failed without a dead letter"),
        (entry("failed", version=9), {"lettered": False}, "I4 the submission at 3@7 failed without a dead letter"),
        (entry("created", version=9), {}, "I3 version 9 is created, but the log's newest version is 5"),
        (entry("created", version=4), {}, "I3 the ledger ends at version 4"),
        (ENTRY, {"submitted": LATER}, "I3 the submission at 3@9 has not ended"),
        (ENTRY | {"tags": ["green"]}, {}, "I3 the ledger's tags is ('green',), not ('red', 'blue')"),
        (entry("unchanged") | {"title": "Another"}, {}, "I3 the ledger's title is 'Another', not 'A title'"),
    ],
)
def test_an_entry_that_is_not_as_the_log_says_is_named_and_made_anew(
    payload: dict[str, Any] | None, more: dict[str, Any], words: str
) -> None:
    judged = in_ledger(payload, **more)

    assert words in sentences(judged)
    assert judged.remedy.entry is not None
    assert judged.remedy.entry.accepted == right_entry(WANTED.document).accepted
    assert judged.remedy.publish
    assert judged.remedy.resubmit == more.get("submitted")


@pytest.mark.parametrize(
    ("payload", "more"),
    [
        (entry("unchanged"), {}),
        # The same bytes came with another ETag.
        (entry("unchanged") | {"accepted": ENTRY["accepted"] | {"validators": {"url": "x"}}}, {}),
        (entry("failed") | {"title": "Another"}, {"failure": LETTER}),
        (entry("failed", version=9, place=payload_of(LATER)), {"submitted": LATER}),  # rejected before an event
    ],
)
def test_other_good_ends_are_right(payload: dict[str, Any], more: dict[str, Any]) -> None:
    assert in_ledger(payload, **more) == JudgedDocument()


def test_a_failed_version_gets_its_entry_back_from_its_letter_and_is_not_tried_again() -> None:
    judged = in_ledger(None, failure=LETTER)

    assert judged.remedy.entry is not None
    assert (judged.remedy.entry.last.status, judged.remedy.entry.last.error) == ("failed", "gives no chunk")
    assert not judged.remedy.publish


def test_a_submission_without_an_event_is_decided_again_as_long_as_the_log_has_it() -> None:
    lost = ledger_judged(NAME, None, failure=None, submitted=PLACE, payload=None, lettered=False)
    forgotten = ledger_judged(NAME, None, failure=None, submitted=None, payload=ENTRY, lettered=False)
    rejected = entry("failed", version=1) | {"accepted": payload_of(right_entry(a_version(version=0)).accepted)}
    fine = ledger_judged(NAME, None, failure=None, submitted=PLACE, payload=rejected, lettered=True)

    assert lost.remedy == Remedy(resubmit=PLACE)
    assert "I3 the ledger accepted version 5, the log has no event" in sentences(forgotten)
    assert forgotten.remedy == Remedy()
    assert fine == JudgedDocument()


def test_an_unreadable_entry_says_nothing() -> None:
    assert last_of(None) is None
    assert last_of({"last": {}}) is None
    assert "can't be read" in sentences(in_ledger({"rev": 3}))


def test_a_letter_for_an_outage_is_named() -> None:
    assert outage(LETTER) is None
    assert "log_unavailable" in (outage(msgspec.structs.replace(LETTER, code="log_unavailable")) or "")


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"version": 6}, f"about {NAME}/6"),
        ({"document_id": "other"}, "about other/5"),
        ({"tenant": "thief"}, "thief's s/p has another id"),
    ],
)
def test_a_record_under_a_foreign_key_is_named(fields: dict[str, object], words: str) -> None:
    assert misnamed(a_version(), NAME, 5) is None
    assert words in (misnamed(a_version(**fields), NAME, 5) or "")


def test_an_erased_version_names_nothing_but_its_id() -> None:
    erased = {"raw_hash": ERASED, "outcome": "deleted", "source": "", "path": "", "title": None}

    assert misnamed(a_version(**erased), NAME, 5) is None
    for field in ("source", "path", "title"):
        assert "still contains 'x'" in (misnamed(a_version(**(erased | {field: "x"})), NAME, 5) or "")
