"""`sluice lag`, `groups` and `replay` on a log that no server runs on."""

import asyncio
import json
from functools import partial
from pathlib import Path

import pytest

from shared.contracts import DocumentSubmitted, encode
from shared.log.publish import publish
from shared.log.sqlite import SqliteLog
from shared.topics import SUBMITTED, pipeline_topics
from tests.unit.services.operator_cli.conftest import Sluice, Wire


async def _filled(path: Path) -> None:
    """Put three submissions of two sources on a new log, of which `ingest` has read all."""
    log = SqliteLog(path)
    await log.start()
    await log.ensure_topics(pipeline_topics("g", partitions=1))
    broker = log.broker("test")
    await broker.start()
    for source, name in (("a", "1"), ("a", "2"), ("b", "3")):
        document = DocumentSubmitted(source=source, path=name, text="x")
        await publish(broker, SUBMITTED, encode(document), key=document.document_id.encode())
    await publish(broker, SUBMITTED, b"[]", key=b"nobody's")
    await log.reset_offsets("ingest", dict.fromkeys(await log.end_offsets(SUBMITTED), 4))
    await broker.stop()
    await log.stop()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLUICE_DATA", str(tmp_path))
    monkeypatch.setenv("SLUICE_CONFIG", "")
    return tmp_path


@pytest.fixture
def filled(folder: Path) -> Path:
    asyncio.run(_filled(folder / "log.sqlite"))
    return folder


async def _end(path: Path) -> int:
    log = SqliteLog(path)
    await log.start()
    (end,) = (await log.end_offsets(SUBMITTED)).values()
    await log.stop()
    return end


def test_lag_and_description_are_kafka_s_table(sluice: Sluice, filled: Path) -> None:
    moved = sluice("groups", "reset", "--group", "ingest", "--shift-by=-2", "--yes")

    assert (moved.code, moved.out) == (0, f"GROUP\tTOPIC\tPARTITION\tNEW-OFFSET\ningest\t{SUBMITTED}\t0\t2\n")
    described = sluice("groups", "describe", "--group", "ingest", "--no-header")
    assert described.out == f"ingest\t{SUBMITTED}\t0\t2\t4\t2\t-\t-\t-\n"
    (lag,) = json.loads(sluice("lag", "--json").out)
    assert (lag["group"], lag["lag"], lag["members"]) == ("ingest", 2, 0)
    assert lag["oldestUnread"].endswith("Z")


def test_a_reset_asks_and_dry_run_only_tells(sluice: Sluice, filled: Path) -> None:
    unasked = sluice("groups", "reset", "--group", "ingest", "--to-earliest")
    dry = sluice("groups", "reset", "--group", "ingest", "--to-earliest", "--dry-run", "--json")

    assert (unasked.code, unasked.err[:29]) == (2, "sluice: add --yes to reset in")
    assert json.loads(dry.out) == [
        {"group": "ingest", "topic": SUBMITTED, "partition": 0, "currentOffset": 4, "newOffset": 0}
    ]
    assert json.loads(sluice("lag", "--json").out)[0]["lag"] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("groups", "reset", "--group", "ingest", "--yes"), 2, "give one of --to-earliest"),
        (("groups", "reset", "--group", "ingest", "--to-datetime", "soon", "--yes"), 2, "--to-datetime soon must be"),
        (("groups", "reset", "--group", "mine", "--to-latest", "--yes"), 1, "mine is not a group of the pipeline"),
        (("groups", "describe", "--group", "mine"), 1, "there is no group mine; there are ingest"),
        (("replay", "--topic", "dead.letters", "--from", "0"), 1, "dead.letters can't be replayed"),
        (("replay", "--topic", SUBMITTED, "--from", "yesterday"), 2, "--from yesterday must be an offset or a time"),
        (
            ("replay", "--topic", SUBMITTED, "--from", "0", "--partition", "9"),
            1,
            f"{SUBMITTED} has 1 partitions, but no partition 9",
        ),
    ],
)
def test_what_can_not_be_done_is_one_line(
    sluice: Sluice, filled: Path, arguments: tuple[str, ...], code: int, sentence: str
) -> None:
    ran = sluice(*arguments)

    assert ran.code == code
    assert ran.err.startswith(f"sluice: {sentence}")


def test_a_folder_without_a_log_is_not_made_one(sluice: Sluice, folder: Path) -> None:
    ran = sluice("lag")

    assert (ran.code, list(folder.iterdir())) == (2, [])
    assert "has no log.sqlite" in ran.err


def test_the_lag_of_a_server_that_the_url_names_is_asked_there(sluice: Sluice, wire: Wire, folder: Path) -> None:
    wire.answers("GET", "/ops/lag", [{"group": "ingest", "topic": SUBMITTED, "lag": 7, "members": 1}])
    wire.refuses("GET", "/ops/lag", 403, "this API key lacks the role operator")

    asked, refused = sluice("lag"), sluice("lag")

    assert asked.out == f"GROUP\tTOPIC\tLAG\tMEMBERS\tOLDEST-UNREAD\ningest\t{SUBMITTED}\t7\t1\t\n"
    assert (refused.code, "role operator" in refused.err) == (1, True)


def test_a_replay_sends_what_was_chosen_again(sluice: Sluice, filled: Path) -> None:
    replay = partial(sluice, "replay", "--topic", SUBMITTED, "--from")

    dry = replay("beginning", "--source", "a", "--dry-run")
    done = replay("1", "--until", "3", "--json")

    assert (dry.code, dry.out.splitlines()[-1]) == (1, "2 records would be sent again")  # one can't be read
    assert json.loads(done.out) | {"partitions": []} == {
        "topic": SUBMITTED,
        "dryRun": False,
        "read": 2,
        "sent": 2,
        "unreadable": 0,
        "partitions": [],
    }
    assert asyncio.run(_end(filled / "log.sqlite")) == 6
