"""Sizes of the index by tenant and source, and the embedding model's work."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

import msgspec
from prometheus_client import CollectorRegistry

from shared.state.index import Holding

MILLION = 1_000_000


class SourceSize(msgspec.Struct, frozen=True):
    """What a source has in the index: documents that answer, their chunks, and bytes of their texts."""

    source: str
    documents: int
    chunks: int
    bytes: int


class TenantSize(msgspec.Struct, frozen=True):
    """What a tenant has in the index, and each of its sources, the largest first."""

    tenant: str
    documents: int
    chunks: int
    bytes: int
    sources: list[SourceSize]


class ModelWork(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The work of the embedding model in this process since it started."""

    embedded: int  # texts
    copied: int  # vectors copied from equal texts, without a call
    calls: int
    tokens: int  # exact for the built-in model; estimated for a server, rather too high
    cost: float | None = None  # in the currency of SLUICE_EMBEDDING_PRICE; None: no price is set


class SizeSum:
    """Adds up what documents hold, by tenant and source."""

    def __init__(self) -> None:
        self._sums = defaultdict[tuple[str, str], list[int]](lambda: [0, 0, 0])  # documents, chunks and bytes

    def add(self, holdings: Iterable[Holding]) -> None:
        """Add some documents."""
        for each in holdings:
            own = self._sums[each.tenant, each.source]
            own[:] = own[0] + 1, own[1] + each.chunks, own[2] + each.bytes

    def tenants(self) -> list[TenantSize]:
        """Return the sums, the largest first."""
        by_tenant = defaultdict[str, list[SourceSize]](list)
        for (tenant, source), own in self._sums.items():
            by_tenant[tenant].append(SourceSize(source, *own))
        sizes = []
        for tenant, sources in by_tenant.items():
            documents, chunks, size = (
                sum(getattr(each, name) for each in sources) for name in ("documents", "chunks", "bytes")
            )
            largest_first = sorted(sources, key=lambda each: (-each.bytes, each.source))
            sizes.append(TenantSize(tenant, documents, chunks, size, largest_first))
        return sorted(sizes, key=lambda each: (-each.bytes, each.tenant))


def usage_of(registry: CollectorRegistry, price: float) -> ModelWork | None:
    """Return the model's work, at a price per million tokens; None where workers are processes of their own."""
    names = ("embedded_texts", "reused_vectors", "embedding_calls", "embedding_tokens")
    counts: Mapping[str, float | None] = {name: registry.get_sample_value(f"sluice_{name}_total") for name in names}
    if None in counts.values():
        return None
    embedded, copied, calls, tokens = (int(value or 0) for value in counts.values())
    cost = tokens * price / MILLION if price else None
    return ModelWork(embedded=embedded, copied=copied, calls=calls, tokens=tokens, cost=cost)
