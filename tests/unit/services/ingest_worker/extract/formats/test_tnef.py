import struct

from services.ingest_worker.extract import Hints, extract


def _a_file(*attributes: tuple[int, bytes]) -> bytes:
    packed = (struct.pack("<BHHI", 1, kind, 1, len(value)) + value + b"\0\0" for kind, value in attributes)
    return b"\x78\x9f\x3e\x22\x01\x00" + b"".join(packed)


def test_message_and_attachments_are_read() -> None:
    read = extract(
        _a_file(
            (0x8004, b"Miete\0"),
            (0x800C, "Die Miete ist fällig.\0".encode("cp1252")),
            (0x9002, b""),
            (0x8010, b"liste.csv\0"),
            (0x800F, b"Boot;Platz\nGans;7\n"),
            (0x9002, b""),
            (0x800F, b"\0\1\2" * 99),
        ),
        Hints(filename="winmail.dat"),
    )

    assert read.title == "Miete"
    assert read.text.startswith("Die Miete ist fällig.\n\n# liste.csv\n\n")
    assert "Boot: Gans; Platz: 7" in read.text
    assert [(each.code, each.place) for each in read.notes] == [("unsupported", "attachment 2")]


def test_a_message_in_another_form_is_noted_and_a_cut_file_is_read_as_far_as_it_goes() -> None:
    data = _a_file((0x9003, b"\x01\0\0\0\x02\x01\x09\x10"), (0x8010, b"a.txt\0"), (0x800F, b"Im Hafen liegt das Boot."))

    read = extract(data[:-6], Hints(filename="winmail.dat"))

    assert read.text == "# a.txt\n\nIm Hafen liegt das B"
    assert [each.code for each in read.notes] == ["unsupported"]
