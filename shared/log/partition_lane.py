"""One partition's records in a worker: order per key, the offset to commit, and size. No I/O."""

from collections import deque
from collections.abc import Callable, Iterable

from shared.log import Record


class PartitionLane:
    """Records of one partition. Records of one chain are handled one at a time, others concurrently."""

    def __init__(self, first: int, chain_of: Callable[[bytes | None], bytes | None] = lambda key: key) -> None:
        """Take the offset that is read first, and the chain of a record by its key."""
        self._chain_of = chain_of
        self.bytes = 0  # of all records held
        self._unfinished: dict[int, Record] = {}  # in offset order
        self._chains: dict[bytes | None, deque[Record]] = {}
        self._ready: deque[bytes | None] = deque()
        self.next = first  # the offset after the last record taken

    def __len__(self) -> int:
        """Return how many records aren't finished."""
        return len(self._unfinished)

    @property
    def low(self) -> int:
        """Return the offset to commit: all records below it are finished."""
        return next(iter(self._unfinished), self.next)

    def take(self, records: Iterable[Record]) -> None:
        """Add records, in offset order."""
        for record in records:
            self._unfinished[record.offset] = record
            self.next = record.offset + 1
            self.bytes += size(record)
            name = self._chain_of(record.key)
            chain = self._chains.get(name)
            if chain is None:
                self._chains[name] = deque((record,))
                self._ready.append(name)
            else:
                chain.append(record)

    def start(self) -> Record | None:
        """Return the next record to handle; None if every record waits for an earlier one of its chain."""
        return self._chains[self._ready.popleft()][0] if self._ready else None

    def is_followed(self, record: Record) -> bool:
        """Return whether another record of its chain waits for this one, which isn't finished."""
        return len(self._chains[self._chain_of(record.key)]) > 1

    def finish(self, record: Record) -> None:
        """Remove a started record that is done; the next one of its chain may start."""
        del self._unfinished[record.offset]
        self.bytes -= size(record)
        name = self._chain_of(record.key)
        chain = self._chains[name]
        chain.popleft()
        if chain:
            self._ready.append(name)
        else:
            del self._chains[name]


def size(record: Record) -> int:
    """Return the bytes of key, value and headers."""
    return (
        len(record.key or b"")
        + len(record.value or b"")
        + sum(len(name) + len(value or b"") for name, value in record.headers)
    )
