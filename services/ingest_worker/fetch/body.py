"""A body as it was encoded for the way, undone within bounds: 809 bytes of brotli must not become 2 GB."""

from collections.abc import Callable
from typing import Any, Final

import cramjam

from shared.errors import Rejected

MOST_CODINGS = 2  # one is usual; two is a proxy that didn't look
_INTO: Final[dict[str, Callable[[bytes, bytearray], int]]] = {
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


def decoded(data: bytes, codings: list[str], most: int) -> bytes:
    """Return the body, of at most `most` bytes; no step needs more memory than that.

    Raises:
        Rejected: code `too_large`, or `encoding` when it is damaged.
    """
    for name in reversed(codings):
        data = _undone(data, name, most) if data else data
    return data


def _undone(data: bytes, name: str, most: int) -> bytes:
    out = bytearray(most + 1)  # pages that aren't written to cost nothing
    try:
        length = (_inflate if name == "deflate" else _INTO[name])(data, out)
    except cramjam.DecompressionError as error:
        if "whole buffer" in str(error):
            raise Rejected(f"the body is larger than {most} bytes, unpacked", "too_large") from None
        raise Rejected(f"the body is not the {name} that it is said to be: {error}", "encoding") from None
    if length > most:
        raise Rejected(f"the body is larger than {most} bytes, unpacked", "too_large")
    return bytes(memoryview(out)[:length])


def _inflate(data: bytes, out: bytearray) -> Any:
    """Undo 'deflate', which is zlib's format by the RFC, and bare for some servers."""
    try:
        return cramjam.zlib.decompress_into(data, out)
    except cramjam.DecompressionError as error:
        if "whole buffer" in str(error):
            raise
        return cramjam.deflate.decompress_into(data, out)
