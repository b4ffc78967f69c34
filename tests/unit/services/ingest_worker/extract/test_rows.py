import pytest

from services.ingest_worker.extract import Hints, extract
from services.ingest_worker.extract.rows import Cell, named_rows, spread, table
from services.ingest_worker.extract.table_header import Covered
from tests.unit.services.ingest_worker.files import a_docx, a_drawn_pdf, a_pptx, an_opendocument

_PEOPLE = [["Ada Pole", "Bath", "Painter"], ["Bo Reed", "Hull", "Baker"], ["Cy Lund", "York", "Sailor"]]


def _in_word(look: str = "", *, table: str = "", styles: str = "") -> bytes:
    def row(cells: list[str]) -> str:
        run = f"<w:r>{look if cells == _PEOPLE[0] else ''}<w:t>{{}}</w:t></w:r>"
        return f"<w:tr>{''.join(f'<w:tc><w:p>{run.format(text)}</w:p></w:tc>' for text in cells)}</w:tr>"

    return a_docx(f"<w:tbl>{table}{''.join(map(row, _PEOPLE))}</w:tbl>", styles=styles)


def _styled(look: str) -> bytes:
    first = '<w:style w:type="table" w:styleId="Fine"><w:tblStylePr w:type="firstRow"/></w:style>'
    own = '<w:style w:type="table" w:styleId="Own"><w:basedOn w:val="Fine"/></w:style>'
    return _in_word(table=f'<w:tblPr><w:tblStyle w:val="Own"/><w:tblLook {look}/></w:tblPr>', styles=own + first)


def _in_odt(style: str = "") -> bytes:
    def row(cells: list[str]) -> str:
        names = style if cells == _PEOPLE[0] else ""
        cell = f'<table:table-cell><text:p text:style-name="{names}">{{}}</text:p></table:table-cell>'
        return f"<table:table-row>{''.join(map(cell.format, cells))}</table:table-row>"

    bold = '<style:style style:name="P1"><style:text-properties fo:font-weight="bold"/></style:style>'
    styles = f'<office:automatic-styles xmlns:style="s" xmlns:fo="fo">{bold}</office:automatic-styles>'
    return an_opendocument("text", f"<table:table>{''.join(map(row, _PEOPLE))}</table:table>", styles=styles)


def _in_rtf(row: str = "", look: str = "") -> bytes:
    def line(cells: list[str]) -> str:
        marked, bold = (row, look) if cells == _PEOPLE[0] else ("", "")
        return rf"\trowd{marked}" + "".join(rf"\intbl{{{bold} {cell}}}\cell" for cell in cells) + r"\row"

    return rf"{{\rtf1 The crew.\par {''.join(map(line, _PEOPLE))}\pard}}".encode()


def _in_pptx(look: str = "") -> bytes:
    def row(cells: list[str]) -> str:
        run = f"<a:r><a:rPr {look if cells == _PEOPLE[0] else ''}/><a:t>{{}}</a:t></a:r>"
        return f"<a:tr>{''.join(map(f'<a:tc><a:txBody><a:p>{run}</a:p></a:txBody></a:tc>'.format, cells))}</a:tr>"

    return a_pptx(f"<p:graphicFrame><a:tbl>{''.join(map(row, _PEOPLE))}</a:tbl></p:graphicFrame>")


def _in_pdf() -> bytes:
    placed = [(72 + 90 * x, 700 - 20 * y, text) for y, row in enumerate(_PEOPLE) for x, text in enumerate(row)]
    boxes = (f"{70 + 90 * x} {695 - 20 * y} 90 20 re S" for x in range(3) for y in range(3))
    return a_drawn_pdf(placed, lines=" ".join(boxes))


@pytest.mark.parametrize(
    "data",
    [_in_word(), _styled('w:val="0000"'), _in_odt(), _in_pdf(), _in_rtf(), _in_pptx()],
    ids=["docx", "docx, off", "odt", "pdf", "rtf", "pptx"],
)
def test_no_value_becomes_a_name_where_the_first_row_looks_like_the_others(data: bytes) -> None:
    text = extract(data, Hints()).text

    assert ":" not in text
    assert "Ada Pole" not in text.partition("| --- |")[0] or "| --- |" not in text
    assert "Bath" in text


@pytest.mark.parametrize(
    "data",
    [
        _in_word("<w:rPr><w:b/></w:rPr>"),
        _styled('w:val="04A0"'),
        _styled('w:firstRow="1"'),
        _in_odt("P1"),
        _in_odt("Table_20_Heading"),
        _in_rtf(row=r"\trhdr"),
        _in_rtf(look=r"\b"),
        _in_pptx('b="1"'),
    ],
)
def test_a_first_row_in_bold_letters_or_marked_is_the_header(data: bytes) -> None:
    assert "| Ada Pole | Bath | Painter |\n| --- |" in extract(data, Hints()).text


def test_a_blank_cell_among_bold_ones_needs_no_bold_letters() -> None:
    look = "<w:rPr><w:b/></w:rPr>"
    cells = [
        f"<w:tc><w:p><w:r>{look * (text == 'Ada Pole')}<w:t>{text}</w:t></w:r></w:p></w:tc>"
        for text in (row[0] for row in _PEOPLE)
    ]
    table = "".join(f"<w:tr><w:tc><w:p/></w:tc>{cell}{cell}</w:tr>" for cell in cells)

    assert "|  | Ada Pole | Ada Pole |\n| --- |" in extract(a_docx(f"<w:tbl>{table}</w:tbl>"), Hints()).text


def test_a_long_row_of_one_merged_cell_is_kept() -> None:
    names = ["Station", *[f"Month {at} of the year {'as it was counted at the quay ' * 2}" for at in range(12)]]
    row = ["", "Not surveyed in 2020", *[Covered("Not surveyed in 2020")] * 11]

    assert list(named_rows([row], names)) == [f"{names[1]}: Not surveyed in 2020"]


def test_a_form_is_a_table_without_names_of_columns() -> None:
    form = [
        ["Vorname:", "Eva", "Nachname:", "Kai"],
        ["Straße:", "Weg 1", "Ort:", "Ulm"],
        ["Alter:", "3", "Hund:", "ja"],
    ]

    assert table(form, headed=False).split("\n")[:3] == [
        "|  |  |  |  |",
        "| --- | --- | --- | --- |",
        "| Vorname: | Eva | Nachname: | Kai |",
    ]


def _csv(text: str) -> str:
    return extract(text.encode(), Hints(filename="a.csv")).text.split("\n\n", 3)[-1].replace("\n\n", "\n")


def test_words_below_a_gap_in_columns_of_figures_are_no_values_of_the_table() -> None:
    assert (
        _csv("Item,Q1,Note\nOil,1200,x\nPaint,300,\n,,\n,,\nContact,Mira,\nPhone,22,\n") == "Contact | Mira\nPhone | 22"
    )


@pytest.mark.parametrize(
    ("below", "text"),
    [
        ("Rope,80,", "Item: Rope; Q1: 80"),  # another group
        ("Sum,1500,", "Item: Sum; Q1: 1500"),
        ("Rope,8,\nTar,n/a,\nOakum,7,", "Item: Rope; Q1: 8\nItem: Tar; Q1: n/a\nItem: Oakum; Q1: 7"),
        ("Rope,,late", "Item: Rope; Note: late"),
        (",1500,", "Q1: 1500"),
        ("Cake,sold out,-\nScone,sold out,-", "Item: Cake; Q1: sold out; Note: -\nItem: Scone; Q1: sold out; Note: -"),
        ("Tar,?,", "Tar | ?"),
    ],
)
def test_a_group_or_a_sum_below_a_gap_is_of_the_table(below: str, text: str) -> None:
    assert _csv(f"Item,Q1,Note\nOil,1200,x\nPaint,300,y\n,,\n{below}\n") == text


@pytest.mark.parametrize(
    ("below", "text"),
    [
        (",,Subtotal,47\n,,VAT 20%:,9.4", "Subtotal; Sum: 47\nVAT 20%; Sum: 9.4"),
        (",Total,,47", "Total; Sum: 47"),
        (",,VAT,9.4\n,,Total,56.40", "VAT; Sum: 9.4\nTotal; Sum: 56.40"),
        (",,Discount,-7\n,,Total,40", "Discount; Sum: -7\nTotal; Sum: 40"),
        (",,Discount,(7)\n,,Total,40", "Discount; Sum: (7)\nTotal; Sum: 40"),
        (",,unknown,-7\n,missing,,54", "Price: unknown; Sum: -7\nQty: missing; Sum: 54"),
        (",,unknown,7\n,missing,,8", "Price: unknown; Sum: 7\nQty: missing; Sum: 8"),
        ("Total,,,47", "Item: Total; Sum: 47"),
        ("Mast,,late,4", "Item: Mast; Price: late; Sum: 4"),
        (",,4,8\n,,late,9", "Price: 4; Sum: 8\nPrice: late; Sum: 9"),  # goes on
        (",,n/a,9", "Price: n/a; Sum: 9"),
        (",,sold out", "Price: sold out"),
    ],
)
def test_words_before_a_sum_in_a_column_of_figures_are_its_name(below: str, text: str) -> None:
    rows = [row.split(",") for row in f"Item,Qty,Price,Sum\nRope,2,3.5,7\nBuoy,1,40,40\n{below}".split("\n")]

    assert "\n".join([*named_rows(rows[1:], rows[0])][2:]) == text
    assert _csv("\n".join(map(",".join, rows))) == text


def test_a_merged_name_of_a_sum_is_no_value_of_the_columns_that_it_covers() -> None:
    rows = [["Item", "Qty", "Sum"], ["Rope", "2", "7"], ["Buoy", "1", "40"], ["Total", Covered("Total"), "47"]]

    assert [*named_rows(rows[1:], rows[0])][-1] == "Total; Sum: 47"


def test_a_header_of_three_rows_with_merged_cells_becomes_one() -> None:
    rows = [
        [Cell("Port", down=3), Cell("2024", across=4)],
        [Cell("H1", across=2), Cell("H2", across=2)],
        [Cell("High"), Cell("Low"), Cell("High"), Cell("Low")],
        [Cell("Bath"), *map(Cell, "4567")],
    ]

    assert spread(rows)[0] == ["Port", "2024 H1 High", "2024 H1 Low", "2024 H2 High", "2024 H2 Low"]


def _of_csv(*rows: str) -> list[str]:
    return extract("\n".join(rows).encode(), Hints(filename="a.csv")).text.split("\n\n")


@pytest.mark.parametrize("gap", [",,", ",,,"])
@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (["Fruit,Price|Place,Amount", "Fig,3|Bath,40", "Plum,4|Hull,55", "|York,12"], ["Place: York; Amount: 12"]),
        (["Name,Age|Name,Age", "Ada,31|Bo,22", "Cy,40|Di,35"], ["Name: Ada; Age: 31", "Name: Bo; Age: 22"]),
    ],
)
def test_tables_side_by_side_are_told_apart(rows: list[str], told: list[str], gap: str) -> None:
    found = _of_csv(*(row.replace("|", gap if not row.startswith("|") else f",{gap}") for row in rows))

    assert all(each in found for each in told)


def test_a_table_with_a_blank_column_is_one() -> None:
    rows = _of_csv("Item,Unit,,2023,2024", "Tea,kg,,30,40", "Rum,l,,50,60")

    assert rows[1:] == ["Item: Tea; Unit: kg; 2023: 30; 2024: 40", "Item: Rum; Unit: l; 2023: 50; 2024: 60"]


def test_words_alone_below_a_table_are_no_values() -> None:
    rows = _of_csv("Item,Amount,Unit", "Flour,500,g", "Eggs,3,pieces", ",,", "Method,,", "Mix all and bake.,,")

    assert rows[-2:] == ["Method", "Mix all and bake."]


@pytest.mark.parametrize(
    "names",
    ["Turno,Lunes,Martes", "Shift,Monday,Tuesday", "班,月曜日,火曜日", "Team,Januar,Februar", "Équipe,janv.,févr."],
)
def test_days_and_months_are_names_of_columns(names: str) -> None:
    first, second, third = names.split(",")

    assert _of_csv(names, "A,Ana,Luis", "B,Luis,Ana", "C,Eva,Ana")[1] == f"{first}: A; {second}: Ana; {third}: Luis"


def test_one_word_that_is_also_a_month_names_no_column() -> None:
    assert _of_csv("April,Oslo", "May,Rome", "Ada,Bern", "Bo,Bath")[1] == "May | Rome"
