"""What a generation's workers write beside its own index. correctness.md, section 6.

A document's status tells what the serving generation did with it. So the workers of another generation end a version
only when it answers in the serving one, never fail it, and leave the truth as it is. During a switch a version ends
when both generations have it, so nobody who was told of the end misses the document in an API that hasn't switched yet.
Whichever begins to serve ends what it has had, or failed at, since before.
"""

import asyncio
from collections.abc import Collection
from typing import Any, Final

import structlog
from aiokafka.structs import RecordMetadata

from shared.contracts import DocumentVersion, VersionOutcome
from shared.log import Publish
from shared.state.generation_watch import GenerationWatch
from shared.state.generations import Registry
from shared.state.index import Head, Index
from shared.state.ledger import Entry, Ledger
from shared.state.statuses import Statuses
from shared.store import Filter, Match, Store
from shared.topics import EXTRACTED

log = structlog.get_logger(__name__)

PATIENCE_S: Final = 30.0  # how long a version waits for the other generation of a switch
_ASK_S: Final = 0.05
_PAGE: Final = 64  # entries read at a time
_OPEN: Final = Filter(must=(Match("last.status", ("accepted", "failed")),))  # failed: the version before may be open


class GenerationStatuses(Statuses):
    """The final statuses as one generation's workers write them."""

    def __init__(
        self,
        ledger: Ledger,
        publish: Publish,
        *,
        store: Store,
        watch: GenerationWatch,
        generation: str,
        past: bool = False,
    ) -> None:
        """Take the parts; a generation that shows a `past` moment changes no status."""
        super().__init__(ledger, publish)
        self._past = past
        self._store = store
        self._watch = watch
        self._generation = generation
        self._others: dict[str, Index] = {}  # of the generation that was asked last
        self._settled = 0  # the registry's revision when open versions were ended last

    async def serves(self) -> bool:
        """Return whether the generation serves."""
        return (await self._watch.certain()).serving == self._generation

    async def applied(
        self,
        document: DocumentVersion,
        chunk_count: int,
        forgotten: Collection[int] = (),
        known: Entry | None = None,
    ) -> None:
        """Write that the version answers, if it answers in the serving generation.

        The registry is read after the head was written. So of two generations that apply a version while one of them
        takes over from the other, at least one sees the other's head, or serves itself.
        """
        if self._past:
            return
        registry = await self._watch.certain()
        served = registry.serving == self._generation
        if registry.switching is not None:
            await self._other_has(document)
        if served:
            await super().applied(document, chunk_count, forgotten, known)
            return
        if await self.ended(document):
            return
        head = await self._head(registry, registry.serving, document)
        if head is not None and head.version == document.version:
            await super().applied(document, head.chunk_count)

    async def has_failed(self, document: DocumentVersion, entry: Entry | None) -> bool:
        """Return whether the version has failed in this generation; its failure in another one doesn't count."""
        return await super().has_failed(document, entry) and await self.serves()

    async def failed(self, document: DocumentVersion, answering: Head | None, *, error: str, code: str) -> None:
        """Write that the version failed, if this generation serves."""
        if await self.serves():
            await super().failed(document, answering, error=error, code=code)
            return
        log.warning(
            "version_failed_in_another_generation",
            generation=self._generation,
            document_id=document.document_id,
            version=document.version,
            reason=error,
        )

    async def settle_anew(self, index: Index) -> int:
        """Do as `settle` if the generation serves, is full, and the registry has changed since the last time.

        Its revision is asked, not who serves: a switch there and back may come between two looks.
        """
        registry = self._watch.registry
        served = registry is not None and registry.serving == self._generation and not registry.current.fills
        if registry is None or not served or registry.rev == self._settled:
            return 0
        ended = await self.settle(index)
        self._settled = registry.rev
        return ended

    async def settle(self, index: Index) -> int:
        """Return how many open versions were ended: those that `index` has, this generation's, or that failed in it.

        Call it once the generation serves: until then it has left them to the one that served. That one ends them only
        while it has stages, and a roll-back is for one whose stages are stuck.
        """
        ended = 0
        async for entries in self._ledger.pages(_OPEN, limit=_PAGE):
            waiting = {entry.document_id: entry for entry in entries if entry.open_versions}
            for name, head in (await index.fences([*waiting])).items():
                for version in waiting[name].open_versions:  # one may have failed above one that answers
                    document = _version(waiting[name], version, head)
                    if head.version == version:
                        await super().applied(document, head.chunk_count)
                    elif head.withdrawn(version) is not None:
                        error = "the version failed before this generation served: its dead letter says why"
                        await super().failed(document, None, error=error, code="failed_before")
                    else:
                        continue
                    ended += 1
        return ended

    async def forget_surplus(self, document: DocumentVersion, index: Index) -> None:
        """Remove the document's surplus of failed versions from the truth, if this generation serves."""
        if await self.serves():
            await super().forget_surplus(document, index)

    async def _other_has(self, document: DocumentVersion) -> None:
        """Wait while a switch is under way until the other generation has the version, or can't have it."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while asyncio.get_running_loop().time() < deadline:
            registry = await self._watch.look()
            other = None if registry.switching is None else registry.switching.other(self._generation)
            if other is None:
                return
            head = await self._head(registry, other, document)
            if head is not None and (head.version >= document.version or head.withdrawn(document.version) is not None):
                return
            await asyncio.sleep(_ASK_S)

    async def _head(self, registry: Registry, generation: str, document: DocumentVersion) -> Head | None:
        found = registry.find(generation)
        if found is None:
            return None
        if generation not in self._others:
            self._others = {generation: Index(self._store, found.generation)}
        return await self._others[generation].fence(document.document_id)


def _version(entry: Entry, version: int, head: Head) -> DocumentVersion:
    """Return an open version of the entry, with what the head shows of it."""
    stands = entry.standing(version)
    before = stands is not None and stands.replaced is not None
    outcome: VersionOutcome = "deleted" if head.deleted else "updated" if before else "created"
    return DocumentVersion(
        document_id=entry.document_id,
        version=version,
        place=entry.accepted.place if stands is None else stands.place,
        tenant=entry.tenant,
        source=entry.source,
        path=entry.path,
        outcome=entry.accepted.outcome if version == entry.accepted.version else outcome,
        title=head.title,
        url=head.url,
        tags=head.tags,
    )


def truth_guarded(publish: Publish, watch: GenerationWatch, generation: str) -> Publish:
    """Return `publish` without tombstones of documents.extracted unless `generation` serves: others still read it."""

    async def guarded(topic: str, value: bytes | None, **more: Any) -> RecordMetadata | None:
        if topic == EXTRACTED and value is None and (await watch.certain()).serving != generation:
            return None
        return await publish(topic, value, **more)

    return guarded
