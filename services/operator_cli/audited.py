"""Records in the audit trail the commands that work on the installation itself instead of through the API."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from services.operator_cli.options import remark
from shared.contracts import AuditEntry, AuditResult
from shared.errors import PipelineError, Unavailable
from shared.log import Log
from shared.log.audit_trail import AuditTrail
from shared.log.open import open_log
from shared.log.publish import publish
from shared.settings import ConfigurationError, Settings
from shared.topics import audit_topic

PATIENCE_S: Final = 20.0


async def record(
    log: Log, settings: Settings, action: str, result: AuditResult, *, of: Sequence[tuple[str, str]] = (("", ""),)
) -> None:
    """Add an entry for each tenant and key id that the command concerns; return when the log has them.

    Raises:
        Unavailable: the log is away.
    """
    await log.ensure_topics([audit_topic(settings.audit_retention_ms, replication=settings.replication or None)])
    broker = log.broker("audit")
    await broker.start()
    try:
        trail = AuditTrail(partial(publish, broker))
        for tenant, key in of:
            trail.add(
                AuditEntry(time=trail.now_ms, action=action, result=result, tenant=tenant, key=key, door="command")
            )
        await trail.written()
    finally:
        await broker.stop()


@asynccontextmanager
async def audited(log: Log, settings: Settings, action: str) -> AsyncIterator[None]:
    """Record the command before and after the block.

    Raises:
        Unavailable: the log is away. If it was away before the block, nothing was done.
    """
    await record(log, settings, action, "begun")
    try:
        yield
    except PipelineError:
        await record(log, settings, action, "failed")
        raise
    await record(log, settings, action, "done")


def record_keys(settings: Settings, action: str, of: Sequence[tuple[str, str]]) -> None:
    """Record the tenants and ids of keys that were made or revoked. If the log is away, print a warning instead.

    Revoking a key must work while the log is away.
    """

    async def run() -> None:
        settings.data.mkdir(parents=True, exist_ok=True)
        log = open_log(settings.log, settings.data)
        try:
            async with asyncio.timeout(PATIENCE_S):
                await log.start()
                await record(log, settings, action, "done", of=of)
        finally:
            await log.stop()

    try:
        asyncio.run(run())
    except TimeoutError:
        remark(f"this command is not in the audit trail: the log gave no answer in {PATIENCE_S:g} s")
    except (Unavailable, ConfigurationError) as error:
        sentence = error.sentence if isinstance(error, Unavailable) else str(error)
        remark(f"this command is not in the audit trail: {sentence}")
