"""`sluice verify`: open the configured parts, compare index and log, repair if asked to, and report."""

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec

from services.ingest_worker.chunk import CHUNKER
from services.operator_cli.installation import audited, opened_log, opened_store, run
from services.operator_cli.terminal import CommandProgress
from services.operator_cli.verify.findings import INVARIANTS, MEANINGS, VerifyReport
from services.operator_cli.verify.repair import Repair, Repaired
from services.operator_cli.verify.verifier import Verifier, VerifierParts
from shared.blobs.open import open_blobs
from shared.contracts import Message
from shared.embedder.open import EmbedderPool
from shared.errors import Unavailable
from shared.runtime.in_force import COMMAND as REINDEX
from shared.runtime.in_force import model_in_force
from shared.runtime.resources import known_registry
from shared.runtime.stage_runner import model_of
from shared.settings import ConfigurationError, Settings
from shared.state import ledger, verification_result
from shared.state.as_of import overtaken
from shared.state.generations import AsOf, registry_of
from shared.state.rebuild_gate import CODE, LOST, RebuildGate
from shared.store import Store
from shared.store.bm25 import current_bm25

_LOOK_S = 0.25  # seconds between two checks whether a rebuild has ended


class VerifyOutcome(Message, frozen=True):
    """The result of the command."""

    report: VerifyReport  # after the repair, if there was one
    found: VerifyReport | None = None  # before the repair
    repaired: Repaired | None = None
    dry_run: bool = False

    @property
    def exit_code(self) -> int:
        """Return 0 if index and log agree, 1 if something differs, 2 if some documents couldn't be checked."""
        return {"right": 0, "wrong": 1, "unsettled": 2}[self.report.verdict]


def verify_here(
    *, repair: bool, dry_run: bool, sample: int | None, patience_s: float, generation: str | None = None
) -> VerifyOutcome:
    """Verify by the environment's settings; return what was found and repaired.

    Raises:
        ConfigurationError: the settings can't work, or there is no log yet.
        Unavailable: a part is away.
    """

    async def work(settings: Settings, watch: CommandProgress) -> VerifyOutcome:
        async with (
            opened(settings, generation) as parts,
            audited(parts.log, settings, "verify --repair") if repair and not dry_run else nullcontext(),
        ):
            return await verify(parts, watch, repair=repair, dry_run=dry_run, sample=sample, patience_s=patience_s)

    return run(work, level="warning")


async def verify(
    parts: VerifierParts,
    watch: CommandProgress,
    *,
    repair: bool,
    dry_run: bool,
    sample: int | None,
    patience_s: float,
) -> VerifyOutcome:
    """Return what was found and repaired; the verdict is stored for the readiness probe.

    Raises:
        ConfigurationError: the log has nothing to repair from.
        Unavailable: a part is away, or the index is being rebuilt.
    """
    if parts.as_of is not None:
        await _comparable(parts, parts.as_of, repair=repair)
    parts = await _whole(parts, patience_s, if_lost=False)
    verifying = partial(Verifier, watch=watch, sample=sample, patience_s=patience_s)
    verifier = verifying(parts)
    report = await verifier.verify()
    outcome = VerifyOutcome(report=report, dry_run=dry_run)
    if repair and report.differences:
        await _keep(parts.store, report)
        if not dry_run:
            before, parts = parts, await _whole(parts, patience_s, if_lost=True)
            if parts is not before:  # what was found is of the lost one
                verifier = verifying(parts)
                report = await verifier.verify()
        repaired = await Repair(verifier, dry_run).repair(report)
        if not dry_run:
            report = await verifying(parts).verify()
        outcome = VerifyOutcome(report=report, found=outcome.report, repaired=repaired, dry_run=dry_run)
    registry = await registry_of(parts.store)
    if registry is None or registry.serving == parts.generation.id:
        await _keep(parts.store, report)
    return outcome


async def _comparable(parts: VerifierParts, as_of: AsOf, *, repair: bool) -> None:
    """Check that the log still has what the generation shows.

    Raises:
        ConfigurationError: compaction may have deleted some of it, or `repair` is wanted. Unavailable: the log is away.
    """
    name = parts.generation.id
    if await overtaken(as_of, parts.log):
        raise ConfigurationError(
            f"generation {name} shows the documents as of {as_of.label}, and the log may not have them any more: "
            "it can't be verified"
        )
    if repair:
        raise ConfigurationError(
            f"generation {name} shows the documents as of {as_of.label} and can't be repaired: drop it with "
            f"`sluice reindex gc`, and build it again with `sluice reindex start --as-of {as_of.label}`"
        )


async def _whole(parts: VerifierParts, patience_s: float, *, if_lost: bool) -> VerifierParts:
    """Wait until no rebuild of the index is running; `if_lost`, and until a lost index was rebuilt.

    Return the parts with the generation that serves in the place of theirs, if that was lost.

    Only a worker fills a lost index. It would take one that a repair had filled for another log's.

    Raises:
        Unavailable: the index was still incomplete after `patience_s`.
    """
    gate, deadline = RebuildGate(parts.store), time.monotonic() + patience_s
    while True:
        await gate.look()
        registry = await registry_of(parts.store)
        if registry is not None and parts.generation.id in registry.current.before:
            parts = replace(parts, generation=registry.current.generation, before=registry.current.before)
        wanted = {ledger.COLLECTION, parts.generation.heads, parts.generation.chunks}
        trouble = gate.trouble or (None if wanted <= set(await parts.store.collections()) else LOST)
        running = gate.rebuild is not None and gate.rebuild.phase != "done"
        if trouble is None or not (running or if_lost):
            return parts
        if time.monotonic() > deadline:
            raise Unavailable(trouble, CODE)
        await asyncio.sleep(_LOOK_S)


async def _keep(store: Store, report: VerifyReport) -> None:
    if report.verdict == "unsettled":  # nothing is known for certain
        return
    first = next((each.sentence for name in INVARIANTS for each in report.first.get(name, ())), "")
    await verification_result.write(
        store, verification_result.Verdict(differences=report.differences, at=int(time.time() * 1000), first=first)
    )


@asynccontextmanager
async def opened(settings: Settings, of: str | None = None) -> AsyncGenerator[VerifierParts]:
    """Yield the started parts of the generation `of`, by default the serving one. Missing parts are not created.

    Raises:
        ConfigurationError: there is no log, or no such generation.
        Unavailable: a part is away.
    """
    async with opened_log(settings) as log, AsyncExitStack() as stack:
        embedders = EmbedderPool(settings.openai_api_key)
        stack.push_async_callback(embedders.close)
        store = await opened_store(settings, stack)
        registry = await known_registry(settings, store, log, embedders, CHUNKER)
        chosen = registry.find(of or registry.serving)
        if chosen is None:
            raise ConfigurationError(f"the index has no generation {of}; `sluice reindex status` lists them")
        if chosen.id == registry.serving:
            embedder, _ = await model_in_force(chosen, settings, embedders)
        else:
            embedder = await model_of(chosen, embedders)
        yield VerifierParts(
            log=log,
            store=store,
            blobs=open_blobs(settings.blobs, settings.data),
            embedder=embedder,
            bm25=current_bm25(),
            generation=chosen.generation,
            as_of=chosen.as_of,
            before=chosen.before,
        )


# Words


def as_dict(outcome: VerifyOutcome) -> dict[str, Any]:
    """Return what `--json` prints: the verdict and the findings."""
    return {"verdict": outcome.report.verdict, **msgspec.to_builtins(outcome)}


def lines(outcome: VerifyOutcome) -> Iterator[str]:
    """Yield the lines to print without `--json`."""
    if outcome.found is not None and outcome.repaired is not None:
        yield from _report(outcome.found)
        yield ""
        yield _repaired(outcome.repaired, dry_run=outcome.dry_run)
        if outcome.dry_run:
            return
        yield ""
    yield from _report(outcome.report)


def _report(report: VerifyReport) -> Iterator[str]:
    yield f"{report.documents} documents, {report.points} points compared, {report.embedded} of them embedded again"
    if report.made_by is not None:
        yield f"chunks of texts weren't compared: the index was made with {report.made_by}, which isn't this release's"
        yield f"build an index with this one: {REINDEX}"
    for name in INVARIANTS:
        count = report.counts.get(name, 0)
        verdict_ = f"{count} differ" if count else "–" if name in ("I6", "I7") else "ok"
        yield f"{name}  {MEANINGS[name]:58}  {verdict_}"
        for difference in report.first.get(name, ()):
            yield f"      {difference.document_id or '-'}  {difference.sentence}"
        if count > len(report.first.get(name, ())):
            yield f"      and {count - len(report.first[name])} more"
    for topic, lag in report.lag.items():
        yield f"unfinished: {lag} records of {topic}"
    if report.unsettled:
        yield f"not checked: {len(report.unsettled)} documents kept changing, such as {report.unsettled[0]}"
    yield {"right": "index and log agree", "wrong": "index and log differ", "unsettled": "not all could be checked"}[
        report.verdict
    ]


def _repaired(repaired: Repaired, *, dry_run: bool) -> str:
    parts = (
        (repaired.published, "versions published again"),
        (repaired.resubmitted, "submissions published again"),
        (repaired.points_deleted, "points deleted"),
        (repaired.points_mended, "points corrected, vectors kept"),
        (repaired.heads, "heads corrected or deleted"),
        (repaired.entries, "ledger entries corrected"),
        (repaired.texts, "texts restored"),
        (repaired.left, "documents not repaired"),
    )
    did = ", ".join(f"{count} {what}" for count, what in parts if count) or "nothing"
    if dry_run:
        return f"would repair: {did}"
    waits = "" if repaired.applied else "; the workers have not finished: is Sluice running?"
    return f"repaired: {did}{waits}"
