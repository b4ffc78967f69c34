"""Decompresses response bodies within a size limit: 809 bytes of brotli can expand to 2 GB."""

import zlib
from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any, Final

import cramjam
import numpy as np

from shared.errors import Rejected

MOST_CODINGS = 2  # one is usual; a careless proxy may add a second
# Of gzip, each of which costs 4 µs: 20 MB may be a million empty ones. Real ones have 2 kB or more.
MOST_MEMBERS = 10_000
STEP: Final = 256 * 1024  # decompressed bytes that are made at a time
_GZIP, _ZLIB, _BARE = 31, 15, -15  # wbits of zlib
_CM_DEFLATE: Final = 8  # the compression method of RFC 1950
_INFLATED: Final = frozenset({"gzip", "x-gzip", "deflate"})
# These are decompressed at once, because no step of theirs has a bound. No server is told that they are understood.
_WHOLE: Final[dict[str, Callable[[Any, Any], int]]] = {
    "br": cramjam.brotli.decompress_into,
    "zstd": cramjam.zstd.decompress_into,
}


def codings_of(header: str) -> list[str]:
    """Return the codings that Content-Encoding names, in the order in which they were applied.

    Raises:
        Rejected: code `encoding`, there are too many or unknown ones.
    """
    names = [name for part in header.split(",") if (name := part.strip().lower()) not in ("", "identity")]
    if len(names) > MOST_CODINGS or any(name not in _INFLATED and name not in _WHOLE for name in names):
        raise Rejected(f"the content encoding {header[:100]!r} is not supported", "encoding")
    return names


def copies_of(codings: Sequence[str]) -> int:
    """Return how many times the largest body is held at once while it is decompressed."""
    return 2 if any(name in _WHOLE for name in codings) else 1


class Body:
    """A body being received. Its methods may take 0.1 s, and raise Rejected: code `too_large`, or `encoding`."""

    def __init__(self, codings: Sequence[str], most: int) -> None:
        """Take the codings in the order in which they were applied, and the most decompressed bytes."""
        self._kept = _Kept(most)
        self._into: _Into = self._kept
        for name in codings:
            self._into = (_Inflated if name in _INFLATED else _Whole)(name, self._into, most)

    def write(self, data: bytes | bytearray) -> None:
        """Add bytes as they were sent."""
        self._into.write(data)

    def end(self, data: bytes | bytearray = b"") -> bytes:
        """Return the decompressed body, whose last bytes, as they were sent, are `data`. To be called once."""
        self._into.write(data)
        self._into.end()
        return self._kept.getvalue()  # without a copy


class _Kept(BytesIO):
    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self._most:
            raise _too_large(self._most)
        return super().write(data)

    def end(self) -> None:
        pass


class _Inflated:
    def __init__(self, name: str, into: "_Into", _most: int) -> None:
        self._name, self._into = name, into
        self._members = 0
        self._member: Any = None  # being read
        self._ended = False

    def write(self, data: Any) -> None:
        made = b""
        while not self._ended and (len(data) or (self._member and len(made) == STEP)):
            self._member = member = self._member or self._next(data)
            try:
                made = member.decompress(data, STEP)
            except zlib.error as error:
                raise _damaged(self._name, error) from None
            self._into.write(made)
            data = member.unconsumed_tail
            if member.eof:
                self._member, data, self._ended = None, member.unused_data, self._name == "deflate"

    def _next(self, data: Any) -> Any:
        self._members += 1
        if self._members > MOST_MEMBERS:
            raise Rejected(f"the body has more than {MOST_MEMBERS} parts of gzip", "encoding")
        if self._name != "deflate":
            return zlib.decompressobj(_GZIP)
        # The zlib format by the RFC, but some servers send raw deflate, whose first block never has these bits.
        return zlib.decompressobj(_ZLIB if data[0] & 15 == _CM_DEFLATE else _BARE)

    def end(self) -> None:
        if self._member is not None:
            raise _damaged(self._name, "it ends too early")
        self._into.end()


class _Whole(_Kept):
    def __init__(self, name: str, into: "_Into", most: int) -> None:
        super().__init__(most)
        self._name, self._into = name, into

    def end(self) -> None:
        if self.tell():
            room = np.empty(self._most + 1, np.uint8)  # pages to which nothing is written cost no memory
            try:
                size = _WHOLE[self._name](self.getvalue(), room)
            except cramjam.DecompressionError as error:
                full = "whole buffer" in str(error)
                raise (_too_large(self._most) if full else _damaged(self._name, error)) from None
            self.truncate(0)
            self._into.write(room.data[:size])
        self._into.end()


_Into = _Kept | _Inflated | _Whole


def _too_large(most: int) -> Rejected:
    return Rejected(f"the decompressed body is larger than {most} bytes", "too_large")


def _damaged(name: str, why: object) -> Rejected:
    return Rejected(f"the body is not valid {name}, which its Content-Encoding names: {why}", "encoding")
