"""Lists what an OLE file (Office 97–2003) holds at its top, where an embedded document's streams don't stand."""

import struct
from collections.abc import Iterator
from itertools import islice

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENTRY = struct.Struct("<64sHBxIII48x")  # of the directory: name, its bytes, kind, left and right sibling, first child
_SECTORS = 10_000  # of a directory
_NONE = 0xFFFF_FFFA  # from here on, a sector's number means an end


def top_names(data: bytes) -> frozenset[str]:
    """Return the names of the root's streams and folders; empty if it isn't an OLE file, or its directory is broken."""
    if not data.startswith(OLE) or len(data) < 512:
        return frozenset()
    entries = [each for sector in _directory(data) for each in _ENTRY.iter_unpack(sector)]
    found: set[str] = set()
    seen: set[int] = set()
    ahead = [entries[0][5]] if entries else []
    while ahead:
        at = ahead.pop()
        if at < len(entries) and at not in seen:
            seen.add(at)
            name, size, _, left, right, _ = entries[at]
            found.add(name[: max(0, min(size, 64) - 2)].decode("utf-16-le", "replace"))
            ahead += [left, right]
    return frozenset(found)


def _directory(data: bytes) -> Iterator[bytes]:
    """Yield the directory's sectors."""
    shift = struct.unpack_from("<H", data, 30)[0]
    if shift not in (9, 12):
        return
    size = 1 << shift
    tables = [number for number in struct.unpack_from("<109I", data, 76) if number < _NONE]
    sector = struct.unpack_from("<I", data, 48)[0]
    for _ in islice(range(_SECTORS), len(data) // size):
        start = size * (sector + 1)
        if sector >= _NONE or start + size > len(data):
            return
        yield data[start : start + size]
        table, at = divmod(sector, size // 4)
        place = size * (tables[table] + 1) + 4 * at if table < len(tables) else len(data)
        if place + 4 > len(data):
            return
        sector = struct.unpack_from("<I", data, place)[0]
