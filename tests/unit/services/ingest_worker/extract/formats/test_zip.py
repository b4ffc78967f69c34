import struct
from collections.abc import Callable

import pytest

from services.ingest_worker.extract import Extraction, Hints, extract
from shared.errors import Rejected
from tests.unit.services.ingest_worker.files import a_pdf, a_zip


def _read(data: bytes) -> Extraction:
    return extract(data, Hints(filename="a.zip"))


def test_every_file_is_a_section_and_what_cannot_be_read_is_said() -> None:
    read = _read(
        a_zip(
            {
                "b/tide.pdf": a_pdf("High tide."),
                "notes.md": "Low *tide*.",
                "a.bin": b"\0\1\2" * 99,
                ".hidden": "never",
                "__MACOSX/x.txt": "never",
                "a/Thumbs.db": "never",
                "desktop.ini": "never",
                "../../out.txt": "Outside.",
                "thumbs.db/a.txt": "Of it.",
            }
        )
    )

    *files, last = read.text.split("\n\n# ")
    assert "\n\n# ".join(files) == (
        "# b/tide.pdf\n\nHigh tide.\n\n# notes.md\n\nLow *tide*.\n\n# ../../out.txt\n\nOutside."
    )
    assert last == "thumbs.db/a.txt\n\nOf it."
    [note] = read.notes
    assert (note.code, note.place) == ("unsupported", "a.bin")
    assert note.message == "a.bin is neither text nor in a supported format"


def test_archives_in_archives_end_somewhere() -> None:
    inner = a_zip({"deep.txt": "Deep."})
    for _ in range(4):
        inner = a_zip({"x.zip": inner})

    with pytest.raises(Rejected, match="is nested more than 3 files deep") as caught:
        _read(inner)

    assert caught.value.code == "empty"


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"a.txt": b"\0" * (70 << 20)}, r"^a\.zip would unpack from \d+ to 73400320 bytes, more than is allowed$"),
        ({f"{number}.txt": b"" for number in range(5001)}, r"^a\.zip holds 5001 files; at most 5000 are allowed$"),
    ],
)
def test_a_bomb_is_too_large(parts: dict[str, bytes], sentence: str) -> None:
    with pytest.raises(Rejected, match=sentence) as caught:
        _read(a_zip(parts))

    assert caught.value.code == "too_large"


def _listed(data: bytearray, name: str) -> int:
    """Return where the directory lists a file."""
    return data.rindex(b"PK\x01\x02", 0, data.rindex(name.encode()))


def _damage(data: bytearray, at: int) -> None:
    data[at + 16] ^= 0xFF  # the checksum


def _understate(data: bytearray, at: int) -> None:
    data[at + 24 : at + 28] = struct.pack("<I", 10)  # the unpacked size


def _pack_otherwise(data: bytearray, at: int) -> None:
    data[at + 10] = 99  # a method that we don't know


def _lock(data: bytearray, at: int) -> None:
    data[at + 8] |= 1


@pytest.mark.parametrize("spoil", [_damage, _understate, _pack_otherwise, _lock])
def test_a_file_that_cannot_be_unpacked_is_noted_and_the_others_are_read(
    spoil: Callable[[bytearray, int], None],
) -> None:
    data = bytearray(a_zip({"eins.txt": "Das Tor.", "zwei.md": "x" * 1_000_000, "drei.txt": "Der Steg."}))
    spoil(data, _listed(data, "zwei.md"))

    read = _read(bytes(data))

    assert read.text == "# eins.txt\n\nDas Tor.\n\n# drei.txt\n\nDer Steg."
    assert [each.place for each in read.notes] == ["zwei.md"]


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("会议纪要/预算.txt", "gbk"),
        ("渡し船の時刻表.txt", "cp932"),
        ("會議記錄.txt", "big5"),
        ("보고서.txt", "cp949"),
        ("отчёт за май.txt", "cp866"),
        ("Größe.txt", "cp437"),
        ("Fähre.txt", "utf-8"),
        ("naïve café.txt", "cp437"),
        ("《船期》（春）.txt", "gbk"),
    ],
)
def test_a_name_is_in_the_encoding_that_it_was_written_in(name: str, encoding: str) -> None:
    raw = name.encode(encoding)
    data = a_zip({"~" * len(raw): "Im Hafen."}).replace(b"~" * len(raw), raw)

    assert _read(data).text == f"# {name}\n\nIm Hafen."


def test_a_locked_archive_is_refused_as_such() -> None:
    data = bytearray(a_zip({"a.txt": b"x"}))
    data[data.rindex(b"PK\x01\x02") + 8] |= 1

    with pytest.raises(Rejected, match=r"^a\.zip is locked by a password$") as caught:
        _read(bytes(data))

    assert caught.value.code == "password"


def test_an_archive_without_text_is_empty() -> None:
    with pytest.raises(Rejected, match=r"^a\.zip holds no readable text: a\.bin is neither") as caught:
        _read(a_zip({"a.bin": b"\0\1\2" * 99}))

    assert caught.value.code == "empty"


def test_the_first_notes_and_the_number_of_all_are_kept() -> None:
    members = {f"{number:02}{'x' * 300}.bin": b"\0\1\2" for number in range(25)}
    inner = a_zip(members)

    read = _read(a_zip({"a.md": b"Low tide.", "inner.zip": inner, "b.zip": a_zip({"b.md": b"High.", **members})}))

    assert (len(read.notes), read.note_count) == (20, 26)
    assert max(len(each.place) for each in read.notes) == 200
    assert max(len(each.message) for each in read.notes) <= 300
