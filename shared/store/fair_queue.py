"""A queue in which no flow of requests holds up another one."""

from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    """Items of several flows. The flows take turns; the items of one flow keep their order.

    So an item waits for one item of each other flow at most, and for those of its own flow.
    """

    def __init__(self) -> None:
        self._flows: dict[Hashable, deque[T]] = {}  # without empty ones; the first has its turn

    def __bool__(self) -> bool:
        """Return whether there are items."""
        return bool(self._flows)

    def put(self, flow: Hashable, item: T) -> None:
        """Add an item at the end of its flow."""
        self._flows.setdefault(flow, deque()).append(item)

    def take(self) -> T:
        """Remove and return the next item.

        Raises:
            StopIteration: the queue is empty.
        """
        flow = next(iter(self._flows))
        waiting = self._flows.pop(flow)
        item = waiting.popleft()
        if waiting:
            self._flows[flow] = waiting  # at the end: the others have their turn first
        return item
