"""`sluice init` on the standalone parts: what it makes, what it leaves, and what it says of what differs."""

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from services.operator_cli.provisioning import InitStep, initialise, lines
from shared.log.open import open_log
from shared.runtime.data_lock import lock_data_folder
from shared.settings import ConfigurationError, Settings
from shared.store.open import open_store
from shared.topics import AUDIT, DEAD_LETTERS, EXTRACTED, FEEDBACK, PAIRING, STATUS, SUBMITTED, Topic, TopicDifference
from tests.selection import CI_ONLY


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data=tmp_path / "data")


def states(parts: tuple[InitStep, ...]) -> Counter[str]:
    return Counter(part.state for part in parts)


async def made_by_others(settings: Settings, *topics: Topic) -> None:
    settings.data.mkdir()
    log = open_log(settings.log, settings.data)
    await log.start()
    await log.ensure_topics(topics)
    await log.stop()


async def test_a_setting_that_can_not_work_leaves_nothing_behind(settings: Settings) -> None:
    with pytest.raises(ConfigurationError, match="SLUICE_EMBEDDER"):
        await initialise(settings.model_copy(update={"embedder": "nonsense:"}), dry_run=False)

    assert not settings.data.exists()


@CI_ONLY
async def test_what_is_missing_is_made_once_and_a_dry_run_makes_nothing(settings: Settings) -> None:
    looked = await initialise(settings, dry_run=True)
    untouched = not settings.data.exists()
    made = await initialise(settings, dry_run=False)
    again = await initialise(settings, dry_run=False)

    assert untouched
    assert states(looked) == {"missing": 12}
    assert states(made) == {"created": 12}
    assert states(again) == {"there": 12}
    topics = {part.name: part.partitions for part in again if part.kind == "topic"}
    [chunks] = [name for name in topics if name.startswith("chunks.")]
    single = (STATUS, DEAD_LETTERS, AUDIT, FEEDBACK, PAIRING)
    assert topics == dict.fromkeys((SUBMITTED, EXTRACTED, chunks), 8) | dict.fromkeys(single, 1)
    assert [part.name for part in again if part.kind == "generation"] == [chunks.removeprefix("chunks.")]


@CI_ONLY
async def test_new_topics_get_the_partitions_asked_for_and_old_ones_keep_theirs(settings: Settings) -> None:
    await initialise(settings.model_copy(update={"partitions": 3}), dry_run=False)

    later = await initialise(settings, dry_run=False)

    inbox = later[0]
    assert (inbox.name, inbox.state, inbox.partitions) == (SUBMITTED, "there", 3)
    assert [(each.weight, str(each)) for each in inbox.differences] == [("note", "partitions 3, not 8")]


async def test_nothing_is_made_beside_a_topic_that_is_unfit(settings: Settings) -> None:
    await made_by_others(settings, Topic(name=SUBMITTED, cleanup="compact"))

    parts = await initialise(settings, dry_run=False)

    assert (parts[0].name, parts[0].state) == (SUBMITTED, "unfit")
    assert states(parts) == {"unfit": 1, "missing": 11}


@CI_ONLY
async def test_a_store_that_another_process_runs_is_used_where_it_is(settings: Settings) -> None:
    settings.data.mkdir()
    with lock_data_folder(settings.data):
        store = open_store(settings)
        await store.start()
        try:
            parts = await initialise(settings, dry_run=False)
            assert states(parts) == {"created": 12}
            assert "ledger" in await store.collections()
        finally:
            await store.close()


@CI_ONLY
async def test_an_index_that_was_built_otherwise_is_there_and_nothing_is_made(settings: Settings) -> None:
    made = await initialise(settings, dry_run=False)

    again = await initialise(settings.model_copy(update={"chunk_size": 400}), dry_run=False)

    assert [step.name for step in again] == [step.name for step in made]
    assert {step.state for step in again} == {"there"}


def test_an_operator_reads_what_differs_and_a_command_to_paste() -> None:
    clock = TopicDifference(
        weight="unfit", what="clock", found="theirs", wanted="ours", why="versions would mix", mend="set-clock ours"
    )
    told = [
        *lines((InitStep(kind="topic", name="t", state="unfit", partitions=1, differences=(clock,)),), dry_run=False)
    ]

    assert told == [
        "unfit    topic       t  1 partition",
        "         unfit: clock theirs, not ours: versions would mix",
        "         mend: set-clock ours",
    ]


def sluice(data: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "services.operator_cli", "init", *arguments],
        env={**os.environ, "SLUICE_DATA": str(data)},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )


@CI_ONLY
async def test_the_command_prints_one_document_and_exits_by_what_it_found(settings: Settings) -> None:
    dry = sluice(settings.data, "--dry-run", "--json")
    await made_by_others(settings, Topic(name=SUBMITTED, cleanup="compact"))
    unfit = sluice(settings.data)

    assert (dry.returncode, dry.stderr) == (0, "")
    told = json.loads(dry.stdout)
    assert told["dryRun"] is True
    assert told["parts"][0] == {"kind": "topic", "name": SUBMITTED, "state": "missing"}
    assert (unfit.returncode, unfit.stderr) == (1, "")
    assert f"unfit    topic       {SUBMITTED}  8 partitions" in unfit.stdout
    assert f"{len(told['parts']) - 1} missing: they will be created once the unfit ones are fixed" in unfit.stdout
