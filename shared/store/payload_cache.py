"""Payloads that searches found lately, encoded: the engine takes longer to read a payload than to find its point."""

from collections import OrderedDict
from collections.abc import Iterable

import msgspec


class KeptPayload(msgspec.Struct, frozen=True, gc=False):
    """A point's payload, and which version of which document it belongs to."""

    document: str | None  # None: the payload names none
    version: int | None
    encoded: bytes  # MessagePack


class PayloadCache:
    """Payloads by point id. Once they take more than `most` bytes, those that were unused for longest go."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[str, KeptPayload] = OrderedDict()  # a dict searches all its gaps for the first key
        self._bytes = 0

    def get(self, point: str) -> KeptPayload | None:
        """Return the point's payload, None if it isn't kept."""
        found = self._kept.get(point)
        if found is not None:
            self._kept.move_to_end(point)
        return found

    def put(self, point: str, payload: KeptPayload) -> None:
        """Keep the payload."""
        self.drop((point,))
        self._kept[point] = payload
        self._bytes += len(payload.encoded)
        while self._bytes > self._most:
            self._bytes -= len(self._kept.popitem(last=False)[1].encoded)

    def drop(self, points: Iterable[str]) -> None:
        """Forget these payloads: the points were written or deleted."""
        for point in points:
            dropped = self._kept.pop(point, None)
            if dropped is not None:
                self._bytes -= len(dropped.encoded)

    def clear(self) -> None:
        """Forget all."""
        self._kept.clear()
        self._bytes = 0
