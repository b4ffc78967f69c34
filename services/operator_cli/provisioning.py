"""`sluice init`: check topics and collections, and create those that are missing. Existing ones are never changed."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal

import msgspec

from services.ingest_worker.chunk import CHUNKER
from services.operator_cli.installation import opened_log, opened_store, record
from shared.embedder.open import EmbedderPool
from shared.log import Log
from shared.runtime.data_lock import made_folder
from shared.runtime.resources import known_registry, make_missing, pair_by_hand, wanted_topics
from shared.settings import Settings
from shared.state.generations import registry_of
from shared.state.index import Generation
from shared.state.ledger import COLLECTION as LEDGER
from shared.store import Store
from shared.topics import TopicDifference

State = Literal["there", "missing", "created", "unfit"]


class InitStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A topic or collection, as found or created."""

    kind: Literal["topic", "generation", "collection"]
    name: str
    state: State
    partitions: int | None = None  # of an existing topic
    differences: tuple[TopicDifference, ...] = ()  # between the topic and the settings


async def initialise(settings: Settings, *, dry_run: bool, pair: bool = False) -> tuple[InitStep, ...]:
    """Create missing parts, unless a topic is unfit or it is a `dry_run`; return every part.

    With `pair`, log and store are paired, even if they were paired with others before.

    Raises:
        ConfigurationError: a setting can't work, or the index was built with others.
        Unavailable: a part is away.
    """
    async with AsyncExitStack() as stack:
        if dry_run and settings.keeps_data and not settings.data.exists():
            # Opening an embedded part would create it.
            settings = settings.model_copy(update={"data": Path(stack.enter_context(tempfile.TemporaryDirectory()))})
        if settings.keeps_data:
            stack.enter_context(made_folder(settings.data, with_store=settings.embeds_store))
        log = await stack.enter_async_context(opened_log(settings, create=True))
        embedders = EmbedderPool(settings.openai_api_key)
        stack.push_async_callback(embedders.close)
        store = await opened_store(settings, stack)

        registry = await known_registry(settings, store, log, embedders, CHUNKER)
        wanted = registry.current.generation
        found = await _parts(settings, log, store, wanted)
        missing = [part for part in found if part.state == "missing"]
        if dry_run or any(part.state == "unfit" for part in found):
            return found
        if pair:
            await pair_by_hand(settings, log, store, registry)
        else:
            await make_missing(settings, log, store, registry)
        if missing or pair:
            await record(log, settings, "init --pair" if pair else "init", "done")
        wanted = (await registry_of(store) or registry).current.generation  # a new one, if the index was lost
        made = await _parts(settings, log, store, wanted)
        return tuple(
            msgspec.structs.replace(now, state="created") if before in missing else now
            for before, now in zip(found, made, strict=True)
        )


async def _parts(settings: Settings, log: Log, store: Store, wanted: Generation) -> tuple[InitStep, ...]:
    """Return the parts of the generation `wanted`: the serving one, or else the one in the settings."""
    collections = await store.collections()
    state: State = "missing" if await registry_of(store) is None else "there"
    return (
        *(
            InitStep(
                kind="topic",
                name=each.topic,
                state="missing" if each.partitions is None else "there" if each.fit else "unfit",
                partitions=each.partitions,
                differences=each.differences,
            )
            for each in await log.inspect_topics(wanted_topics(settings, wanted))
        ),
        InitStep(kind="generation", name=wanted.id, state=state),
        *(
            InitStep(kind="collection", name=name, state="there" if name in collections else "missing")
            for name in (LEDGER, wanted.heads, wanted.chunks)
        ),
    )


def lines(parts: Sequence[InitStep], *, dry_run: bool) -> Iterator[str]:
    """Yield the lines to print: one per part, then its differences and what to do."""
    for part in parts:
        size = "" if part.partitions is None else f"  {part.partitions} partition{'s' * (part.partitions != 1)}"
        yield f"{part.state:9}{part.kind:12}{part.name}{size}"
        for each in part.differences:
            yield f"{'':9}{each.weight}: {each}: {each.why}"
            if each.mend is not None:
                yield f"{'':9}mend: {each.mend}"
    missing = sum(part.state == "missing" for part in parts)
    if missing and any(part.state == "unfit" for part in parts):
        yield f"{missing} missing: they will be created once the unfit ones are fixed"
    elif missing and dry_run:
        yield f"{missing} missing; `sluice init` makes them"
