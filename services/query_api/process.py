"""The API on a foundation, and as a process of its own: `sluice query-api`."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial

from faststream.kafka import KafkaBroker

from services.query_api.app import Parts, make_api
from services.query_api.notices import Notices, listen
from shared.answers.open import open_models
from shared.foundation import Foundation, lay_foundation
from shared.log.consume import Consumption
from shared.log.publish import publish
from shared.process import Service
from shared.settings import Settings
from shared.version import VERSION


async def opened(
    base: Foundation, broker: KafkaBroker, consumptions: Sequence[Consumption], stack: AsyncExitStack, *, embeds: bool
) -> Parts:
    """Return the API's parts, once the broker and the stages beside it run; `stack` ends those. See `base.begin`."""
    settings = base.settings
    models = await open_models(settings.chat, settings.history, settings.openai_api_key)
    notices = Notices()
    listen(broker, notices)
    troubles = await base.begin(broker, consumptions, stack, embeds=embeds)
    await notices.ready()
    return Parts(
        settings=settings,
        version=VERSION,
        log=base.log,
        publish=partial(publish, broker),
        notices=notices,
        ledger=base.ledger,
        backlog=base.backlog,
        index=base.index,
        embedder=base.embedder,
        bm25=base.bm25,
        blobs=base.blobs,
        models=models,
        readiness=troubles,
        registry=base.registry,
    )


async def start(settings: Settings, stack: AsyncExitStack) -> Service:
    """Return the API, started. Raises as `lay_foundation` does."""
    base = await lay_foundation(settings, stack, chunker=None, attach=True)
    parts = await opened(base, base.log.broker("query-api"), [], stack, embeds=False)
    return Service(troubles=parts.readiness, registry=parts.registry, door=make_api(parts), closing=parts.notices.close)
