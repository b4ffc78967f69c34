import struct

from services.ingest_worker.extract import Hints, detect
from services.ingest_worker.extract.ole import OLE, is_ole, stream, stream_places, top
from tests.unit.services.ingest_worker.files import an_ole, an_ole_of_small

_FREE, _LAST = 0xFFFF_FFFF, 0xFFFF_FFFE


def _entry(name: str, kind: int, *, right: int = _FREE, child: int = _FREE) -> bytes:
    raw = name.encode("utf-16-le") + b"\0\0"
    return struct.pack("<64sHBxIII48x", raw, len(raw), kind, _FREE, right, child)


def _an_ole(*entries: bytes, directory: tuple[int, ...] = (1,)) -> bytes:
    """Return a file whose first sector is the table, and whose directory is in the sectors named."""
    head = bytearray(OLE.ljust(512, b"\0"))
    struct.pack_into("<H", head, 30, 9)
    struct.pack_into("<I", head, 48, directory[0])
    struct.pack_into("<109I", head, 76, 0, *[_FREE] * 108)
    table = [0xFFFF_FFFD, *[_FREE] * 127]
    for at, after in zip(directory, (*directory[1:], _LAST), strict=True):
        table[at] = after
    body = b"".join(entries).ljust(512 * len(directory), b"\0")
    sectors = {at: body[512 * number :][:512] for number, at in enumerate(directory)}
    return bytes(head) + struct.pack("<128I", *table) + b"".join(sectors[at] for at in sorted(sectors))


_ROOT = _entry("Root Entry", 5, child=1)
_BOOK = [_ROOT, _entry("Workbook", 2, right=2), _entry("MBD01", 1, child=3), _entry("WordDocument", 2)]


def test_what_an_embedded_document_holds_is_not_at_the_top() -> None:
    book = _an_ole(*_BOOK)

    assert top(book).keys() == {"Workbook", "MBD01"}
    assert not is_ole(book, "WordDocument")
    assert detect(book, Hints(filename="a.bin")).document_type == "xls"


def test_a_directory_continues_in_another_sector() -> None:
    entries = [_ROOT, *(_entry(f"s{at}", 2, right=at + 1) for at in range(1, 6)), _entry("Last", 2)]

    assert top(_an_ole(*entries, directory=(1, 2))).keys() == {f"s{at}" for at in range(1, 6)} | {"Last"}


def test_a_broken_directory_has_no_names() -> None:
    whole = _an_ole(*_BOOK)

    assert top(whole[:900]) == {}
    assert top(b"text") == {}
    assert top(_an_ole(_ROOT, _entry("Ring", 2, right=1))).keys() == {"Ring"}, "a ring of siblings ends"
    assert top(_an_ole(_ROOT, _entry("A", 2, right=999))).keys() == {"A"}


def test_a_stream_is_found_piece_by_piece() -> None:
    stream = bytes(range(256)) * 40_000  # its sectors are listed in more tables than the header has room for
    data = an_ole("Workbook", stream)

    assert b"".join(data[place] for place in stream_places(data, "Workbook")) == stream
    assert stream_places(data, "Book") == []
    assert sum(place.stop - place.start for place in stream_places(data[:9_000_000], "Workbook")) < len(stream)


def test_small_streams_are_read_from_the_one_that_they_share() -> None:
    streams = {"A": b"a" * 700, "B": b"", "C": bytes(range(200)), "D": b"d"}
    data = an_ole_of_small(streams)

    assert {name: stream(data, name) for name in (*streams, "E")} == {**streams, "E": b""}
    assert stream(an_ole("Long", b"l" * 5000), "Long") == b"l" * 5000
    assert all(streams["A"].startswith(stream(data[:end], "A")) for end in range(0, len(data), 100)), "cut off"
