"""Splits a body that is still arriving into items: elements of a JSON array, or a JSON value per line. Pure."""

from collections.abc import Iterator

from services.query_api.http.json_scanner import CLOSING, JsonScanner


class _Splitter:
    """Holds the bytes of the current item; they are dropped once there are too many."""

    def __init__(self, longest: int) -> None:
        """Take the most bytes that an item may have."""
        self._longest = longest
        self._bytes = bytearray()
        self._over = False

    def _add(self, data: bytes) -> None:
        self._over |= len(self._bytes) + len(data) > self._longest
        if self._over:
            self._bytes.clear()
        else:
            self._bytes += data

    def _take(self) -> bytes | None:
        taken = None if self._over else bytes(self._bytes.strip())
        self._bytes.clear()
        self._over = False
        return taken


class Lines(_Splitter):
    """Splits NDJSON, a value per line; blank lines are ignored."""

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        """Yield the lines that end in `data`."""
        first, *lines = data.split(b"\n")
        self._add(first)
        if not lines:
            return
        yield from self.end()
        rest = lines.pop()
        for line in filter(None, lines):
            self._add(line)
            yield from self.end()
        self._add(rest)

    def end(self) -> Iterator[bytes | None]:
        """Yield the last line, which may lack its line feed."""
        if (line := self._take()) != b"":
            yield line


class Elements(_Splitter):
    """Splits one JSON array into its elements. It looks only at brackets, quotes and commas."""

    def __init__(self, longest: int) -> None:
        super().__init__(longest)
        self._scanner = JsonScanner()
        self._begun = self._ended = self._more = False

    def feed(self, data: bytes) -> Iterator[bytes | None]:
        """Yield the elements that end in `data`.

        Raises:
            ValueError: there is data before or after the array.
        """
        at, kinds, depths = self._scanner.feed(data)
        # A mark that leaves one bracket open begins the array or ends an item; one that leaves none ends the array.
        chosen = (depths <= 0) | ((depths == 1) & (kinds != CLOSING))
        start = 0
        for mark, depth in zip(at[chosen].tolist(), depths[chosen].tolist(), strict=True):
            before = data[start:mark]
            start = mark + 1
            if not self._begun:
                if data[mark : mark + 1] != b"[" or before.strip():
                    raise ValueError(self._outside)
                self._begun = True
                continue
            if self._ended:
                raise ValueError(self._outside)
            self._add(before)
            item = self._take()
            self._ended = depth == 0
            if depth or self._more or item != b"":
                yield item
            self._more = not self._ended
        if self._begun and not self._ended:
            self._add(data[start:])
        elif data[start:].strip():
            raise ValueError(self._outside)

    def end(self) -> Iterator[bytes | None]:
        """Check that the array is complete; yields nothing.

        Raises:
            ValueError: the array isn't closed, or is missing.
        """
        if not self._ended:
            raise ValueError("the array is not closed" if self._begun else "the body is missing")
        return iter(())

    @property
    def _outside(self) -> str:
        return "the body has more data after its array" if self._begun else "the body is not a JSON array"


Framing = Lines | Elements  # None replaces an item that is too long
