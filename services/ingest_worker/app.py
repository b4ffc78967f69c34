"""Wiring: documents.submitted -> ingest -> documents.extracted -> chunking -> chunks.<generation>.

All generations share the first stage; each has a chunking stage of its own.
"""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial

from faststream.kafka import KafkaBroker

from services.ingest_worker.callback_sender import CallbackSender, post_callback
from services.ingest_worker.chunk import CHUNKER
from services.ingest_worker.chunking import Chunking, rate_limit_of
from services.ingest_worker.crawl_rules import Bounds
from services.ingest_worker.extract import READERS
from services.ingest_worker.fetch import fetcher_of
from services.ingest_worker.fetch.guard import Guard
from services.ingest_worker.fill_records import past_truth_of
from services.ingest_worker.forwarder import STAGE as FORWARD
from services.ingest_worker.forwarder import Forwarder
from services.ingest_worker.ingest import Ingest
from services.ingest_worker.parsers import alone, parser_pool
from services.ingest_worker.store_recovery import LOOK_S, Rebuilder
from shared.contracts import StatusNotice, decode, document_of
from shared.log import Log
from shared.log.background import repeat
from shared.log.consume import ConsumeOptions, Consumption, consume, follow
from shared.log.dead_letters import DeadLetters
from shared.log.publish import partition_for, publish
from shared.runtime.process import RunningService
from shared.runtime.resources import Resources, open_resources
from shared.runtime.stage_runner import GenerationParts
from shared.settings import Settings
from shared.state.callbacks import Callbacks
from shared.state.index import IngestCode
from shared.state.signing_secret import signing_secret
from shared.state.statuses import Statuses, dead_letter
from shared.topics import EXTRACTED, STATUS, SUBMITTED, forwarding_group, readers

KEEP_UP_EVERY_S = 300.0  # of the callbacks: a clock ahead has put them off for no longer


async def opened(base: Resources, broker: KafkaBroker, settings: Settings, stack: AsyncExitStack) -> Ingest:
    """Return the first stage's handler; closing `stack` ends its parts. Raises ConfigurationError."""
    await base.index.note_code(IngestCode(extractor=READERS.fingerprint, chunker=CHUNKER))
    parsers = parser_pool(settings)
    stack.push_async_callback(parsers.close)
    fetcher = fetcher_of(settings)
    stack.push_async_callback(fetcher.close)
    send = partial(publish, broker)
    return Ingest(
        ledger=base.ledger,
        index=base.index,
        blobs=base.blobs,
        parsers=parsers,
        publish=send,
        statuses=Statuses(base.ledger, send),
        partition_of=partial(partition_for, broker, SUBMITTED),
        fetch=fetcher,
        bounds=Bounds(depth=settings.fetch_depth, pages=settings.fetch_pages, robots=settings.fetch_robots == "on"),
        callbacks=Callbacks(base.store),
        moves=base.log.moves,
    )


def join_ingest(broker: KafkaBroker, ingest: Ingest) -> Consumption:
    """Return the first stage, which all generations share, subscribed on a broker that isn't started yet."""
    return consume(
        broker,
        SUBMITTED,
        readers(ingest.index.generation.id)[SUBMITTED],
        ingest,
        handle_alone=alone(ingest),
        stage="ingest",
        on_dead=dead_letter(DeadLetters(broker, ingest.blobs, ingest.owner), ingest.failed),
        options=ConsumeOptions(before_commit=ingest.index.flush),
    )


def join_forwarders(broker: KafkaBroker, ingest: Ingest, topics: Mapping[str, str]) -> list[Consumption]:
    """Return the stages that forward tenants' own topics, subscribed on a broker that isn't started yet."""
    consumptions = []
    for topic, tenant in topics.items():
        forwarder = Forwarder(
            tenant, ledger=ingest.ledger, blobs=ingest.blobs, publish=ingest.publish, moves=ingest.moves
        )
        on_dead = DeadLetters(broker, ingest.blobs, forwarder.owner)
        group = forwarding_group(topic)
        consumptions.append(consume(broker, topic, group, forwarder, stage=FORWARD, on_dead=on_dead))
    return consumptions


def join_chunking(broker: KafkaBroker, ingest: Ingest, chunking: Chunking) -> Consumption:
    """Return the second stage of a generation, subscribed on a broker that isn't started yet."""
    generation = chunking.index.generation.id
    return consume(
        broker,
        EXTRACTED,
        readers(generation)[EXTRACTED],
        chunking,
        handle_alone=alone(chunking),
        stage="chunk",
        on_dead=dead_letter(DeadLetters(broker, ingest.blobs, chunking.owner, generation), chunking.failed),
        options=ConsumeOptions(chain_of=document_of),  # an erasure doesn't pass by a text that is being chunked
    )


def join_generation(ingest: Ingest, parts: GenerationParts, log: Log) -> Consumption:
    """Return the second stage of a generation."""
    chunking = Chunking(
        index=parts.index,
        blobs=ingest.blobs,
        parsers=ingest.parsers,
        tokens=parts.embedder.tokens,
        publish=parts.publish,
        statuses=parts.statuses,
        limit=rate_limit_of(parts.registered),
        past=past_truth_of(parts.registered, parts.index, log),
    )
    return join_chunking(parts.broker, ingest, chunking)


def keep_whole(base: Resources, stack: AsyncExitStack) -> None:
    """Rebuild what the store has lost or loses, until `stack` is closed."""
    rebuilder = Rebuilder(
        log=base.log,
        store=base.store,
        gate=base.gate,
        generations=base.watch,
        restore=base.restore,
        alone=not base.grace_s,
    )
    repeat(stack, rebuilder.look, LOOK_S, "index_rebuild_waits")


async def callbacks_of(
    base: Resources, broker: KafkaBroker, ingest: Ingest, stack: AsyncExitStack
) -> Callable[[], None]:
    """Return the function that starts making callbacks; call it once the broker runs. Closing `stack` ends them.

    Raises:
        ConfigurationError: SLUICE_CALLBACK_ALLOW has an entry that is neither a host nor a network.
    """
    callbacks, settings = ingest.callbacks, base.settings
    assert callbacks is not None
    guard = Guard(settings.callback_allow, setting="SLUICE_CALLBACK_ALLOW", doing="calling")
    stack.push_async_callback(guard.close)
    sender = CallbackSender(
        callbacks=callbacks,
        ledger=base.ledger,
        post=partial(post_callback, guard=guard),
        secret=await signing_secret(base.store, settings.secret.get_secret_value()),
    )
    follow(broker, STATUS, lambda record: sender.heard(decode(record.value, StatusNotice)))

    def begin() -> None:
        stack.push_async_callback(sender.stop)
        repeat(stack, sender.turn, 0.0, "callbacks_wait")
        repeat(stack, callbacks.keep_up, KEEP_UP_EVERY_S, "callbacks_wait")

    return begin


async def start(settings: Settings, stack: AsyncExitStack) -> RunningService:
    """Return the worker, started, for a process of its own. Raises as `open_resources` does."""
    base = await open_resources(settings, stack, chunker=CHUNKER, attach=True, name="ingest-worker")
    broker = base.log.broker("ingest-worker")
    ingest = await opened(base, broker, settings, stack)

    async def join(of: GenerationParts, _: AsyncExitStack) -> list[Consumption]:
        return [join_generation(ingest, of, base.log)]

    call_back = await callbacks_of(base, broker, ingest, stack)
    consumptions = [join_ingest(broker, ingest), *join_forwarders(broker, ingest, settings.topics_of_tenants)]
    troubles = await base.begin(broker, consumptions, stack, join=join)
    call_back()
    keep_whole(base, stack)
    return RunningService(troubles=troubles, registry=base.registry)
