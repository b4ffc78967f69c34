"""What `sluice backup` and `sluice restore` print."""

from services.operator_cli.actions.keeping import backup_lines, restore_lines
from services.operator_cli.moving.backup import BackedUp
from services.operator_cli.moving.restore import Restored


def backed_up(*, dry_run: bool) -> BackedUp:
    return BackedUp(
        path="/b",
        dry_run=dry_run,
        log_bytes=2_000_000,
        store_bytes=3_000_000,
        blob_bytes=500_000,
        documents=7,
        points=40,
        blobs=9,
        seconds=1.25,
    )


def restored(**fields: object) -> Restored:
    given: dict[str, object] = {
        "path": "/d",
        "dry_run": False,
        "created": "2026-11-22T19:00:00Z",
        "sluice": "0.1.0",
        "documents": 7,
        "points": 40,
        "blobs": 9,
        "settings": {},
    }
    return Restored(**(given | fields))  # type: ignore[arg-type]  # by name


def test_a_backup_says_what_it_holds() -> None:
    assert list(backup_lines(backed_up(dry_run=False))) == [
        "Backed up 7 documents, 40 points, 9 blobs to /b in 1.2 s",
        "5.5 MB: log 2.0 MB, index 3.0 MB, blobs 0.5 MB",
    ]
    assert next(backup_lines(backed_up(dry_run=True))).startswith("Would back up 7 documents")


def test_a_restore_says_what_is_next() -> None:
    lines = list(restore_lines(restored(settings={"chunk_size": "400"})))

    assert lines[-2:] == [
        "It was made with SLUICE_CHUNK_SIZE=400",
        "Start it with SLUICE_DATA=/d sluice serve, then compare it with its log: sluice verify",
    ]
    assert list(restore_lines(restored(dry_run=True)))[-1] == "Would restore it into /d"
