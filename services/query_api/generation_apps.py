"""Runs one API per generation. A request is answered by the generation that served when the request arrived.

So a request uses one model and one pair of collections throughout (correctness.md, section 4). The API of a switch's
target is made, and its model loaded, before the switch. The switch itself then only changes a name.
"""

import asyncio
from dataclasses import replace

import structlog
from litestar import Litestar
from litestar.types import Receive, Scope, Send

from services.query_api.app import ApiParts, make_api
from services.query_api.search.retrieval import Retriever
from shared.errors import Unavailable
from shared.runtime.generation_stages import model_of
from shared.settings import ConfigurationError
from shared.state.generations import Registered, Registry, scale_of
from shared.state.index import Index

log = structlog.get_logger(__name__)


class GenerationApps:
    """An ASGI application that passes each request to the API of the generation that serves."""

    def __init__(self, parts: ApiParts) -> None:
        self._parts = parts
        self._serving = parts.index.generation.id
        self._apps: dict[str, Litestar] = {self._serving: make_api(self._parts)}
        self._preparing: dict[str, asyncio.Task[None]] = {}
        parts.generations.watch.listen(self.follow)

    @property
    def serving(self) -> Litestar:
        """Return the API that answers now."""
        return self._apps[self._serving]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        await self._apps[self._serving](scope, receive, send)

    async def follow(self, registry: Registry) -> None:
        """Prepare the APIs of new generations, drop those of dropped ones, and use the one that serves."""
        there = {each.id for each in registry.fed}
        for id_ in self._apps.keys() - there - {self._serving}:
            del self._apps[id_]
        for id_ in self._parts.past.loaded - there:
            self._parts.past.drop(id_)
        for each in registry.fed:
            if each.as_of is not None and not each.built:
                continue
            if each.id not in self._apps.keys() | self._parts.past.loaded | self._preparing.keys():
                self._preparing[each.id] = asyncio.create_task(self._prepare(each))
        if registry.serving != self._serving and registry.serving in self._apps:
            self._serving = registry.serving
            log.info("api_switched", generation=registry.serving)
        await self._tell()

    async def _prepare(self, registered: Registered) -> None:
        generations = self._parts.generations
        try:
            embedder = await model_of(registered, generations.embedders)
            index = Index(generations.store, registered.generation, generations.gate)
            await index.warm()
            await embedder.embed_query("warm")
            if registered.as_of is not None:
                retriever = Retriever(
                    index,
                    embedder,
                    self._parts.bm25,
                    self._parts.metrics,
                    scale=lambda: scale_of(generations.watch.registry, registered.id),
                )
                self._parts.past.load(registered.id, retriever)
                return
            parts = replace(self._parts, index=index, embedder=embedder)
            # In a thread, because making some hundred routes would delay other requests.
            self._apps[registered.id] = await asyncio.to_thread(make_api, parts)
            log.info("api_prepared", generation=registered.id)
        except (Unavailable, ConfigurationError) as error:  # tried again at the next look
            log.warning("api_not_prepared", generation=registered.id, reason=str(error))
        finally:
            del self._preparing[registered.id]
        generations.watch.nudge()

    async def _tell(self) -> None:
        watch, ready = self._parts.generations.watch, tuple(sorted(self._apps.keys() | self._parts.past.loaded))
        if (watch.own.ready, watch.own.serving) != (ready, self._serving):
            await watch.tell(answers=True, ready=ready, serving=self._serving)
