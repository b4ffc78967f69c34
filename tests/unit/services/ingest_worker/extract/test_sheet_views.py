import pytest

from services.ingest_worker.extract import Extraction, Hints, extract
from tests.unit.services.ingest_worker.files import a_zip, an_xlsx, parts_of


def _read(data: bytes) -> Extraction:
    return extract(data, Hints(filename="book.xlsx"))


_STYLES = """<styleSheet xmlns="{0}/spreadsheetml/2006/main"><numFmts><numFmt numFmtId="170" formatCode="0.0%"/>
 <numFmt numFmtId="171" formatCode="&quot;Nr. &quot;0000"/></numFmts><cellXfs><xf numFmtId="0"/><xf numFmtId="170"/>
 <xf numFmtId="171"/><xf numFmtId="14"/><xf numFmtId="20"/></cellXfs></styleSheet>"""
_OFFICE = "http://schemas.openxmlformats.org"


def _sheet(rows: str, before: str = "", after: str = "") -> bytes:
    """Return a workbook of one sheet, with styles 1 (0.0%), 2 (Nr. 0000), 3 (a date) and 4 (a time)."""
    main, relations = f"{_OFFICE}/spreadsheetml/2006/main", f"{_OFFICE}/officeDocument/2006/relationships"
    parts = parts_of(an_xlsx(Ducks=[["x"]]))
    link = f'<Relationship Id="y" Type="{relations}/styles" Target="styles.xml"/></Relationships>'
    listed = parts["xl/_rels/workbook.xml.rels"].decode().replace("</Relationships>", link)
    sheet = f'<worksheet xmlns="{main}">{before}<sheetData>{rows}</sheetData>{after}</worksheet>'
    styles = _STYLES.format(_OFFICE)
    return a_zip(parts | {"xl/styles.xml": styles, "xl/_rels/workbook.xml.rels": listed, "xl/sheet1.xml": sheet})


def _line(number: int, *cells: str | float, about: str = "", style: int = 0) -> str:
    made = "".join(
        f'<c r="{chr(65 + at)}{number}" t="inlineStr"><is><t>{cell}</t></is></c>'
        if isinstance(cell, str)
        else f'<c r="{chr(65 + at)}{number}" s="{style}"><v>{cell}</v></c>'
        for at, cell in enumerate(cells)
        if cell
    )
    return f'<row r="{number}" {about}>{made}</row>'


def _notes(read: Extraction) -> list[tuple[str, str]]:
    return [(each.code, each.message) for each in read.notes]


@pytest.mark.parametrize(("style", "shown"), [(0, "0.375"), (1, "37.5%"), (2, "Nr. 0000.375"), (4, "09:00")])
def test_a_number_is_shown_as_its_cell_says(style: int, shown: str) -> None:
    rows = _line(3, "Quay", "Share") + _line(4, "North", 0.375, style=style) + _line(5, "South", 0.375, style=style)

    assert _read(_sheet(rows)).text.endswith(f"Quay: North; Share: {shown}\n\nQuay: South; Share: {shown}")


def test_hidden_rows_and_columns_are_left_out_with_a_note() -> None:
    rows = (
        _line(2, "", "Quay", "Wage", "Days")
        + _line(3, "", "North", 900.0, 3.0)
        + _line(4, "", "Secret", 800.0, 4.0, about='hidden="1"')
        + _line(5, "", "South", 700.0, 5.0)
        + '<row r="6" hidden="1"/>'
    )
    columns = '<cols><col hidden="1" min="3" max="3"/><col min="9" max="16384" hidden="1"/></cols>'

    read = _read(_sheet(rows, columns))

    assert read.text == "# Ducks\n\nQuay | Days\n\nQuay: North; Days: 3\n\nQuay: South; Days: 5"
    assert _notes(read) == [("hidden", "1 hidden row and 1 hidden column of the sheet Ducks were left out")]


def test_what_a_filter_or_a_folded_group_hides_is_read() -> None:
    rows = (
        _line(1, "Quay", "Days")
        + _line(2, "North", 3.0, about='hidden="1"')
        + _line(3, "South", 5.0)
        + _line(4, "East", 7.0, about='hidden="1" outlineLevel="1"')
    )
    columns = '<cols><col min="2" max="2" outlineLevel="1" hidden="1" collapsed="1"/></cols>'

    read = _read(_sheet(rows, columns, '<autoFilter ref="A1:B3"><filterColumn colId="0"/></autoFilter>'))

    assert [line for line in ("North", "South", "East") if f"Quay: {line}; Days:" in read.text] == [
        "North",
        "South",
        "East",
    ]
    assert _notes(read) == []


def test_formulas_without_a_value_are_noted() -> None:
    cells = (
        '<c r="B2"><f>A1*2</f></c><c r="C2"><f>A1*3</f><v></v></c><c r="D2"><f t="shared" si="0"/><v/></c>'
        '<c r="E2"><f>1+1</f><v>2</v></c><c r="F2" t="str"><f>""</f><v></v></c>'
    )

    [note] = _read(_sheet(_line(1, "Quay") + f'<row r="2">{cells}</row>')).notes

    assert (note.code, note.place) == ("formula", "Ducks")
    assert note.message.startswith("3 formulas of the sheet Ducks")


@pytest.mark.parametrize("formula", ["", "<f>1/0</f>", '<f t="shared" si="0"/>', "<f>IF(A1&gt;2,1,NA())</f>"])
@pytest.mark.parametrize("error", ["#N/A", "#DIV/0!", "#NAME?"])
def test_a_value_that_is_an_error_is_shown(formula: str, error: str) -> None:
    failed = f'<c r="B3" s="1" t="e">{formula}<v>{error}</v></c>'
    south = f'<row r="3"><c r="A3" t="inlineStr"><is><t>South</t></is></c>{failed}</row>'
    rows = _line(1, "Quay", "Depth") + _line(2, "North", 4.5, style=1) + south + _line(4, "West", 0.125, style=1)

    assert _read(_sheet(rows)).text.split("\n\n")[-2:] == [f"Quay: South; Depth: {error}", "Quay: West; Depth: 12.5%"]


def test_a_sheet_with_an_error_that_only_some_programs_write_is_read() -> None:
    rows = _line(1, "Quay", "Depth") + _line(2, "North", 4.5)
    rows += '<row r="3"><c r="A3" t="inlineStr"><is><t>South</t></is></c><c r="B3" t="e"><v>#ERROR!</v></c></row>'
    rows += '<row r="4"><c r="A4" t="inlineStr"><is><t>West</t></is></c><c r="B4" t="e"><v>#N/A</v></c></row>'

    read = _read(_sheet(rows))

    assert read.text.split("\n\n")[-2:] == ["Quay: South; Depth: #ERROR!", "Quay: West; Depth: #N/A"]
    assert read.notes == ()


def test_a_link_that_declares_its_own_namespace_is_one() -> None:
    kind = f"{_OFFICE}/officeDocument/2006/relationships"
    link = f'<hyperlinks><hyperlink xmlns:r="{kind}" ref="A1" r:id="rId1"/></hyperlinks>'  # as openpyxl writes it
    target = f'<Relationship Id="rId1" Type="{kind}/hyperlink" Target="https://e.org/s" TargetMode="External"/>'
    rels = f'<Relationships xmlns="{_OFFICE}/package/2006/relationships">{target}</Relationships>'
    book = _sheet(_line(1, "Docs"), after=link)

    read = _read(a_zip(parts_of(book) | {"xl/_rels/sheet1.xml.rels": rels}))

    assert "[Docs](https://e.org/s)" in read.text


@pytest.mark.parametrize("tag", ["f", 'f aca="false"'])
@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ('"https://e.org/a.pdf","Docs"', "[Docs](https://e.org/a.pdf)"),
        ('"https://e.org/a.pdf" ; "Docs"', "[Docs](https://e.org/a.pdf)"),
        ('"https://e.org/a?x=1&amp;y=2","Docs"', "[Docs](https://e.org/a?x=1&y=2)"),
        ('"https://e.org/"&amp;A5,"Docs"', "Docs"),  # computed
    ],
)
def test_a_formula_that_links_has_its_address(tag: str, asked: str, shown: str) -> None:
    cell = f'<c r="B2" t="str"><{tag}>HYPERLINK({asked})</f><v>Docs</v></c>'
    row = f'<row r="2"><c r="A2" t="inlineStr"><is><t>North</t></is></c>{cell}</row>'

    assert _read(_sheet(_line(1, "Quay", "File") + row)).text.split("\n\n")[-1] == f"Quay: North; File: {shown}"


_CREW = [["Duty", "Bosun", "Deck"], ["Cook", "Anna", "Lower"], ["Guard", "Olof", "Upper"], ["Cleaner", "Mia", "Middle"]]
_PANE = '<sheetViews><sheetView><pane ySplit="{}" topLeftCell="A2" state="frozen"/></sheetView></sheetViews>'


@pytest.mark.parametrize(
    ("above", "before", "after", "headed"),
    [
        ([], "", "", False),
        ([], "", '<autoFilter ref="A1:C4"/>', True),
        ([["Roster"]], "", '<autoFilter ref="A2:C5"/>', True),
        ([], _PANE.format(1), "", True),
        ([["Roster"]], _PANE.format(1), "", False),  # a title stays where one scrolls
        ([], _PANE.format(1).replace("frozen", "split"), "", False),
        ([], _PANE.format(2), "", False),  # so does the first row of values
        ([["Ship:", "Auk"]], _PANE.format(1), "", False),  # so does a form
    ],
)
def test_a_row_that_a_filter_or_a_frozen_pane_marks_is_the_header(
    above: list[list[str]], before: str, after: str, headed: bool
) -> None:
    rows = "".join(_line(at, *cells) for at, cells in enumerate([*above, *_CREW], 1))

    text = _read(_sheet(rows, before, after)).text

    assert ("Duty: Guard; Bosun: Olof; Deck: Upper" in text) is headed
    assert ("Guard | Olof | Upper" in text) is not headed


_STOCK: list[list[str | float]] = [["Item", "Qty", "Price"], ["Rope", 3.0, 4.0], ["Oar", 2.0, 6.0], ["Sail", 1.0, 9.0]]
_DEALT: list[list[str | float]] = [["Quay", "Oulu", "", "Kemi", ""], ["", "in", "out", "in", "out"]]
_TRIPS: list[list[str | float]] = [["East", 1.0, 2.0, 3.0, 4.0], ["West", 5.0, 6.0, 7.0, 8.0]]
_SHIP: list[list[str | float]] = [["Name", "Auk"], ["Length", "34 m"], ["Owner", "Berg AS"], ["Built", "1998"]]
_BESIDE: list[list[str | float]] = [
    ["Duty", "Bosun", "Deck", "", ""],
    ["Cook", "Anna", "Lower", "Sail", "Kept"],
    ["Guard", "Olof", "Upper", "Jib", "Aft"],
]
_MERGED = '<mergeCells><mergeCell ref="A1:A2"/><mergeCell ref="B1:C1"/><mergeCell ref="D1:E1"/></mergeCells>'
_WORDS: list[list[str | float]] = [["Cook", "Anna", "Olof", "Mia", "Per"], ["Guard", "Ole", "Gro", "Bo", "Kai"]]


@pytest.mark.parametrize(
    ("rows", "before", "after", "shown"),
    [
        ([["Home", "Back"], *_STOCK], _PANE.format(1), "", "Item: Oar; Qty: 2; Price: 6"),  # a menu
        ([["Stock", "", "May"], *_STOCK], _PANE.format(1), "", "Item: Oar; Qty: 2; Price: 6"),  # a title and a date
        ([*_DEALT, *_TRIPS], _PANE.format(1), "", "Quay: West; Oulu in: 5; Oulu out: 6; Kemi in: 7; Kemi out: 8"),
        ([*_DEALT, *_WORDS], "", f'<autoFilter ref="A1:E4"/>{_MERGED}', "Quay: Guard; Oulu in: Ole; Oulu out: Gro;"),
        (_SHIP, _PANE.format(1), "", "Owner | Berg AS"),
        (_BESIDE, "", '<autoFilter ref="D2:E3"/>', "Guard | Olof | Upper | Jib | Aft"),
    ],
)
def test_a_mark_is_no_header_where_one_is_seen_in_it_or_below_or_it_is_of_a_part(
    rows: list[list[str | float]], before: str, after: str, shown: str
) -> None:
    lines = "".join(_line(at, *cells) for at, cells in enumerate(rows, 1))

    assert shown in _read(_sheet(lines, before, after)).text


def test_figures_shown_with_words_in_a_frozen_row_are_no_names() -> None:
    rows = _line(1, "Sail", 5.0, style=2) + _line(2, "Jib", 7.0, style=2) + _line(3, "Flag", 9.0, style=2)

    assert "Jib | Nr. 0007" in _read(_sheet(rows, _PANE.format(1))).text


def test_sums_in_a_frozen_row_are_no_names_and_a_filter_below_groups_keeps_them() -> None:
    sums: list[list[str | float]] = [
        ["Quay", "Oulu", "Kemi"],
        ["all", 7.0, 9.0],
        ["East", 3.0, 4.0],
        ["West", 4.0, 5.0],
    ]
    groups: list[list[str | float]] = [
        ["", "Oulu", "", "Kemi", ""],
        ["Quay", "in", "out", "in", "out"],
        ["East", "a", "b", "c", "d"],
    ]
    texts = [
        _read(_sheet("".join(_line(at, *cells) for at, cells in enumerate(rows, 1)), before, after)).text
        for rows, before, after in ((sums, _PANE.format(2), ""), (groups, "", '<autoFilter ref="A2:E3"/>'))
    ]

    assert "Quay: East; Oulu: 3; Kemi: 4" in texts[0]
    assert "Quay: East; Oulu in: a; Oulu out: b; Kemi in: c; Kemi out: d" in texts[1]


@pytest.mark.parametrize(("count", "headed"), [("", True), ('headerRowCount="0"', False)])
def test_the_first_row_of_a_table_is_its_header_unless_it_has_none(count: str, headed: bool) -> None:
    parts = parts_of(_sheet("".join(_line(at, *cells) for at, cells in enumerate(_CREW, 1))))
    relation = f"{_OFFICE}/officeDocument/2006/relationships/table"
    link = f'<Relationships><Relationship Id="t" Type="{relation}" Target="t.xml"/></Relationships>'

    text = _read(a_zip(parts | {"xl/_rels/sheet1.xml.rels": link, "xl/t.xml": f'<table ref="A1:C4" {count}/>'})).text

    assert ("Duty: Guard; Bosun: Olof; Deck: Upper" in text) is headed


@pytest.mark.parametrize(("rows", "headed"), [("$1:$1", True), ("$A:$B,Ducks!$1:$1", True), ("$A:$B", False)])
def test_the_rows_printed_on_each_page_end_in_the_header(rows: str, headed: bool) -> None:
    parts = parts_of(_sheet("".join(_line(at, *cells) for at, cells in enumerate(_CREW, 1))))
    name = f'<definedName name="_xlnm.Print_Titles" localSheetId="0">Ducks!{rows}</definedName>'
    book = parts["xl/workbook.xml"].decode().replace("</workbook>", f"<definedNames>{name}</definedNames></workbook>")

    text = _read(a_zip(parts | {"xl/workbook.xml": book})).text

    assert ("Duty: Guard; Bosun: Olof; Deck: Upper" in text) is headed
