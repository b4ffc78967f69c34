import io
import re
import zipfile

import pytest

from services.ingest_worker.extract import archive, extract, part_names
from services.ingest_worker.extract.format_types import Hints
from shared.errors import Rejected
from tests.unit.services.ingest_worker import files

HINTS = Hints(filename="a.docx")


def a_zip(**entries: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as container:
        for name, data in entries.items():
            container.writestr(name, data)
    return file.getvalue()


def test_names_are_listed_and_what_is_no_container_has_none() -> None:
    assert archive.names(a_zip(one=b"1", two=b"2")) == {"one", "two"}
    assert archive.names(b"PK\x03\x04 broken") == frozenset()
    assert archive.names(b"text") == frozenset()


def test_a_container_that_would_swell_is_refused_before_it_is_unpacked() -> None:
    with pytest.raises(Rejected, match="would unpack from") as refused:
        archive.opened(a_zip(bomb=b"0" * (80 << 20)), HINTS)

    assert refused.value.code == "too_large"


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 broken"])
def test_a_container_that_cannot_be_read_is_damaged(data: bytes) -> None:
    with pytest.raises(Rejected, match=r"a\.docx is damaged"):
        archive.opened(data, HINTS)


def test_whatever_byte_is_changed_a_container_is_read_or_refused_by_a_sentence() -> None:
    types = b"[Content_Types].xml"
    whole = a_zip(**{types.decode(): b"<Types>" + bytes(range(256)) * 2 + b"</Types>", "b.xml": b"b" * 99})
    changes = (bytes((0x00,)), bytes((0xFF,)), bytes((0x80,)), b"\x0e")
    refused = 0
    for at in range(4, len(whole)):
        for change in changes:
            data = whole[:at] + change + whole[at + 1 :]
            archive.names(data)
            part_names.declares(data, re.compile(b"Types"))
            try:
                with archive.opened(data, HINTS) as container:
                    for entry in container.infolist():
                        archive.is_folder(entry)
                        archive.part(container, entry, HINTS)
            except Rejected as error:
                refused += error.code in ("damaged", "too_large", "password")
    assert refused > len(whole)


def test_a_missing_part_is_named() -> None:
    with archive.opened(a_zip(one=b"1"), HINTS) as container:
        assert archive.part(container, "one", HINTS) == b"1"
        with pytest.raises(Rejected, match="its part two is missing"):
            archive.part(container, "two", HINTS)


def test_relations_are_resolved_from_their_folder_and_external_ones_left_out() -> None:
    listed = b"""<Relationships xmlns="x">
        <Relationship Id="a" Type="http://x/image" Target="../media/1.png"/>
        <Relationship Id="b" Type="http://x/hyperlink" Target="http://elsewhere" TargetMode="External"/>
    </Relationships>"""
    with archive.opened(a_zip(**{"word/_rels/document.xml.rels": listed}), HINTS) as container:
        assert archive.related(container, "word/document.xml", HINTS) == {"a": ("image", "media/1.png")}
        assert archive.related(container, "word/other.xml", HINTS) == {}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.docx", files.a_docx_of("The tide turns.")),
        ("a.pptx", files.a_pptx(files.a_shape("The tide turns."))),
        ("a.xlsx", files.an_xlsx(Ducks=[["The tide turns."]])),
        ("a.odt", files.an_opendocument("text", "<text:p>The tide turns.</text:p>")),
        ("a.epub", files.an_epub("<p>The tide turns.</p>")),
    ],
)
def test_backslashes_between_folders_change_nothing(name: str, data: bytes) -> None:
    changed = archive.packed((path.replace("/", "\\"), part) for path, part in files.parts_of(data).items())

    assert extract(changed, Hints(filename=name)).text == extract(data, Hints(filename=name)).text


@pytest.mark.parametrize(
    ("data", "name", "listing", "entry"),
    [
        (files.an_epub("<p>It rose.</p>"), "a.epub", "OEBPS/book.opf", b'<itemref idref="c0"/>'),
        (files.a_pptx(files.a_shape("It rose.")), "a.pptx", "ppt/presentation.xml", b'<p:sldId id="256" r:id="s0"/>'),
    ],
)
def test_a_part_that_is_listed_a_thousand_times_is_read_once(
    data: bytes, name: str, listing: str, entry: bytes
) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as container:
        parts = {each: container.read(each) for each in container.namelist()}
    assert entry in parts[listing]
    parts[listing] = parts[listing].replace(entry, entry * 1000)

    assert extract(a_zip(**parts), Hints(filename=name)).text.count("It rose.") == 1
