import importlib.util
import io
import itertools
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

import pytest
from PIL import Image
from pypdf import PdfReader, PdfWriter
from pypdf.generic import (
    ArrayObject,
    DictionaryObject,
    FloatObject,
    NameObject,
    NumberObject,
    PdfObject,
    StreamObject,
    TextStringObject,
)

from services.ingest_worker.extract import Extraction, Hints, extract, limits
from services.ingest_worker.extract.formats.pdf import _joined, _rejoined, _with_scan, _words
from services.ingest_worker.extract.page_furniture import FOOTNOTE, with_whole_sentences
from shared.errors import Rejected
from tests.loop_holds import least_cpu_s
from tests.unit.services.ingest_worker.files import a_drawn_pdf, a_pdf, locked


def _read(data: bytes) -> Extraction:
    return extract(data, Hints(filename="report.pdf", media_type="application/pdf"))


@pytest.mark.feature(84)
def test_pages_are_kept_by_their_offsets() -> None:
    read = _read(a_pdf("First page,\nsecond line.", "", "Third page.", title="Annual report"))

    assert read.text == "First page,\nsecond line.\n\nThird page."
    assert read.pages == (0, 26, 26)
    assert (read.title, read.document_type, read.notes) == ("Annual report", "pdf", ())


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Microsoft Word - Budget", "Budget"),
        ("Microsoft Word - budget.docx", "report"),
        ("untitled", "report"),
        ("(anonymous)", "report"),
    ],
)
def test_a_title_left_by_a_tool_is_none(title: str, expected: str) -> None:
    assert _read(a_pdf("Text.", title=title)).title == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("a fundamen\ufffetal step", "a fundamental step"),
        ("a fundamen\ufffe\r\ntal step", "a fundamental step"),
        ("third touch\ufffeand-go", "third touch-and-go"),
        ("Motors IO\ufffe470-E", "Motors IO-470-E"),
        ("the 20\ufffeyear term", "the 20-year term"),
        ("Anglo\ufffeSaxon", "Anglo-Saxon"),
        ("at the end\ufffe", "at the end-"),
        ("Ein\ufffe\r\nund Ausgang, long\ufffe\r\nor short-term", "Ein- und Ausgang, long- or short-term"),
        (
            "thou\ufffe\r\nsand Wun\ufffe\r\nder, an ad\ufffe\r\norned St\ufffe\r\nunde",
            "thousand Wunder, an adorned Stunde",
        ),
        ("Tides ....... 7\nLocks . . . . . . . . 9", "Tides … 7\nLocks … 9"),
        ("Gates\n.\n.\n.\n.\n.\n.\n12\nQuays", "Gates … 12\nQuays"),
        ("Name: ........\nDate: ......", "Name: … \nDate: … "),
        (" " * 50_000 + ". . ." + "\r\n" * 50_000, " " * 50_000 + ". . ." + "\r\n" * 50_000),
        ("Well... and then.... 1.2.3.4 ../../a", "Well... and then.... 1.2.3.4 ../../a"),
        ("\ufb01nd the \ufb02oor, x² stays", "find the floor, x² stays"),
    ],
)
def test_broken_words_are_joined_and_ligatures_opened(page: str, expected: str) -> None:
    assert _joined(page) == expected


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ("The external-facing site. An external\ufffe\r\nfacing office.", "An external-facing office."),
        ("The external-facing site. An external-\ufffefacing office.", "An external-facing office."),
        ("A community. The com-\ufffemunity.", "The community."),
        ("For short-term and long-\ufffeterm.", "short-term and long-term."),
        ("A cut-and-dried long-\ufffeand short-term plan.", "A cut-and-dried long- and short-term plan."),
        ("A long-\ufffeand short-term plan.", "A long- and short-term plan."),
    ],
)
def test_how_a_word_is_written_elsewhere_tells_what_its_hyphen_is(page: str, expected: str) -> None:
    assert _joined(page, _words([page])).endswith(expected)


def test_a_locked_pdf_is_refused_as_such() -> None:
    with pytest.raises(Rejected, match=r"^report\.pdf is locked by a password$") as caught:
        _read(locked(a_pdf("Secret."), "s3cret"))

    assert caught.value.code == "password"


def test_an_empty_password_locks_nothing() -> None:
    assert _read(locked(a_pdf("Open."), "")).text == "Open."


@pytest.mark.feature(94)
@pytest.mark.parametrize(("pages", "images"), [(1, "1 page image"), (12, "12 page images")])
def test_a_scan_is_refused_with_the_number_of_its_pages(pages: int, images: str) -> None:
    with pytest.raises(Rejected, match=rf"^report\.pdf holds no text, only {images}$") as caught:
        _read(a_pdf(*[""] * pages))

    assert caught.value.code == "empty"


@pytest.mark.feature(94)
@pytest.mark.parametrize("data", [b"%PDF-1.7\n%%EOF", b"%PDF-1.4\n" + bytes(range(256)) * 8, a_pdf("x" * 500)[:300]])
def test_a_broken_pdf_is_damaged(data: bytes) -> None:
    with pytest.raises(Rejected, match=r"^report\.pdf is damaged: ") as caught:
        _read(data)

    assert caught.value.code == "damaged"


def test_what_pdfium_refuses_pypdf_may_read() -> None:
    headless = a_pdf("Still readable.", title="Rescued").replace(b"%PDF-1.4", b"%XXX-1.4")

    read = _read(headless)

    assert (read.text, read.title, read.pages) == ("Still readable.", "Rescued", (0,))


_PROSE = [(72.0, y, "The tide turns twice a day, and with it the ferry.") for y in (600.0, 585.0, 570.0, 555.0)]


def _sized(*lines: tuple[int, str]) -> str:
    """Return what draws the lines at the top of a page, each in its size."""
    shown = (f"BT /F1 {size} Tf 72 {740 - 17 * at} Td ({text}) Tj ET" for at, (size, text) in enumerate(lines))
    return " ".join(shown)


def test_lines_of_a_script_without_blanks_are_joined_where_they_are_as_long_as_others() -> None:
    long = "納期はご注文から十日以内、有効期限は発行日か"
    page = f"御見積書\n\n株式会社青空 御中\n{long}\nら三十日間といたします。配達は平日に限ります\n。\n\n"
    page += f"{long}\n・{long}\n{long}ます"

    assert _rejoined(page).split("\n") == [
        "御見積書",
        "",
        "株式会社青空 御中",
        f"{long}ら三十日間といたします。配達は平日に限ります。",
        "",
        long,
        f"・{long}",
        f"{long}ます",
    ]


def _with_note(*notes: str, size: int = 7, at: int = 600) -> bytes:
    """Return a page in two columns: below the left one is a note, and the sentence goes on in the right one."""
    left = "".join(f"1 0 0 1 72 {740 - 14 * row} Tm (The tide turns twice a day, and the) Tj " for row in range(8))
    right = "".join(f"1 0 0 1 320 {740 - 14 * row} Tm (ferry leaves with it, at six and noon.) Tj " for row in range(8))
    mark = f"/F1 5 Tf 1 0 0 1 72 {at} Tm 4 Ts (1) Tj 0 Ts /F1 {size} Tf ({notes[0]}) Tj "
    mark += "".join(f"1 0 0 1 72 {at - 9 * row} Tm ({line}) Tj " for row, line in enumerate(notes[1:], 1))
    return a_drawn_pdf([], lines=f"BT /F1 10 Tf {left} {mark} /F1 10 Tf {right} ET")


def test_a_note_at_the_foot_of_a_column_is_at_the_end_of_the_page() -> None:
    lines = _read(_with_note("Of the year before,", "as the keeper says.")).text.split("\n")

    assert lines[7:9] == ["The tide turns twice a day, and the", "ferry leaves with it, at six and noon."]
    assert lines[-2:] == ["^1 Of the year before,", "as the keeper says."]


def test_the_marked_address_of_an_author_is_no_note() -> None:
    assert not _read(_with_note("University of Porto", at=760)).text.endswith("University of Porto")


def test_a_verse_in_letters_as_high_as_others_is_no_note() -> None:
    lines = _read(_with_note("In the beginning", size=10)).text.split("\n")

    assert lines[8:10] == ["1 In the beginning", "ferry leaves with it, at six and noon."]


def test_a_sentence_goes_on_over_the_notes_of_its_page() -> None:
    page = f"The tide turns twice\n{FOOTNOTE}^1 Of the year before,\n{FOOTNOTE}as the keeper says."

    assert with_whole_sentences([page, "a day. It is high."]) == [
        f"The tide turns twice\na day.\n{FOOTNOTE}^1 Of the year before,\n{FOOTNOTE}as the keeper says.",
        "It is high.",
    ]


@pytest.mark.parametrize(("mark", "written"), [("4 Ts (1) Tj 0 Ts", "day.^1"), ("(1) Tj", "day.1")])
def test_a_note_s_number_may_stand_behind_a_full_stop(mark: str, written: str) -> None:
    page = f"BT /F1 10 Tf 72 700 Td (It turns twice a day.) Tj /F1 6 Tf {mark} /F1 10 Tf ( It is high.) Tj ET"

    assert written in _read(a_drawn_pdf([], lines=page)).text


def test_without_an_outline_lines_in_larger_letters_are_headings_by_their_sizes() -> None:
    drawn = _sized((20, "The harbour"), (14, "How the tide"), (14, "turns"), (10, "It turns slowly."))

    lines = _read(a_drawn_pdf(_PROSE, lines=drawn)).text.split("\n\n")

    assert lines[:3] == [
        "# The harbour",
        "## How the tide turns",
        f"It turns slowly.\n{_PROSE[0][2]}\n{_PROSE[0][2]}\n{_PROSE[0][2]}\n{_PROSE[0][2]}",
    ]


def test_a_title_in_the_middle_is_not_the_first_line_of_the_one_below() -> None:
    drawn = "BT /F1 18 Tf 240 740 Td (Traffic report) Tj ET BT /F1 18 Tf 72 712 Td (Overview) Tj ET"

    text = _read(a_drawn_pdf(_PROSE, lines=drawn)).text

    assert text.startswith("# Traffic report\n\n# Overview\n\n")


def test_titles_with_a_line_between_them_are_two() -> None:
    lines = [(16, 740, "Ebb"), (5, 731, "It falls."), (16, 712, "Flood")]
    drawn = " ".join(f"BT /F1 {size} Tf 72 {y} Td ({text}) Tj ET" for size, y, text in lines)

    days = [
        (72, 600 - 14 * day, f"On day {day} the tide turns twice, and the ferry leaves with it.") for day in range(14)
    ]

    for prose in (_PROSE, days):  # usual sizes are known on long pages only
        assert _read(a_drawn_pdf(prose, lines=drawn)).text.startswith("# Ebb\n\nIt falls.\n\n# Flood\n\n")


def test_a_title_that_stands_twice_on_a_page_is_a_heading_twice() -> None:
    assert _read(a_drawn_pdf(_PROSE, lines=_sized((14, "Prices"), (20, "Tickets"), (18, "Prices")))).text.startswith(
        "### Prices\n\n# Tickets\n\n## Prices\n\n"
    )


@pytest.mark.parametrize(
    ("drawn", "prose"),
    [
        pytest.param(_sized((11, "Slightly larger")), 4, id="hardly larger"),
        pytest.param(_sized((14, "The tide turned at noon.")), 4, id="a sentence"),
        pytest.param(_sized((14, "\\225 Open the inlet")), 4, id="an item of a list"),
        pytest.param(_sized((24, "41 %"), (24, "7 of 9")), 4, id="figures"),
        pytest.param(_sized(*[(14, "a remark that is drawn large")] * 4), 8, id="a paragraph"),
        pytest.param(_sized((24, "Fish market"), (30, "Every Friday")), 1, id="a poster"),
    ],
)
def test_what_is_large_and_no_title_is_no_heading(drawn: str, prose: int) -> None:
    lines = [(72.0, 600.0 - 15 * at, f"{at} times a day the tide turns.") for at in range(prose)]

    assert "#" not in _read(a_drawn_pdf(lines, lines=drawn)).text


def _set(lines: Sequence[tuple[str, str]], gaps: Mapping[int, int]) -> bytes:
    """Return a page of lines, each with its font; 15 points below each other, and further where there are gaps."""
    tops = itertools.accumulate((15 + gaps.get(at, 0) for at in range(len(lines))), initial=0)
    shown = (f"BT {font} Tf 72 {740 - top} Td ({text}) Tj ET" for top, (font, text) in zip(tops, lines, strict=False))
    return a_drawn_pdf([], lines=" ".join(shown))


_PLAIN = [("/F1 10", "The tide turns twice a day, and with it the ferry.")] * 4


@pytest.mark.parametrize("title", ["Moorings", "3. Moorings", "Who may moor here?"])
def test_a_bold_line_with_space_above_it_is_a_heading_below_larger_ones(title: str) -> None:
    lines = [("/F1 14", "Harbour"), *_PLAIN, ("/F2 10", "High water"), *_PLAIN, ("/F2 10", title), *_PLAIN]

    text = _read(_set(lines, {4: 9, 5: 3, 9: 9})).text

    assert re.findall("^#.*", text, re.MULTILINE) == ["# Harbour", "## High water", f"## {title}"]


@pytest.mark.parametrize(
    ("bold", "gaps"),
    [
        pytest.param(["High water"], {}, id="no space above it"),
        pytest.param(["High water"], {3: 6, 4: 12}, id="further from the line below it"),
        pytest.param(["High water came at noon."], {3: 9}, id="a sentence"),
        pytest.param(["High water:"], {3: 9}, id="a label"),
        pytest.param(["High water: noon"], {3: 9}, id="a label with its value"),
        pytest.param(["The gauge showed more than", "in the years before"], {3: 9}, id="two lines"),
        pytest.param(["Gauge) Tj 44 0 Td (Height"], {3: 9}, id="names of columns"),
    ],
)
def test_what_is_bold_and_no_title_is_no_heading(bold: Sequence[str], gaps: Mapping[int, int]) -> None:
    assert "#" not in _read(_set([*_PLAIN, *(("/F2 10", line) for line in bold), *_PLAIN], gaps)).text


def test_a_bold_line_whose_sentence_goes_on_below_is_no_heading() -> None:
    lines = [*_PLAIN, ("/F2 10", "This ferry must not be used by"), ("/F1 10", "children under ten years."), *_PLAIN]

    assert "#" not in _read(_set(lines, {3: 9})).text


def test_a_large_line_on_both_of_two_pages_is_no_heading() -> None:
    pages = [[(72.0, 700.0 - 15 * at, f"Line {at} of page {page} goes on.") for at in range(4)] for page in range(2)]

    assert "#" not in _read(a_drawn_pdf(*pages, lines="BT /F1 16 Tf 72 760 Td (Tide tables) Tj ET")).text


def test_a_running_title_in_large_letters_is_no_heading() -> None:
    pages = [[(72.0, 740.0 - 15 * at, f"Line {at} of page {page} goes on.") for at in range(1, 5)] for page in range(5)]

    assert "#" not in _read(a_drawn_pdf(*pages, lines="BT /F1 16 Tf 72 760 Td (Tide tables) Tj ET")).text


def test_what_the_outline_names_becomes_a_heading() -> None:
    plain = a_pdf("1 Ebb\nIt falls.\nOf the\nspring tide\nIt is high.", "Nothing of that name.")
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(plain)))
    first = writer.add_outline_item(title="1  Ebb", page_number=0)
    writer.add_outline_item(title="Of the spring tide", page_number=0, parent=first)
    writer.add_outline_item(title="Elsewhere", page_number=1)
    out = io.BytesIO()
    writer.write(out)

    read = _read(out.getvalue())

    assert read.text == ("# 1 Ebb\n\nIt falls.\n\n## Of the spring tide\n\nIt is high.\n\nNothing of that name.")
    assert read.text[read.pages[1] :] == "Nothing of that name."


def test_dates_and_subject_are_read() -> None:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(a_pdf("Text."))))
    writer.add_metadata({"/Subject": "Of tides", "/CreationDate": "D:20240501103000+02'00'", "/ModDate": "D:2024"})
    out = io.BytesIO()
    writer.write(out)

    read = _read(out.getvalue())

    assert (read.description, read.created, read.modified) == ("Of tides", "2024-05-01T10:30:00", "2024")


def test_a_subject_may_be_longer_than_a_title() -> None:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(a_pdf("Text."))))
    writer.add_metadata({"/Subject": "tides " * 300, "/Title": "tides " * 300})
    out = io.BytesIO()
    writer.write(out)

    read = _read(out.getvalue())

    assert read.description == ("tides " * 300).strip()
    assert len(read.title or "") <= 500


@pytest.fixture
def a_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A second passes at each look at the clock."""
    monkeypatch.setattr(time, "process_time", itertools.count().__next__)
    yield
    limits.begin(math.inf, lambda *_: None)


@pytest.mark.usefixtures("a_clock")
def test_when_time_is_up_the_pages_so_far_are_kept() -> None:
    limits.begin(3.5, lambda *_: None)  # and a tenth for each page

    read = _read(a_pdf("One.", "Two.", "Three.", "Four.", "Five."))

    assert (read.text, *[(each.place, each.message) for each in read.notes]) == (
        "One.\n\nTwo.\n\nThree.",
        ("page 4", "the last 2 of 5 pages were not read within 4 s of CPU time"),
    )


@pytest.mark.usefixtures("a_clock")
def test_when_time_is_up_before_anything_was_read_it_is_a_timeout() -> None:
    limits.begin(0.0, lambda *_: None)

    with pytest.raises(Rejected, match=r"^report\.pdf took longer than 0\.1 s of CPU time to read$") as caught:
        _read(a_pdf("One."))

    assert caught.value.code == "timeout"


def _entries(**entries: PdfObject) -> dict[PdfObject, PdfObject]:
    return {NameObject(f"/{name}"): entry for name, entry in entries.items()}


def _box(*corners: int) -> ArrayObject:
    return ArrayObject(map(FloatObject, corners))


def test_the_language_is_what_the_catalogue_says() -> None:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(a_pdf("Ebbe."))))
    writer.root_object.update(_entries(Lang=TextStringObject("de-AT")))
    out = io.BytesIO()
    writer.write(out)

    assert _read(out.getvalue()).language == "de-AT"
    assert _read(a_pdf("Ebbe.")).language is None


def test_what_is_filled_into_a_form_is_text() -> None:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(a_pdf("Name:"))))
    page = writer.pages[0]
    shown = StreamObject()
    shown.set_data(b"BT /F1 12 Tf 2 5 Td (Ann of Hull) Tj ET")
    shown.update(_entries(Subtype=NameObject("/Form"), BBox=_box(0, 0, 200, 20), Resources=page["/Resources"]))
    field = DictionaryObject(
        _entries(
            Subtype=NameObject("/Widget"),
            FT=NameObject("/Tx"),
            F=NumberObject(4),  # to be printed
            T=TextStringObject("name"),
            Rect=_box(72, 600, 272, 620),
            AP=DictionaryObject(_entries(N=writer._add_object(shown))),
        )
    )
    page[NameObject("/Annots")] = ArrayObject([field])
    writer.root_object.update(_entries(AcroForm=DictionaryObject(_entries(Fields=ArrayObject([field])))))
    out = io.BytesIO()
    writer.write(out)

    assert _read(out.getvalue()).text.split() == ["Name:", "Ann", "of", "Hull"]


def test_a_scan_with_a_stamp_is_an_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    scan = io.BytesIO()
    Image.new("RGB", (612, 792), "white").save(scan, "PDF")
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(scan.getvalue())))
    writer.pages[0].merge_page(PdfReader(io.BytesIO(a_pdf("Exhibit 17"))).pages[0])
    stamped = io.BytesIO()
    writer.write(stamped)

    read = _read(stamped.getvalue())

    assert (read.text, *[(each.place, each.message) for each in read.notes]) == (
        "Exhibit 17",
        ("page 1", "1 of 1 pages are images, readable with the ocr extra: make extras"),
    )


def test_without_the_extra_page_images_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    scan = io.BytesIO()
    Image.new("RGB", (40, 40), "white").save(scan, "PDF")
    writer = PdfWriter()
    for source in (scan.getvalue(), a_pdf("Text.")):
        writer.append(PdfReader(io.BytesIO(source)))
    both = io.BytesIO()
    writer.write(both)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    with pytest.raises(
        Rejected,
        match=r"^report\.pdf holds no text, only 1 page image, readable with the ocr extra: make extras$",
    ):
        _read(scan.getvalue())
    assert [each.code for each in _read(both.getvalue()).notes] == ["picture"]


def _repeated(pages: int) -> bytes:
    """Return a PDF whose tree of pages names one page many times."""
    kids = " ".join(["4 0 R"] * pages)
    return a_pdf("Text.").replace(b"/Kids [4 0 R] /Count 1", f"/Kids [{kids}] /Count {pages}".encode())


def test_more_pages_than_a_record_can_tell_of_are_refused_before_they_are_read() -> None:
    with pytest.raises(Rejected) as refused:
        _read(_repeated(200_000))

    assert refused.value.code == "too_large"
    assert refused.value.sentence == "report.pdf has 200,000 pages, more than the 20,000 that a document may have"


_TABLE = [["Pier", "Depth", "Crane"], ["North", "4.5", ""], ["South", "12", "9"], ["West", "", "3"]]


def _placed(rows: list[list[str]], top: float = 700) -> list[tuple[float, float, str]]:
    return [
        (72 + 80 * column, top - 20 * row, cell)
        for row, cells in enumerate(rows)
        for column, cell in enumerate(cells)
        if cell
    ]


@pytest.mark.parametrize("turn", [0, 90, 180, 270])
def test_a_table_is_read_by_rows_with_its_header_also_on_a_rotated_page(turn: int) -> None:
    read = _read(a_drawn_pdf(_placed(_TABLE, top=400), turn=turn))

    assert read.text.split("\n\n") == [
        "Pier | Depth | Crane",
        "Pier: North; Depth: 4.5",
        "Pier: South; Depth: 12; Crane: 9",
        "Pier: West; Crane: 3",
    ]


@pytest.mark.parametrize("dots", ["", "300 300 2 2 re " * 5_000 + "S "], ids=["alone", "after a drawing"])
@pytest.mark.parametrize("once", [False, True], ids=["boxes", "one path of all boxes"])
def test_drawn_lines_tell_which_words_are_one_cell(once: bool, dots: str) -> None:
    upper = [
        (72, 700, "Pier"),
        (152, 700, "Warden"),
        (232, 700, "Boat"),
        (72, 680, "North"),
        (152, 680, "Petry in May,"),
    ]
    lower = [(152, 668, "Holm in June"), (72, 648, "South"), (152, 648, "Brandt"), (232, 648, "Tern")]
    boxes = [f"{x} {y} 80 {high} re" for x in (70, 150, 230) for y, high in ((694, 18), (664, 30), (644, 20))]

    read = _read(
        a_drawn_pdf(upper + lower, lines=dots + (" ".join(2 * boxes) + " S" if once else " S ".join([*boxes, ""])))
    )

    assert read.text.split("\n\n")[1:] == [
        "Pier: North; Warden: Petry in May, Holm in June",
        "Pier: South; Warden: Brandt; Boat: Tern",
    ]


def test_a_table_over_two_pages_is_one() -> None:
    rest = [["East", "7", "2"], ["Quay", "8", "1"], ["Dock", "9", "5"]]

    read = _read(a_drawn_pdf(_placed(_TABLE), _placed(rest)))

    assert read.text[read.pages[1] :].split("\n\n")[0] == "Pier: East; Depth: 7; Crane: 2"


def test_marks_of_a_list_that_are_drawn_behind_its_text_stand_before_it() -> None:
    items = [
        (92, 700 - 20 * at, text) for at, text in enumerate(("Fill the tank:", "diesel for the engine", "Call us."))
    ]
    marks = [(76, 700 - 20 * at, mark) for at, mark in enumerate(("1.", "o", "2."))]

    assert _read(a_drawn_pdf([*items, (72, 600, "The end.")])).text.startswith("Fill the tank:\ndiesel")
    assert _read(a_drawn_pdf([*items, (72, 640, "The end."), *marks])).text.startswith("Fill the tank:\ndiesel")
    marks[1] = (76, 680, "7.")
    assert _read(a_drawn_pdf([*items, (72, 640, "The end."), *marks])).text.split("\n") == [
        "1. Fill the tank:",
        "7. diesel for the engine",
        "2. Call us.",
        "The end.",
    ]


def test_running_lines_are_left_out_and_sentences_go_on_over_page_breaks() -> None:
    boats = ["Tern", "Skua", "Gull", "Rook", "Auk"]
    pages = [
        f"Harbour of Skerrow\nnumber {7 * at}. The {boat} is of wood.\n"
        f"In week {at} damage was done to the boat with the\nQuay Street Page {at + 1} of 5"
        for at, boat in enumerate(boats)
    ]

    read = _read(a_pdf(*pages))

    assert "In week 2 damage was done to the boat with the\nnumber 21." in read.text
    assert read.text.count("Harbour of Skerrow") == read.text.count("Quay Street") == 1


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("0000320193-23-000077", "Of boats – Harbour of Skerrow – report"),
        ("Microsoft Word - untitled", "Of boats – Harbour of Skerrow – report"),
        ("Boats of Skerrow", "Boats of Skerrow"),
    ],
)
def test_a_machines_title_gives_way_to_the_headline(title: str, expected: str) -> None:
    pages = [
        [(72, 760, "Harbour of Skerrow"), *((72, 700 - 12 * at, f"Line {n}{at}.") for at in range(9))] for n in "abcd"
    ]
    plain = a_drawn_pdf(*pages, lines="BT /F1 24 Tf 72 720 Td (Of boats) Tj ET")
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(plain)))
    writer.add_metadata({"/Title": title})
    out = io.BytesIO()
    writer.write(out)

    assert _read(out.getvalue()).title == expected


def _annotated(**entries: PdfObject) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(a_drawn_pdf([(72, 700, "Nuts"), (72, 650, "Fish")]))))
    page = writer.pages[0]
    page[NameObject("/Annots")] = ArrayObject([DictionaryObject(_entries(Rect=_box(120, 698, 220, 710), **entries))])
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


@pytest.mark.parametrize(("state", "said"), [("/Yes", "checked"), ("/Off", "not checked")])
def test_the_state_of_a_check_box_stands_beside_its_label(state: str, said: str) -> None:
    data = _annotated(Subtype=NameObject("/Widget"), FT=NameObject("/Btn"), AS=NameObject(state))

    assert _read(data).text == f"Nuts {said}\nFish"


def test_a_note_that_the_page_shows_is_read() -> None:
    data = _annotated(Subtype=NameObject("/FreeText"), Contents=TextStringObject("none left"))

    assert _read(data).text == "Nuts none left\nFish"


def test_embedded_files_are_read_as_attachments() -> None:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(a_pdf("See the list."))))
    writer.add_attachment("boats.csv", b"Boat,Tons\nTern,4\nSkua,5\n")
    writer.add_attachment("noise.bin", bytes(range(256)) * 9)
    out = io.BytesIO()
    writer.write(out)

    read = _read(out.getvalue())

    assert read.text.startswith("See the list.\n\n# boats.csv\n\n")
    assert "Boat: Tern; Tons: 4" in read.text
    assert [(note.code, note.place) for note in read.notes] == [("unsupported", "noise.bin")]


def test_a_page_with_a_scan_keeps_its_text_and_gets_other_lines() -> None:
    text = "The tariff of the ferry company is valid from May on. " * 4

    assert _with_scan("Exhibit 17", "Bicycle 3.20 euros") == "Bicycle 3.20 euros"
    assert _with_scan(text, "The tarif of the ferry company\nBicycle 3.20") == f"{text}\nBicycle 3.20"


def _in_its_own_font(data: bytes) -> bytes:
    """Return the pages in a font that doesn't tell its letters, and a page with text that says what it is."""
    descendant = (
        "<< /Type /Font /Subtype /CIDFontType2 /BaseFont /Own /CIDSystemInfo << /Registry (Adobe) /Ordering (Identity) "
        "/Supplement 0 >> /FontDescriptor << /Type /FontDescriptor /FontName /Own /Flags 4 /ItalicAngle 0 /Ascent 800 "
        "/Descent -200 /CapHeight 700 /StemV 80 /FontBBox [0 0 1000 1000] >> >>"
    )
    named = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>"
    own = f"<< /Type /Font /Subtype /Type0 /BaseFont /Own /Encoding /Identity-H /DescendantFonts [{descendant}] >>"
    both_fonts = data.replace(named.encode(), own.encode()).replace(b"/F1 3 0 R", f"/F1 3 0 R /F2 {named}".encode())
    both = PdfWriter(clone_from=PdfReader(io.BytesIO(both_fonts)))
    both.append(PdfReader(io.BytesIO(a_pdf("Text."))))
    out = io.BytesIO()
    both.write(out)
    return out.getvalue()


@pytest.mark.parametrize("hidden", [False, True])
def test_letters_whose_font_does_not_tell_what_they_are_are_left_out(
    hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    box = "300 300 9 9 re f "
    lines = f"{box} BT /F2 10 Tf 1 g 72 600 Td (Of masts) Tj 0 g ET {box * 28}"  # a look passes over the second piece
    page = [(72, 700, "Of boats and of masts in the harbour.")]
    data = a_drawn_pdf(*[page] * 4, lines=lines) if hidden else a_pdf("Of boats and of masts in the harbour.")

    read = _read(_in_its_own_font(data))

    assert read.text == "Text."
    assert [note.code for note in read.notes] == (["hidden", "font"] if hidden else ["font"])


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("https://forms.example.org/leave", "Take the form (https://forms.example.org/leave) today."),
        ("https://www.form/", "Take the form today."),  # it says so itself
        ("javascript:go()", "Take the form today."),
    ],
)
def test_addresses_of_links_stand_behind_their_words(address: str, shown: str) -> None:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(a_drawn_pdf([(72, 700, "Take the form today.")]))))
    link = {
        "/Type": NameObject("/Annot"),
        "/Subtype": NameObject("/Link"),
        "/Rect": ArrayObject([FloatObject(each) for each in (112, 698, 133, 710)]),
        "/A": DictionaryObject({NameObject("/S"): NameObject("/URI"), NameObject("/URI"): TextStringObject(address)}),
    }
    writer.add_annotation(0, {NameObject(name): value for name, value in link.items()})
    out = io.BytesIO()
    writer.write(out)

    assert _read(out.getvalue()).text == shown


def test_a_smaller_number_is_a_mark() -> None:
    page = "BT /F1 11 Tf 72 700 Td (Built in 1822) Tj /F1 6 Tf 4 Ts (1) Tj /F1 11 Tf 0 Ts (, it stands.) Tj ET"

    assert "1822^1" in _read(a_drawn_pdf([], lines=page)).text


@pytest.mark.parametrize(
    ("rise", "written"), [("4 Ts (1) Tj 0 Ts ( and) Tj", "twice^1 and"), ("(1) Tj ( and) Tj", "twice1 and")]
)
def test_a_raised_digit_of_the_same_size_is_a_mark(rise: str, written: str) -> None:
    page = f"BT /F1 11 Tf 72 700 Td (It was built twice) Tj {rise} ET BT /F1 6 Tf 72 600 Td (A ledger says so.) Tj ET"

    assert written in _read(a_drawn_pdf([], lines=page)).text
    assert "^" not in _read(a_drawn_pdf([], lines=page, turn=90)).text or "^" in written


@pytest.mark.parametrize("before", [0, 4])
def test_words_that_stand_a_little_apart_have_blanks_between_them(before: int) -> None:
    others = [[(72, 700, f"{name} sells houses.")] for name in "ABCD"[:before]]
    words = (("Real", 20.6), ("Estate", 28.4), ("of", 8.3), ("our", 14.5), ("state", 21.7), ("today", 0.0))
    starts = itertools.accumulate((width + 1.6 for _, width in words), initial=72.0)

    page = [(start, 700, word) for start, (word, _) in zip(starts, words, strict=False)]

    assert _read(a_drawn_pdf(*others, page)).text.split("\n\n")[before:] == ["Real Estate of our state today"]


@pytest.mark.parametrize(
    ("shown", "written"),
    [
        ("[(T) -300 (O) -300 (W) -300 (N) -900 (H) -300 (A) -300 (L) -300 (L)] TJ", "TOWN HALL"),
        # Letters that stand for themselves.
        ("(Boats a b c d and e) Tj", "Boats a b c d and e"),
        ("[(A) -900 (B) -900 (C) -900 (D)] TJ", "A B C D"),
        ("[(A) -300 (B) -300 (C)] TJ", "A B C"),
    ],
)
def test_letters_that_are_set_apart_are_words(shown: str, written: str) -> None:
    page = f"BT /F1 20 Tf 72 700 Td {shown} ET BT /F1 10 Tf 72 600 Td (The hall is of oak.) Tj ET"

    assert _read(a_drawn_pdf([], lines=page)).text.split("\n")[0] == written


def test_letters_that_pdfium_counts_twice_move_no_others() -> None:
    """Before, a page with a letter of an equation had no tables, columns, marks or addresses."""
    letter = b"1 beginbfchar <7E> <D835DC65> endbfchar"
    cmap = b"begincmap 1 begincodespacerange <00> <FF> endcodespacerange " + letter + b" endcmap"
    data = a_drawn_pdf([(72, 740, "The depth ~ is told."), *_placed(_TABLE)])
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
    stream = StreamObject()
    stream.set_data(cmap)
    fonts = writer.pages[0]["/Resources"]["/Font"]  # type: ignore[index]
    fonts["/F1"][NameObject("/ToUnicode")] = writer._add_object(stream)
    out = io.BytesIO()
    writer.write(out)

    assert _read(out.getvalue()).text.split("\n\n")[:3] == [
        "The depth \U0001d465 is told.",
        "Pier | Depth | Crane",
        "Pier: North; Depth: 4.5",
    ]


def test_a_page_whose_only_text_was_hidden_is_an_image_also_when_that_shows_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    text = "BT /F1 12 Tf 1 1 1 rg 72 {} Td (and this) Tj ET".format
    image = "q 5 0 0 5 300 {} cm BI /W 1 /H 1 /BPC 8 /CS /G ID 0 EI Q".format
    layer = " ".join(text(700 - 9 * at) if at % 5 else image(700 - 9 * at) for at in range(24))  # a look sees images

    read = _read(a_pdf(f") Tj ET {layer} BT (", "Quay.", "Mole) Tj 1 1 1 rg (and this", "Pier."))

    assert read.text == "Quay.\n\nMole\n\nPier."
    assert [(note.code, note.place) for note in read.notes] == [("hidden", "page 1"), ("picture", "page 1")]


_CODE = ["server {", "    listen 80;", "    location / {", "        root /srv;", "    }", "}", "done", "as before"]


@pytest.mark.parametrize("font", ["Courier", "Helvetica"])
@pytest.mark.parametrize("beside", ["", "7"], ids=["alone", "beside figures"])
def test_lines_in_letters_of_one_width_keep_their_indents(font: str, beside: str) -> None:
    lines = [
        (72.0 + 6 * (len(line) - len(line.lstrip())), 600.0 - 14 * at, line.strip()) for at, line in enumerate(_CODE)
    ]
    figures = [(left, 700.0 - 14 * at, beside) for at in range(4) for left in (72.0, 172.0, 272.0) if beside]
    drawn = a_drawn_pdf([*figures, *lines]).replace(b"/BaseFont /Helvetica", f"/BaseFont /{font}".encode())

    shown = _read(drawn).text.split("\n")[-len(_CODE) :]

    assert shown == (_CODE if font == "Courier" else [line.strip() for line in _CODE])


def test_a_table_in_letters_of_one_width_beside_code_keeps_its_header() -> None:
    rows = [("Line:", "Jul", "Aug"), ("Red", "41", "43"), ("Blue", "39", "40"), ("Total:", "80", "83")]
    cells = [
        (72.0 + 12 * (row > 0) + 90 * at, 600.0 - 14 * row, cell)
        for row, each in enumerate(rows)
        for at, cell in enumerate(each)
    ]
    drawn = a_drawn_pdf([*cells, (72.0, 500.0, "Seen by:"), (72.0, 486.0, "The harbour master")])

    text = _read(drawn.replace(b"Helvetica", b"Courier")).text

    assert "Line: Red; Jul: 41; Aug: 43" in text


def test_a_line_of_code_that_is_said_to_be_far_away_gets_no_blanks() -> None:
    drawn = a_drawn_pdf([(72.0, 700.0, "server {"), (72.0, 686.0, "listen {"), (90_000.0, 672.0, "root {")])

    assert len(_read(drawn.replace(b"Helvetica", b"Courier")).text) < 100


_MEANS = {
    **{letter: f"{0x5D0 + at:04X}" for at, letter in enumerate("ABCDEF")},
    "X": "06440623",
    "Y": "0639",
    "N": "05B8",
    "Z": "0020002E",
}


def _meaning(drawn: bytes) -> bytes:
    """Return the PDF; its font says that capitals are Hebrew and Arabic letters."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(drawn)))
    meanings = "".join(f"<{ord(letter):02X}> <{means}>\n" for letter, means in _MEANS.items())
    codes = StreamObject()
    codes.set_data(
        b"begincmap 1 begincodespacerange <00> <FF> endcodespacerange\n"
        + f"{len(_MEANS)} beginbfchar\n{meanings}endbfchar endcmap".encode()
    )
    resources = cast("DictionaryObject", writer.pages[0]["/Resources"])
    font = cast("DictionaryObject", cast("DictionaryObject", resources["/Font"])["/F1"])
    font[NameObject("/ToUnicode")] = writer._add_object(codes)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def test_a_blank_and_a_sign_in_one_glyph_are_the_sign() -> None:
    assert _read(_meaning(a_drawn_pdf([(72, 700, "table 1Z4 of ships")]))).text == "table 1.4 of ships"


@pytest.mark.parametrize(
    ("drawn", "read"),
    [
        pytest.param("The museum \\(CBA\\) opens at 9.", "The museum (אבג) opens at 9.", id="a word in English"),
        pytest.param("a@b.example FEDCBA DCBA", "אבגד אבגדהו a@b.example", id="an address in Hebrew"),
        pytest.param("big blue sea FEDCBAFEDCBA", "אבגדהואבגדהו big blue sea", id="a name in Hebrew"),
        pytest.param("FED CBA.", "אבג דהו.", id="a line set as if it were read from the left"),
    ],
)
def test_lines_in_two_directions_are_read_in_order(drawn: str, read: str) -> None:
    assert _read(_meaning(a_drawn_pdf([(72, 700, drawn)]))).text == read


def test_a_table_in_hebrew_has_its_rows_from_right_to_left() -> None:
    rows = [
        [(440, "CBA"), (330, "FED"), (200, "FDB")],
        [(400, "big sea FE"), (330, "12"), (200, "1,250.50")],
        [(440, "DCB"), (330, "7"), (200, "90.00")],
        [(440, "AFE"), (330, "30"), (200, "85.00")],
    ]
    drawn = [(x, 700 - 20 * at, cell) for at, row in enumerate(rows) for x, cell in row]

    read = _read(_meaning(a_drawn_pdf([(380, 740, "FEDCBA CBA"), *drawn])))

    assert read.text.split("\n\n") == [
        "אבג אבגדהו",
        "אבג | דהו | בדו",
        "אבג: הו big sea; דהו: 12; בדו: 1,250.50",
        "אבג: בגד; דהו: 7; בדו: 90.00",
        "אבג: הוא; דהו: 30; בדו: 85.00",
    ]


def test_a_table_in_english_may_have_cells_in_hebrew() -> None:
    rows = [("item", "name", "price"), ("oil", "CBA FED", "48.00"), ("sugar", "FE", "7.50"), ("salt", "BA", "3.00")]
    drawn = [(72 + 130 * side, 700 - 20 * at, cell) for at, row in enumerate(rows) for side, cell in enumerate(row)]

    read = _read(_meaning(a_drawn_pdf([(72, 740, "these are the goods of the month"), *drawn])))

    assert "item: oil; name: דהו אבג; price: 48.00" in read.text


@pytest.mark.parametrize("gaps", [(6.1, 3, 6.1), (9, 9, 9)], ids=["a typewriter's", "of a justified line"])
def test_words_of_an_english_line_on_a_page_in_hebrew_stay_in_order(gaps: Sequence[float]) -> None:
    lefts = itertools.accumulate((gap + 11.12 for gap in gaps), initial=72.0)
    line = [(left, 680, word) for left, word in zip(lefts, ("an", "on", "no", "go"), strict=True)]
    columns = [(at, 640 - 20 * row, "FEDCBA CBA") for row in range(4) for at in (200, 440)]

    text = _read(_meaning(a_drawn_pdf([(380, 740, "FEDCBA CBA"), *line, *columns]))).text

    assert text.splitlines()[1] == "an on no go"


def test_letters_with_higher_boxes_around_their_line_are_read_in_order() -> None:
    line = "BT /F1 10 Tf 72 700 Td (A) Tj 12 0 Td (B) Tj 12 0 Td /F1 28 Tf (C) Tj ET"

    assert _read(_meaning(a_drawn_pdf([], lines=line))).text == "ג ב א"


def test_the_letters_of_one_glyph_stay_in_order() -> None:
    assert _read(_meaning(a_drawn_pdf([(72, 700, "YXY")]))).text == "علأع"


def test_text_that_cannot_be_seen_is_left_out_wherever_it_stands_on_whichever_page() -> None:
    lines = [f"Line {at} of the report." for at in range(40)]
    some = "\n".join([*lines[:12], "Line ) Tj 1 1 1 rg (and this) Tj 0 g (", *lines[12:]])

    read = _read(a_pdf("Line", "Line", "Line", some, some))

    assert "and this" not in read.text
    assert [note.message for note in read.notes] == ["text that can't be seen was left out of 2 of 5 pages"]


@pytest.mark.parametrize(
    "drawn",
    [
        pytest.param(
            lambda count: [(10 + 6 * at % 54, 9_000 - 9 * at, "if ready {") for at in range(count)], id="code"
        ),
        pytest.param(
            lambda count: [(10, 9_000 - 9 * at, "AB \\(C\\) word 12%") for at in range(count)], id="two directions"
        ),
        pytest.param(lambda count: [(10, 700, "AN" * count)], id="letters with marks"),
        pytest.param(lambda count: [(10, 9e5 - 20 * at, f"Title {at} of all") for at in range(count)], id="titles"),
    ],
)
def test_the_time_of_a_page_grows_with_its_letters_alone(
    drawn: Callable[[int], list[tuple[float, float, str]]],
) -> None:
    def spent(count: int, limit_s: float) -> float:
        page = _meaning(a_drawn_pdf(drawn(count)).replace(b"Helvetica", b"Courier"))
        return least_cpu_s(lambda: _read(page), limit_s)

    limit = 16 * max(spent(1_000, 0), 0.02)
    assert spent(8_000, limit) <= limit


@pytest.mark.parametrize(
    ("drawn", "written"),
    [
        # As TeX draws them: the sign first, and the letter below it.
        ("[(Stra\\337enb\\250) 335 (aume)] TJ", "Straßenbäume"),
        ("[(Caf) (\\264) 445 (e)] TJ", "Café"),
        ("[(gar) (\\270) 390 (con)] TJ", "garçon"),
        # A sign that stands beside a letter is none of it.
        ("(don\\264t and 5\\250) Tj", "don´t and 5¨"),
    ],
)
def test_an_accent_drawn_over_a_letter_is_part_of_it(drawn: str, written: str) -> None:
    page = f"BT /F1 20 Tf 72 700 Td {drawn} ET BT /F1 10 Tf 72 600 Td (The hall is of oak.) Tj ET"

    assert _read(a_drawn_pdf([], lines=page)).text.split("\n")[0].removeprefix("# ") == written


def test_an_index_or_exponent_ends_no_line() -> None:
    page = (
        "BT /F1 12 Tf 72 700 Td (Water dissolves CO) Tj ET"
        " BT /F1 7 Tf 174.5 697 Td (2) Tj ET BT /F1 12 Tf 178.6 700 Td (, which lime takes up.) Tj ET"
        " BT /F1 12 Tf 72 686 Td (It covers 12 m) Tj ET BT /F1 7 Tf 146.5 691 Td (2) Tj ET"
        " BT /F1 12 Tf 154 686 Td (of floor.) Tj ET"
    )

    text = _read(a_drawn_pdf([], lines=page)).text

    assert text.split("\n") == ["Water dissolves CO2, which lime takes up.", "It covers 12 m^2 of floor."]


@pytest.mark.parametrize(
    ("large", "small", "raised", "written"),
    [("12", "49", 4, "12^49"), ("H", "2", -1, "H2"), ("1", "st", 4, "1st"), ("7", "Chapter", 4, "7 Chapter")],
)
def test_what_is_smaller_behind_figures_is_no_part_of_them(large: str, small: str, raised: int, written: str) -> None:
    width = 6.67 * len(large) if large.isdigit() else 8.67
    drawn = f"BT /F1 12 Tf 72 700 Td ({large}) Tj ET BT /F1 7 Tf {72 + width + 0.4} {700 + raised} Td ({small}) Tj ET"

    text = _read(a_drawn_pdf([(72, 600, "The hall is of oak.")], lines=drawn)).text

    assert text.split("\n")[0].removeprefix("# ") == written
