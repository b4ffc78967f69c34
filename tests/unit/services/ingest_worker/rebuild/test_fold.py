"""What the log tells of a document becomes its ledger entry: how it stands, and at which position."""

import msgspec
import pytest

from services.ingest_worker.rebuild.fold import (
    EndedSubmission,
    FoldedLetter,
    NewestVersion,
    entry_of,
    entry_without_version,
)
from shared.contracts import ERASED, DocumentVersion, Given, LogPosition, TextReading
from shared.state.index import Head

NAME = "00000000-0000-5000-8000-0000000000aa"


def at(offset: int) -> LogPosition:
    return LogPosition(partition=0, offset=offset, time=1000 * offset)


VERSION = DocumentVersion(
    document_id=NAME,
    version=5000,
    place=at(5),
    tenant="t",
    source="s",
    path="p",
    outcome="updated",
    raw_hash="r",
    metadata_hash="m",
    updated_at=5000,
)
HEAD = Head(document_id=NAME, version=5000, tenant="t", source="s", path="p", chunk_count=3)


def letter(offset: int, *, stage: str = "ingest", version: int | None = None) -> FoldedLetter:
    return FoldedLetter(
        stage=stage,
        code="empty",
        sentence="no text",
        topic="documents.submitted",
        partition=0,
        offset=offset,
        time=1000 * offset,
        place=at(offset),
        document_id=NAME,
        tenant="t",
        source="s",
        path="p",
        version=version,
        last_seen=9000,
    )


def entry(
    *,
    newest: DocumentVersion = VERSION,
    failure: FoldedLetter | None = None,
    submitted: int | None = None,
    failed: int | None = None,
    settled: bool = False,
    head: Head | None = None,
) -> tuple[str, int, int, int | None]:
    """Return the status, the version it is of, the offset of the newest submission, and how many chunks answer."""
    made = entry_of(
        NewestVersion(newest, failure),
        submitted=None if submitted is None else EndedSubmission(at(submitted), None),
        failed=None if failed is None else letter(failed),
        settled=settled,
        head=head,
    )
    return made.last.status, made.last.version, made.last.place.offset, made.last.chunk_count


def test_what_a_metadata_change_needs_is_in_the_versions_record_and_so_in_the_entry() -> None:
    said = TextReading(extracted={"document_type": "md"})
    whole = msgspec.structs.replace(VERSION, given=Given(tags=("x",)), reading=said)

    made = entry_of(NewestVersion(whole, None), submitted=None, failed=None, settled=False, head=None)

    assert (made.accepted.given, made.accepted.reading) == (Given(tags=("x",)), said)


def test_a_version_ends_again_where_its_points_are_and_is_under_way_where_they_are_not() -> None:
    assert entry() == ("accepted", 5000, 5, None)
    assert entry(head=HEAD) == ("updated", 5000, 5, 3)
    assert entry(head=msgspec.structs.replace(HEAD, version=4000)) == ("accepted", 5000, 5, None)
    assert entry(newest=msgspec.structs.replace(VERSION, outcome="deleted")) == ("deleted", 5000, 5, 0)
    assert entry(failure=letter(5, stage="chunk", version=5000)) == ("failed", 5000, 5, None)


def test_a_submission_that_ended_after_the_version_brought_nothing_new_or_failed() -> None:
    assert entry(submitted=7, head=HEAD) == ("updated", 5000, 7, 3)
    assert entry(submitted=4, head=HEAD) == ("updated", 5000, 5, 3)
    assert entry(failed=7, head=HEAD) == ("failed", 7000, 7, None)
    assert entry(failed=4, head=HEAD) == ("updated", 5000, 5, 3)
    assert entry(submitted=7, failed=7, head=HEAD) == ("failed", 7000, 7, None)
    assert entry(submitted=8, failed=7, head=HEAD) == ("updated", 5000, 8, 3)
    assert entry(submitted=7, settled=True, head=HEAD) == ("failed", 7000, 7, None)


@pytest.mark.parametrize("path", ["p", ""], ids=["deleted", "erased"])
def test_a_document_without_a_version_is_known_by_its_deletion_or_its_failure(path: str) -> None:
    gone = entry_without_version(NAME, EndedSubmission(at(2), ("t", path and "s", path)), None)
    failed = entry_without_version(NAME, EndedSubmission(at(2), None), letter(2))
    unknown = entry_without_version(NAME, EndedSubmission(at(2), None), None)

    assert gone is not None
    assert (gone.last.status, gone.last.version, gone.accepted.raw_hash) == ("deleted", 0, "" if path else ERASED)
    assert failed is not None
    assert (failed.last.status, failed.last.code, failed.accepted.version) == ("failed", "empty", 0)
    assert unknown is None
