"""Decompresses response bodies within a size limit: 809 bytes of brotli can expand to 2 GB."""

from collections.abc import Callable
from io import BytesIO
from typing import Any, Final

import cramjam
import numpy as np

from shared.errors import Rejected

MOST_CODINGS = 2  # one is usual; a careless proxy may add a second
# Of gzip, each of which costs 4 µs: 20 MB may be a million empty ones. Real ones have 2 kB or more.
MOST_MEMBERS = 10_000
_MEMBER: Final = b"\x1f\x8b\x08"
_CM_DEFLATE: Final = 8  # of RFC 1950; no encoder begins raw deflate with these bits
_INTO: Final[dict[str, Callable[[Any, Any], int]]] = {
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


def decoded(body: BytesIO, codings: list[str], most: int) -> bytes:
    """Return the decompressed body of at most `most` bytes, and empty `body`. No step needs more than twice as much.

    Raises:
        Rejected: code `too_large`, or `encoding` when the body is damaged.
    """
    data = body.getvalue()  # without a copy
    body.truncate(0)
    for name in reversed(codings):
        if data:
            room = _undone(data, name, most)
            data = b""  # so that no more than two are held
            data, room = bytes(room), None
    return data


def _undone(packed: bytes, name: str, most: int) -> Any:
    if name.endswith("gzip") and packed.count(_MEMBER) > MOST_MEMBERS:
        raise Rejected(f"the body has more than {MOST_MEMBERS} parts of gzip", "encoding")
    room = np.empty(most, np.uint8)  # not filled, so that pages to which nothing is written cost no memory
    # 'deflate' is the zlib format by the RFC, whose first byte says so, but some servers send raw deflate.
    deflate = (cramjam.zlib if packed[0] & 15 == _CM_DEFLATE else cramjam.deflate).decompress_into
    try:
        size = _INTO.get(name, deflate)(packed, room)
    except cramjam.DecompressionError as error:
        if "whole buffer" in str(error):
            raise Rejected(f"the decompressed body is larger than {most} bytes", "too_large") from None
        raise Rejected(f"the body is not valid {name}, which its Content-Encoding names: {error}", "encoding") from None
    return room[:size]
