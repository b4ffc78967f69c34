"""Commands that don't go through the API leave entries, too."""

import asyncio
import json
from pathlib import Path

import pytest

from services.operator_cli.installation import audited
from shared.contracts import AuditEntry
from shared.errors import Rejected
from shared.log.audit_trail import AuditFilter, audit_page
from shared.log.sqlite import SqliteLog
from shared.settings import Settings
from shared.topics import SUBMITTED, pipeline_topics
from tests.unit.services.operator_cli.conftest import Sluice


@pytest.fixture(autouse=True)
def _data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICE_DATA", str(tmp_path))


async def entries(data: Path) -> list[AuditEntry]:
    log = SqliteLog(data / "log.sqlite")
    await log.start()
    try:
        return (await audit_page(log, AuditFilter(), limit=100)).entries
    finally:
        await log.stop()


@pytest.mark.feature(256)
def test_keys_that_are_made_and_revoked_are_recorded_by_tenant_and_id(sluice: Sluice, tmp_path: Path) -> None:
    made = json.loads(sluice("keys", "new", "-t", "acme", "-r", "query", "--note", "a secret note", "--json").out)
    sluice("keys", "revoke", made["id"])
    found = asyncio.run(entries(tmp_path))

    assert [(e.action, e.tenant, e.key, e.result, e.door) for e in found] == [
        (action, "acme", made["id"], "done", "command") for action in ("keys new", "keys revoke")
    ]


def test_a_key_is_revoked_though_the_log_is_away(
    sluice: Sluice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = json.loads(sluice("keys", "new", "-t", "acme", "-r", "query", "--json").out)
    (tmp_path / "log.sqlite").unlink()
    (tmp_path / "log.sqlite").mkdir()

    ran = sluice("keys", "revoke", made["id"])

    assert ran.out.startswith(f"revoked {made['id']} of acme\n")
    assert "this command is not in the audit trail" in ran.err
    assert ran.code == 0


def test_replay_and_reset_are_recorded_before_and_after(sluice: Sluice, tmp_path: Path) -> None:
    async def prepare() -> None:
        log = SqliteLog(tmp_path / "log.sqlite")
        await log.start()
        await log.ensure_topics(pipeline_topics("g", partitions=1))
        await log.stop()

    asyncio.run(prepare())
    sluice("replay", "--topic", SUBMITTED, "--from", "beginning")
    sluice("replay", "--topic", SUBMITTED, "--from", "beginning", "--dry-run")
    sluice("groups", "reset", "--group", "ingest", "--to-earliest", "--yes")
    found = asyncio.run(entries(tmp_path))

    assert [(e.action, e.result) for e in found] == [
        (action, result) for action in ("replay", "groups reset") for result in ("begun", "done")
    ]


async def test_a_command_that_fails_says_so(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.sqlite")
    await log.start()
    with pytest.raises(Rejected):
        async with audited(log, Settings(data=tmp_path), "replay"):
            raise Rejected("no")
    found = (await audit_page(log, AuditFilter(), limit=100)).entries
    await log.stop()

    assert [entry.result for entry in found] == ["begun", "failed"]
