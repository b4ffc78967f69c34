"""Splits a body that is still arriving into items: elements of a JSON array, or a JSON value per line. Pure."""

import re
from collections.abc import Iterator
from typing import Final, Protocol

_MARK: Final = re.compile(rb'["\[\]{},]')
_QUOTED: Final = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)


class Framing(Protocol):
    """Splits a body into items without parsing them. None replaces an item that is too long."""

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        """Yield the items that end in `data`, the next piece of the body.

        Raises:
            ValueError: the start of the next item can't be found.
        """
        ...

    def end(self) -> Iterator[bytes | None]:
        """Yield the item that was still open at the end of the body.

        Raises:
            ValueError: the body is incomplete.
        """
        ...


class _Item:
    """The bytes of the current item; they are dropped once there are too many."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._bytes = bytearray()
        self._over = False

    def add(self, data: bytes) -> None:
        self._over |= len(self._bytes) + len(data) > self._longest
        if self._over:
            self._bytes.clear()
        else:
            self._bytes += data

    def take(self) -> bytes | None:
        taken = None if self._over else bytes(self._bytes.strip())
        self._bytes.clear()
        self._over = False
        return taken


class Lines:
    """Splits NDJSON, a value per line; blank lines are ignored."""

    def __init__(self, longest: int) -> None:
        """Take the most bytes that an item may have."""
        self._item = _Item(longest)

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        """Yield the lines that end in `data`."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._item.add(line)
            yield from self.end()
        self._item.add(rest)

    def end(self) -> Iterator[bytes | None]:
        """Yield the last line, which may lack its line feed."""
        if (line := self._item.take()) != b"":
            yield line


class Elements:
    """Splits one JSON array into its elements. It looks only at brackets, quotes and commas."""

    def __init__(self, longest: int) -> None:
        """Take the most bytes that an item may have."""
        self._item = _Item(longest)
        self._depth = 0
        self._begun = self._more = self._quoted = self._escaped = False

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        """Yield the elements that end in `data`.

        Raises:
            ValueError: there is data before or after the array.
        """
        start = at = 0
        while at < len(data):
            if self._quoted:
                at = self._unquoted(data, at)
                continue
            mark = _MARK.search(data, at)
            if mark is None:
                break
            at = mark.end()
            depth = self._depth + {b"[": 1, b"{": 1, b"]": -1, b"}": -1}.get(mark[0], 0)
            self._quoted = mark[0] == b'"'
            if self._depth == 0:
                if self._begun or mark[0] != b"[" or data[start : at - 1].strip():
                    raise ValueError(self._outside)
                self._begun, start = True, at
            elif depth == 0 or (depth == 1 and mark[0] == b","):
                self._item.add(data[start : at - 1])
                start, item = at, self._item.take()
                if depth == 1 or self._more or item != b"":
                    yield item
                self._more = depth == 1
            self._depth = depth
        if self._depth:
            self._item.add(data[start:])
        elif data[start:].strip():
            raise ValueError(self._outside)

    def end(self) -> Iterator[bytes | None]:
        """Check that the array is complete; yields nothing.

        Raises:
            ValueError: the array isn't closed, or is missing.
        """
        if self._depth or not self._begun:
            raise ValueError("the array is not closed" if self._begun else "the body is missing")
        return iter(())

    @property
    def _outside(self) -> str:
        return "the body has more data after its array" if self._begun else "the body is not a JSON array"

    def _unquoted(self, data: bytes, at: int) -> int:
        """Return the offset at which the scan continues, within the string or after it."""
        if self._escaped:
            self._escaped, at = False, at + 1
        at = _QUOTED.match(data, at).end()  # type: ignore[union-attr]  # it matches everywhere
        if at < len(data):  # a quote, or the first half of an escape whose other half is still to come
            self._quoted = self._escaped = data[at : at + 1] == b"\\"
            at += 1
        return at
