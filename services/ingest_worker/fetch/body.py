"""A body as it was encoded for the way, undone within bounds: 809 bytes of brotli must not become 2 GB."""

import contextlib
import mmap
from collections.abc import Callable
from typing import Any, Final

import cramjam

from shared.errors import Rejected

MOST_CODINGS = 2  # one is usual; two is a proxy that didn't look
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
        raise Rejected(f"the content encoding {header[:100]!r} can't be undone", "encoding")
    return names


class Buffer:
    """At most so many bytes, in pages of its own, which go back to the system when it is closed.

    The allocator would keep them: after one large block that it has had back, it takes the next from its heaps,
    one for each thread, and these don't shrink.
    """

    def __init__(self, most: int) -> None:
        """Take how many bytes it holds; those that aren't written to cost nothing."""
        self.pages = mmap.mmap(-1, most + 1)
        self.size = 0

    def add(self, part: bytes) -> None:
        """Append what there must be a place for."""
        self.pages[self.size : self.size + len(part)] = part
        self.size += len(part)

    def content(self) -> bytes:
        """Return a copy of the bytes."""
        return self.pages[: self.size]

    def fill(self, undo: Callable[[memoryview, mmap.mmap], int], packed: "Buffer") -> None:
        """Make this what `undo` makes of `packed`. Raises as it does."""
        with memoryview(packed.pages) as pages, pages[: packed.size] as data:
            self.size = undo(data, self.pages)

    def close(self) -> None:
        """Let go of the pages. A thread that nobody waits for any more may still read them, and is the last then."""
        with contextlib.suppress(BufferError):
            self.pages.close()


def decoded(body: Buffer, codings: list[str], most: int) -> bytes:
    """Return what the body was, of at most `most` bytes; no step needs more memory than that.

    Raises:
        Rejected: code `too_large`, or `encoding` when it is damaged.
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
            raise Rejected(f"the body is larger than {most} bytes, unpacked", "too_large") from None
        raise Rejected(f"the body is not the {name} that it is said to be: {error}", "encoding") from None
    if into.size > most:
        raise Rejected(f"the body is larger than {most} bytes, unpacked", "too_large")


def _inflate(data: memoryview, out: mmap.mmap) -> Any:
    """Undo 'deflate', which is zlib's format by the RFC, and bare for some servers."""
    try:
        return cramjam.zlib.decompress_into(data, out)
    except cramjam.DecompressionError as error:
        if "whole buffer" in str(error):
            raise
        return cramjam.deflate.decompress_into(data, out)
