import struct

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
                "../../out.txt": "Outside.",
            }
        )
    )

    assert read.text == "# b/tide.pdf\n\nHigh tide.\n\n# notes.md\n\nLow *tide*.\n\n# ../../out.txt\n\nOutside."
    assert read.note == "a.bin is neither text nor in a supported format"


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


def test_a_file_larger_than_it_says_is_not_read_further() -> None:
    data = bytearray(a_zip({"a.txt": b"x" * 1_000_000}))
    listed = data.rindex(b"PK\x01\x02")
    data[listed + 24 : listed + 28] = struct.pack("<I", 10)  # the declared size

    with pytest.raises(Rejected, match=r"is damaged: its part a\.txt is missing or broken") as caught:
        _read(bytes(data))

    assert caught.value.code == "damaged"


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
