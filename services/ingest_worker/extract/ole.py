"""Tells what an OLE file (Office 97–2003) holds at its top, not in embedded documents, and whether it is locked."""

import re
import struct
from collections.abc import Iterator
from itertools import islice

OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
# Of the directory: name, its bytes, kind, left and right sibling, first child, first sector, bytes
_ENTRY = struct.Struct("<64sHBxIII36xII4x")
_SMALLEST = 4096  # bytes of a stream with sectors of its own
_PIECE = 64  # bytes of a smaller one's
_SECTORS = 10_000  # of a directory
_SECTOR = 512  # bytes, at least
_NONE = 0xFFFF_FFFA  # from here on, a sector's number means an end
_ENCRYPTED = "EncryptedPackage"  # stream name in an encrypted file of Office 2007 or later
_ENCRYPTED_WORD = re.compile(rb"\xec\xa5.{9}(.)", re.DOTALL)  # Word: the first block (FIB) and its flags
_ENCRYPTED_SHOW = re.compile(rb"\xf6\x0f.{4}\x14\0{3}\xdf\xc4\xd1\xf3", re.DOTALL)  # PowerPoint: CurrentUserAtom
# Excel: the FilePass record; since 97, and before
_ENCRYPTED_BOOK = re.compile(rb"\x09\x08(?:\x10\0.{16}|\x08\0.{8})(?:\x86\0\0\0)?\x2f\0", re.DOTALL)


def is_ole(data: bytes, stream: str) -> bool:
    """Return whether it is an OLE file (Office 97–2003) with a stream of that name.

    Of a file with a broken directory: whether the name stands anywhere.
    """
    if not data.startswith(OLE):
        return False
    names = {name.upper() for name in top(data)}  # upper and lower case are the same there
    return stream.upper() in names if names else stream.encode("utf-16-le") in data


def is_locked(data: bytes) -> bool:
    """Return whether it is an Office file, legacy or current, that is protected by a password."""
    if is_ole(data, _ENCRYPTED) or (is_ole(data, "PowerPoint Document") and _ENCRYPTED_SHOW.search(data)):
        return True
    if is_ole(data, "WordDocument"):
        return any(found.start() % _SECTOR == 0 and found[1][0] & 1 for found in _ENCRYPTED_WORD.finditer(data))
    return data.startswith(OLE) and any(found.start() % _SECTOR == 0 for found in _ENCRYPTED_BOOK.finditer(data))


def stream_places(data: bytes, name: str) -> list[slice]:
    """Return where the pieces of the root's stream stand; nothing if there is none."""
    first, left = top(data).get(name, (_NONE, 0))
    places: list[slice] = []
    pieces = _chain(data, first, len(data)) if left >= _SMALLEST else _shared(data, first) if left else iter(())
    for piece in pieces:
        places.append(slice(piece.start, min(piece.stop, piece.start + left)))
        left -= piece.stop - piece.start
        if left <= 0:
            break
    return places


def stream(data: bytes, name: str) -> bytes:
    """Return the root's stream; b"" if there is none."""
    return b"".join(data[place] for place in stream_places(data, name))


def _shared(data: bytes, piece: int) -> Iterator[slice]:
    """Yield where a piece of the stream that small ones share stands, and those that follow it by a table of theirs."""
    directory, table = (struct.unpack_from("<I", data, at)[0] for at in (48, 60))
    root = next(_chain(data, directory, 1), slice(0, 0)).start + 116
    sectors = list(_chain(data, struct.unpack_from("<I", data, root)[0], len(data))) if root > _SECTOR else []
    follow = b"".join(data[place] for place in _chain(data, table, len(data)))
    size = sectors[0].stop - sectors[0].start if sectors else 1
    for _ in range(len(follow) // 4):
        sector, at = divmod(_PIECE * piece, size)
        if sector >= len(sectors) or 4 * piece + 4 > len(follow):
            return
        yield slice(sectors[sector].start + at, sectors[sector].start + at + _PIECE)
        piece = struct.unpack_from("<I", follow, 4 * piece)[0]


def top(data: bytes) -> dict[str, tuple[int, int]]:
    """Return first sector and size of the root's streams and folders by name; empty if there is no whole directory."""
    if not data.startswith(OLE) or len(data) < 512:
        return {}
    directory = _chain(data, struct.unpack_from("<I", data, 48)[0], _SECTORS)
    entries = [each for sector in directory for each in _ENTRY.iter_unpack(data[sector])]
    found: dict[str, tuple[int, int]] = {}
    seen: set[int] = set()
    ahead = [entries[0][5]] if entries else []
    while ahead:
        at = ahead.pop()
        if at < len(entries) and at not in seen:
            seen.add(at)
            name, size, _, left, right, _, *held = entries[at]
            found[name[: max(0, min(size, 64) - 2)].decode("utf-16-le", "replace")] = (held[0], held[1])
            ahead += [left, right]
    return found


def _chain(data: bytes, sector: int, most: int) -> Iterator[slice]:
    """Yield where the sector and those that follow it stand, at most `most` of them."""
    shift = struct.unpack_from("<H", data, 30)[0]
    if shift not in (9, 12):
        return
    size = 1 << shift
    tables = _tables(data, size)
    for _ in islice(range(most), len(data) // size):
        start = size * (sector + 1)
        if sector >= _NONE or start + size > len(data):
            return
        yield slice(start, start + size)
        table, at = divmod(sector, size // 4)
        place = size * (tables[table] + 1) + 4 * at if table < len(tables) else len(data)
        if place + 4 > len(data):
            return
        sector = struct.unpack_from("<I", data, place)[0]


def _tables(data: bytes, size: int) -> list[int]:
    """Return the sectors that say which sector follows which: 109 are in the header, the others in sectors."""
    tables = list(struct.unpack_from("<109I", data, 76))
    more = struct.unpack_from("<I", data, 68)[0]
    for _ in range(len(data) // size):
        start = size * (more + 1)
        if more >= _NONE or start + size > len(data):
            break
        *some, more = struct.unpack_from(f"<{size // 4}I", data, start)
        tables += some
    return [number for number in tables if number < _NONE]
