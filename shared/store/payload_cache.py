"""Caches the payloads of recent hits: the engine takes longer to read a payload than to find its point."""

from collections import OrderedDict
from collections.abc import Iterable

import msgspec


class CachedPayload(msgspec.Struct, frozen=True, gc=False):
    """A point's payload, with the document and version that it names."""

    document: str | None  # None: the payload names none
    version: int | None
    encoded: bytes  # MessagePack


class PayloadCache:
    """Encoded payloads by point id, at most `most` bytes. The least recently used ones are evicted first."""

    def __init__(self, most: int) -> None:
        self._most = most
        # A plain dict would step over all deleted keys to find its first one.
        self._kept: OrderedDict[str, CachedPayload] = OrderedDict()
        self._bytes = 0

    def get(self, point: str) -> CachedPayload | None:
        """Return the point's payload, None if it isn't cached."""
        found = self._kept.get(point)
        if found is not None:
            self._kept.move_to_end(point)
        return found

    def put(self, point: str, payload: CachedPayload) -> None:
        """Cache the payload."""
        self.drop((point,))
        self._kept[point] = payload
        self._bytes += len(payload.encoded)
        while self._bytes > self._most:
            self._bytes -= len(self._kept.popitem(last=False)[1].encoded)

    def drop(self, points: Iterable[str]) -> None:
        """Remove these payloads, because their points were written or deleted."""
        for point in points:
            dropped = self._kept.pop(point, None)
            if dropped is not None:
                self._bytes -= len(dropped.encoded)
