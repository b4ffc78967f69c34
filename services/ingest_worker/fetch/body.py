"""Decompresses response bodies within a size limit: 809 bytes of brotli can expand to 2 GB."""

import contextlib
import mmap
from collections.abc import Callable
from typing import Any, Final

import cramjam

from shared.errors import Rejected

MOST_CODINGS = 2  # one is usual; a careless proxy may add a second
_INTO: Final[dict[str, Callable[[memoryview, mmap.mmap], int]]] = {
    "gzip": cramjam.gzip.decompress_into,
    "x-gzip": cramjam.gzip.decompress_into,
    "br": cramjam.brotli.decompress_into,
    "zstd": cramjam.zstd.decompress_into,
}


def codings_of(header: str) -> list[str]:
    """Return the codings that Content-Encoding names, in the order in which they were applied.

    Raises:
        Rejected: code `encoding`, there are too many or unknown ones.
    """
    names = [name for part in header.split(",") if (name := part.strip().lower()) not in ("", "identity")]
    if len(names) > MOST_CODINGS or any(name not in _INTO and name != "deflate" for name in names):
        raise Rejected(f"the content encoding {header[:100]!r} is not supported", "encoding")
    return names


class Buffer:
    """A byte buffer of fixed capacity, in pages of its own that return to the system when it is closed.

    The allocator would keep them: once a large block has been freed, it serves the next one from a thread's heap,
    and heaps don't shrink.
    """

    def __init__(self, most: int) -> None:
        """Take the capacity in bytes; bytes that are never written cost no memory."""
        self.pages = mmap.mmap(-1, most + 1)
        self.size = 0

    def add(self, part: bytes) -> None:
        """Append bytes, which must fit."""
        self.pages[self.size : self.size + len(part)] = part
        self.size += len(part)

    def content(self) -> bytes:
        """Return a copy of the bytes."""
        return self.pages[: self.size]

    def fill(self, undo: Callable[[memoryview, mmap.mmap], int], packed: "Buffer") -> None:
        """Replace the content with the output of `undo` for `packed`. Raises what `undo` raises."""
        with memoryview(packed.pages) as pages, pages[: packed.size] as data:
            self.size = undo(data, self.pages)

    def close(self) -> None:
        """Release the pages. If an abandoned thread still reads them, they are freed when it ends."""
        with contextlib.suppress(BufferError):
            self.pages.close()


def decoded(body: Buffer, codings: list[str], most: int) -> bytes:
    """Return the decompressed body of at most `most` bytes; no step needs more memory than that.

    Raises:
        Rejected: code `too_large`, or `encoding` when the body is damaged.
    """
    with contextlib.ExitStack() as held:
        for name in reversed(codings):
            if not body.size:
                break
            packed, body = body, held.enter_context(contextlib.closing(Buffer(most)))
            _undo(packed, name, body, most)
        return body.content()


def _undo(packed: Buffer, name: str, into: Buffer, most: int) -> None:
    try:
        into.fill(_inflate if name == "deflate" else _INTO[name], packed)
    except cramjam.DecompressionError as error:
        if "whole buffer" in str(error):
            raise Rejected(f"the decompressed body is larger than {most} bytes", "too_large") from None
        raise Rejected(f"the body is not valid {name}, which its Content-Encoding names: {error}", "encoding") from None
    if into.size > most:
        raise Rejected(f"the decompressed body is larger than {most} bytes", "too_large")


def _inflate(data: memoryview, out: mmap.mmap) -> Any:
    """Decompress 'deflate': the zlib format by the RFC, but some servers send raw deflate."""
    try:
        return cramjam.zlib.decompress_into(data, out)
    except cramjam.DecompressionError as error:
        if "whole buffer" in str(error):
            raise
        return cramjam.deflate.decompress_into(data, out)
