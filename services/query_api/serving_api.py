"""Gives each request the parts of the generation that serves when it asks for the first of them.

So a request uses one model and one pair of collections throughout (correctness.md, section 4). The parts of a switch's
target are made, and its model loaded, before the switch. The switch itself then only changes which are given.
"""

import asyncio
from dataclasses import replace

import structlog

from services.query_api.app import SHARED, ApiParts, make_api, parts_of, retriever_of
from services.query_api.http.request import PARTS
from shared.errors import Unavailable
from shared.runtime.stage_runner import model_of
from shared.settings import ConfigurationError
from shared.state.generations import Registered, Registry
from shared.state.index import ServingIndex

log = structlog.get_logger(__name__)


class ServingApi:
    """The application that answers from whatever generation serves."""

    def __init__(self, parts: ApiParts) -> None:
        self.app = make_api(parts)
        self._parts = parts
        self._serving = parts.index.generation.id
        self._made: dict[str, dict[type, object]] = {self._serving: self.app.state[PARTS]}
        self._preparing: dict[str, asyncio.Task[None]] = {}
        parts.watch.listen(self.follow)

    async def follow(self, registry: Registry) -> None:
        """Prepare the parts of new generations, drop those of dropped ones, and give those of the one that serves."""
        there = {each.id for each in registry.fed}
        for id_ in self._made.keys() - there - {self._serving}:
            del self._made[id_]
        for id_ in self._parts.past.loaded.keys() - there:
            del self._parts.past.loaded[id_]
        for each in registry.fed:
            if each.as_of is not None and not each.built:
                continue
            if each.id not in self._made.keys() | self._parts.past.loaded.keys() | self._preparing.keys():
                self._preparing[each.id] = asyncio.create_task(self._prepare(each))
        if registry.serving != self._serving and registry.serving in self._made:
            self._serving = registry.serving
            self.app.state[PARTS] = self._made[self._serving]
            log.info("api_switched", generation=registry.serving)
        watch, ready = self._parts.watch, tuple(sorted(self._made.keys() | self._parts.past.loaded.keys()))
        if (watch.own.ready, watch.own.serving) != (ready, self._serving):
            await watch.tell(answers=True, ready=ready, serving=self._serving)

    async def _prepare(self, registered: Registered) -> None:
        base = self._parts
        try:
            embedder = await model_of(registered, base.embedders)
            index = ServingIndex(base.store, registered.generation, base.gate)
            await index.warm()
            await embedder.embed_query("warm")
            parts = replace(base, index=index, embedder=embedder)
            if registered.as_of is not None:
                base.past.loaded[registered.id] = retriever_of(replace(parts, reranker=None))
                return
            self._made[registered.id] = parts_of(parts, self.app.state[SHARED])
            log.info("api_prepared", generation=registered.id)
        except (Unavailable, ConfigurationError) as error:  # tried again at the next look
            log.warning("api_not_prepared", generation=registered.id, reason=str(error))
        finally:
            del self._preparing[registered.id]
        base.watch.nudge()
