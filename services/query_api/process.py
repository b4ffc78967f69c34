"""Makes the API's parts from the process's resources, and runs the API as a process of its own: `sluice query-api`."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import fields
from functools import partial

import structlog
from faststream.kafka import KafkaBroker

from services.query_api.app import ApiParts
from services.query_api.console.oidc import open_oidc
from services.query_api.http.monitoring import Metrics
from services.query_api.ingest.submissions import StatusWaiters, listen
from services.query_api.ingest.upload import ReadFile
from services.query_api.ops import file_rewrite
from services.query_api.ops.file_rewrite import FileRewrites, forgotten
from services.query_api.ops.generation_service import GenerationService
from services.query_api.ops.redrive import DeadLetterService
from services.query_api.search.past import PastIndexes
from services.query_api.search.word_frequencies import weights_of
from services.query_api.serving_api import ServingApi
from shared.answers.extractive import Extractive
from shared.answers.open import open_models
from shared.answers.prompt import Prompting
from shared.answers.templates import load_templates
from shared.errors import Unavailable
from shared.log.audit_trail import EVERY_S, AuditTrail
from shared.log.background import repeat
from shared.log.consume import Consumption
from shared.log.groups import keep_offsets
from shared.log.publish import publish
from shared.reranker.served import open_reranker
from shared.runtime.process import RunningService
from shared.runtime.resources import Resources, open_resources
from shared.runtime.stage_runner import Join
from shared.settings import SHORT_KEY, Settings
from shared.state.callbacks import Callbacks
from shared.state.index import ServingIndex
from shared.state.sessions import Sessions
from shared.state.signing_secret import signing_secret

log = structlog.get_logger(__name__)

SETTLE_EVERY_S = 3600.0
_KEEP_GROUPS_S = 60.0  # so long a new generation, which no worker reads yet, is no backlog


async def opened(
    base: Resources,
    broker: KafkaBroker,
    consumptions: Sequence[Consumption],
    stack: AsyncExitStack,
    reader: ReadFile,
    *,
    join: Join | None = None,
    embeds: bool,
) -> ApiParts:
    """Start the broker with the stages beside the API; return the API's parts. `stack` stops them. See `base.begin`."""
    settings = base.settings
    if "min_score" in settings.model_fields_set:
        log.warning("min_score_is_comparable", min_score=settings.min_score, see="docs/search.md, What a score means")
    await asyncio.to_thread(weights_of("")[0], "vocabulary")  # loads the vocabulary now instead of in the first search
    for number, key in enumerate(settings.keys, start=1):
        if len(key.key) < SHORT_KEY:
            log.warning(
                "short_api_key",
                entry=number,
                tenant=key.tenant,
                advice=f"keys of fewer than {SHORT_KEY} characters can be guessed and won't be accepted by a later "
                "release; sluice keys new makes a long one",
            )
    models = await open_models(
        settings.chat,
        Prompting(history=settings.history, templates=load_templates(settings.prompts), context=settings.chat_context),
        settings.openai_api_key,
        extractive=Extractive(base.embedder.similarities, weights_of),
    )
    reranker = await asyncio.to_thread(open_reranker, settings.rerank, settings.rerank_api_key, settings.rerank_timeout)
    if reranker is not None:
        stack.push_async_callback(reranker.close)
    oidc = open_oidc(settings)
    if oidc is not None:
        stack.push_async_callback(oidc.close)
    notices = StatusWaiters()
    listen(broker, notices)
    troubles = await base.begin(broker, consumptions, stack, join=join, embeds=embeds)
    await notices.ready()
    generations = GenerationService(base)
    base.watch.listen(generations.drive, last=True)  # so that a switch sees the state of this API
    send = partial(publish, broker)
    letters = DeadLetterService(base, send)
    repeat(stack, letters.settle_overtaken, SETTLE_EVERY_S, "dead_letters_wait")
    trail = AuditTrail(send)
    stack.push_async_callback(trail.end)
    repeat(stack, trail.sum_up, EVERY_S, at_once=False)
    rewrites = FileRewrites(partial(forgotten, base.log, base.index))
    repeat(stack, rewrites.keep_up, file_rewrite.EVERY_S, "rewrite_waits", at_once=False)
    own_index = ServingIndex(base.store, base.index.generation, base.gate)  # each generation has its own parts
    return ApiParts(
        **{each.name: getattr(base, each.name) for each in fields(base)} | {"index": own_index},
        publish=send,
        notices=notices,
        generations=generations,
        letters=letters,
        callbacks=Callbacks(base.store),
        sessions=Sessions(base.store),
        oidc=oidc,
        models=models,
        reranker=reranker,
        readiness=troubles,
        rewrites=rewrites,
        secret=await signing_secret(base.store, settings.secret.get_secret_value()),
        trail=trail,
        file_reader=reader,
        metrics=Metrics(base.registry),
        past=PastIndexes(base.watch, generations.cost),
    )


async def start(
    settings: Settings, stack: AsyncExitStack, *, reader: Callable[[Resources, AsyncExitStack], ReadFile]
) -> RunningService:
    """Return the started API; `reader` makes the function that reads files. Raises as `open_resources` does."""
    base = await open_resources(settings, stack, chunker=None, attach=True, name="query-api")
    parts = await opened(base, base.log.broker("query-api"), [], stack, reader(base, stack), embeds=False)
    repeat(stack, partial(_keep_groups, base), _KEEP_GROUPS_S, at_once=False)
    return RunningService(
        troubles=parts.readiness,
        registry=parts.registry,
        door=ServingApi(parts).app,
        draining=parts.stopping.begin,
        closing=parts.close,
    )


async def _keep_groups(base: Resources) -> None:
    """Keep the offsets of workers that are scaled to zero."""
    registry = await base.watch.look()  # not as last seen: a group that was dropped stays away
    for group, topic in registry.groups(base.settings.topics_of_tenants).items():
        with suppress(Unavailable):  # a new generation's topic may not be there yet
            await keep_offsets(base.log, group, topic)
