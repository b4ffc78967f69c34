"""The API as a process of its own. `sluice query-api`."""

from contextlib import AsyncExitStack
from functools import partial

from services.query_api.app import Parts, make_api
from services.query_api.notices import Notices, listen
from shared.answers.open import open_answers
from shared.foundation import lay_foundation
from shared.log.publish import publish
from shared.process import Service
from shared.settings import Settings
from shared.version import VERSION


async def start(settings: Settings, stack: AsyncExitStack) -> Service:
    """Return the API, started. Raises as `lay_foundation` does."""
    base = await lay_foundation(settings, stack, chunker=None, attach=True)
    answers = await open_answers(settings.chat, settings.history, settings.openai_api_key)
    broker = base.log.broker("query-api")
    notices = Notices()
    listen(broker, notices)
    troubles = await base.begin(broker, [], stack)
    await notices.ready()
    parts = Parts(
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
        answers=answers,
        readiness=troubles,
        registry=base.registry,
    )
    return Service(troubles=troubles, registry=base.registry, door=make_api(parts), closing=notices.close)
