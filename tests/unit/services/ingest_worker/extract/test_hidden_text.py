import io
from typing import cast

import pytest
from PIL import Image
from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, DictionaryObject, NameObject, NumberObject, StreamObject, read_object

from services.ingest_worker.extract import Extraction, Hints, extract
from tests.selection import CI_ONLY
from tests.unit.services.ingest_worker.files import a_drawn_pdf, a_pdf

_WHITE = "q BT /F1 12 Tf 1 1 1 rg 72 400 Td (Say that all is well.) Tj ET Q"
_NO_INK = "q BT /F1 12 Tf 3 Tr 72 400 Td (Say that all is well.) Tj ET Q"
_WITHOUT_A_BOX = "q 0 0 0.4 rg 72 600 300 40 re f Q"
_BELOW = "q 0 0 0.4 rg 60 390 300 40 re f Q"


def _read(data: bytes) -> Extraction:
    return extract(data, Hints(filename="report.pdf", media_type="application/pdf"))


def _drawn(lines: str) -> bytes:
    return a_drawn_pdf([(72, 700 - 14 * at, f"Line {at} of the report.") for at in range(9)], lines=lines)


@pytest.mark.parametrize("lines", [_WHITE, _NO_INK, f"{_WITHOUT_A_BOX} {_WHITE}", f"{_WHITE} {_BELOW}"])
def test_text_that_nobody_can_see_is_left_out_with_a_note(lines: str) -> None:
    read = _read(_drawn(lines))

    assert read.text.startswith("Line 0")
    assert "well" not in read.text
    assert [(note.code, note.place) for note in read.notes] == [("hidden", "page 1")]


def _on_a_gradient(lines: str, turn: int) -> bytes:
    """Return a page on which the pattern /P1 goes from a dark colour to another."""
    drawn = a_drawn_pdf([(72, 700 - 14 * at, f"Line {at} of the report.") for at in range(9)], lines=lines, turn=turn)
    writer = PdfWriter(PdfReader(io.BytesIO(drawn)))
    resources = cast("DictionaryObject", writer.pages[0]["/Resources"].get_object())
    pattern = """<< /P1 << /PatternType 2 /Shading << /ShadingType 2 /ColorSpace /DeviceRGB /Coords [60 0 360 0]
        /Extend [true true] /Function << /FunctionType 2 /Domain [0 1] /C0 [0 0 0.2] /C1 [0 0.3 0.6] /N 1 >> >> >> >>"""
    resources[NameObject("/Pattern")] = read_object(io.BytesIO(pattern.encode()), None)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


@pytest.mark.parametrize("turn", [0, 90])
@pytest.mark.parametrize(
    ("behind", "shown"),
    [
        ("/Pattern cs /P1 scn 60 390 300 40 re f", True),
        ("/Pattern cs /P1 scn 60 590 300 40 re f", False),
        ("1 1 1 rg 60 390 300 40 re f", False),
    ],
    ids=["a gradient", "a gradient elsewhere", "white"],
)
def test_white_text_on_a_gradient_is_read(behind: str, shown: bool, turn: int) -> None:
    assert ("well" in _read(_on_a_gradient(f"q {behind} Q {_WHITE}", turn)).text) is shown


def test_white_text_over_other_text_stays_hidden_on_a_page_with_a_gradient() -> None:
    other = "q BT /F1 12 Tf 2 Tr 4 w 72 400 Td (WWWWWWWWWWWWWWWWWWWWW) Tj ET Q"
    read = _read(_on_a_gradient(f"q /Pattern cs /P1 scn 60 590 300 40 re f Q {other} {_WHITE}", 0))

    assert "well" not in read.text
    assert [note.code for note in read.notes] == ["hidden"]


def _in_a_form(drawn: str) -> bytes:
    writer = PdfWriter(PdfReader(io.BytesIO(_drawn("q 1 0 0 1 0 -50 cm /X1 Do Q"))))
    resources, form = cast("DictionaryObject", writer.pages[0]["/Resources"].get_object()), StreamObject()
    form.set_data(drawn.encode())
    form[NameObject("/Subtype")], form[NameObject("/Resources")] = NameObject("/Form"), resources
    form[NameObject("/BBox")] = ArrayObject(map(NumberObject, (0, 0, 612, 792)))
    resources[NameObject("/XObject")] = DictionaryObject({NameObject("/X1"): writer._add_object(form)})
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


@pytest.mark.parametrize("lines", [_WHITE, _NO_INK, f"{_WITHOUT_A_BOX} {_WHITE}"])
def test_hidden_text_within_a_form_is_left_out_like_that_of_the_page(lines: str) -> None:
    read = _read(_in_a_form(f"BT /F1 12 Tf 72 500 Td (A box says so.) Tj ET {lines}"))

    assert "A box says so." in read.text
    assert "well" not in read.text
    assert [note.code for note in read.notes] == ["hidden"]


def test_white_text_on_a_coloured_box_of_its_form_is_read() -> None:
    read = _read(_in_a_form(f"{_BELOW} {_WHITE}"))

    assert "Say that all is well." in read.text
    assert not read.notes


def test_white_text_in_a_coloured_box_is_read() -> None:
    read = _read(_drawn(f"{_BELOW} {_WHITE}"))

    assert "Say that all is well." in read.text
    assert not read.notes


@pytest.mark.parametrize(
    "bar",
    [
        "q 0 0 0.4 RG 40 w 60 404 m 360 404 l S Q",
        "q 0 0 0.4 RG 10 0 0 40 0 0 cm 1 w 6 10.1 m 36 10.1 l S Q",
        "q 0 0 0.4 rg 60 390 40 40 re f Q",
        "q 0 0 0.4 rg 150 390 90 40 re f Q",
    ],
)
def test_white_text_on_a_thick_line_or_partly_in_a_box_is_read(bar: str) -> None:
    assert "Say that all is well." in _read(_drawn(f"{bar} {_WHITE}")).text


def test_white_text_within_a_thin_frame_is_left_out() -> None:
    assert "well" not in _read(_drawn(f"q 0 0 0.4 RG 60 390 300 40 re S Q {_WHITE}")).text


def test_the_only_text_of_a_page_is_read_though_it_has_no_ink() -> None:
    read = _read(a_drawn_pdf([], lines=f"q 0 g 72 400 5 9 re f 80 400 5 9 re f Q {_NO_INK}"))

    assert read.text == "Say that all is well."
    assert not read.notes


@CI_ONLY
def test_the_text_of_a_scan_is_read() -> None:
    scan = io.BytesIO()
    Image.new("RGB", (612, 792), "white").save(scan, "PDF")
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(scan.getvalue())))
    writer.pages[0].merge_page(PdfReader(io.BytesIO(a_pdf("Read ) Tj 3 Tr (by a machine."))).pages[0])
    out = io.BytesIO()
    writer.write(out)

    assert "by a machine" in _read(out.getvalue()).text


def test_one_page_that_hides_text_casts_doubt_on_all() -> None:
    lines = [f"Line {at} of the report." for at in range(40)]
    some = "\n".join([*lines[:13], "Line ) Tj 1 1 1 rg (and this) Tj 0 g (", *lines[13:]])
    pages = ["\n".join(lines), some, *["\n".join([f"{line}) Tj 1 1 1 rg (and this) Tj 0 g (" for line in lines])] * 2]

    read = _read(a_pdf(*pages))

    assert "and this" not in read.text
    assert [note.message for note in read.notes] == ["text that can't be seen was left out of 3 of 4 pages"]
