"""One partition's records in a worker: order per key, the offset to commit, and size. No I/O."""

from collections import deque
from collections.abc import Iterable

from shared.log import Record


class PartitionLane:
    """Records of one partition. Records with the same key are handled one at a time, others concurrently."""

    def __init__(self, first: int) -> None:
        """Take the offset that is read first."""
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
            chain = self._chains.get(record.key)
            if chain is None:
                self._chains[record.key] = deque((record,))
                self._ready.append(record.key)
            else:
                chain.append(record)

    def start(self) -> Record | None:
        """Return the next record to handle; None if every record waits for an earlier one of its key."""
        return self._chains[self._ready.popleft()][0] if self._ready else None

    def finish(self, record: Record) -> None:
        """Remove a started record that is done; the next one of its key may start."""
        del self._unfinished[record.offset]
        self.bytes -= size(record)
        chain = self._chains[record.key]
        chain.popleft()
        if chain:
            self._ready.append(record.key)
        else:
            del self._chains[record.key]


def size(record: Record) -> int:
    """Return the bytes of key, value and headers."""
    return (
        len(record.key or b"")
        + len(record.value or b"")
        + sum(len(name) + len(value or b"") for name, value in record.headers)
    )
