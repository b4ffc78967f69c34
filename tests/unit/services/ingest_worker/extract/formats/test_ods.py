import io
import zipfile

import pytest

from services.ingest_worker.extract import Extraction, Hints, extract
from services.ingest_worker.extract.archive import packed
from tests.loop_holds import least_cpu_s
from tests.selection import CI_ONLY
from tests.unit.services.ingest_worker.files import a_zip, an_opendocument, parts_of


def _read(data: bytes, filename: str) -> Extraction:
    return extract(data, Hints(filename=filename))


def test_opendocument_sheets_are_read_alike() -> None:
    row = "<table:table-row>{}</table:table-row>".format
    cell = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'.format
    rows = row(cell("Year") + cell("Count")) + row(cell("2024") + cell("7"))

    read = _read(an_opendocument("spreadsheet", f'<table:table table:name="Ducks">{rows}</table:table>'), "book.ods")

    assert read.text == "# Ducks\n\nYear | Count\n\nYear: 2024; Count: 7"
    assert (read.title, read.document_type, read.language) == ("The tide", "ods", "en-GB")


def test_an_opendocument_sheet_shows_its_cells_alike() -> None:
    def cell(kind: str, value: str, shown: str, more: str = "") -> str:
        about = f'office:value-type="{kind}" office:value="{value}" {more}' if kind else more
        return f"<table:table-cell {about}><text:p>{shown}</text:p></table:table-cell>"

    def row(*cells: str, about: str = "") -> str:
        return f"<table:table-row {about}>{''.join(cells)}</table:table-row>"

    gone, kept = 'table:visibility="collapse"', 'table:visibility="filter"'
    names = [
        f'<table:table-cell office:value-type="string"><text:p>{name}</text:p></table:table-cell>' for name in "ABCDE"
    ]
    body = (
        '<table:table table:name="Ducks"><table:table-column table:number-columns-repeated="3"/>'
        f"<table:table-column {gone}/><table:table-column/>"
        + row(*names)
        + row(
            cell("percentage", "0.125", "12,5 %"),
            cell("currency", "1234.5", "1.234,50 €"),
            cell("float", "99", "00099"),
            cell("float", "1", "1"),
            cell("", "", "", 'table:formula="of:=1+1"'),
        )
        + row(cell("float", "7", "7"), about=gone)
        + row(cell("float", "3.25", "3,3 kg"), about=kept)
        + "</table:table>"
    )

    read = _read(an_opendocument("spreadsheet", body), "a.ods")

    assert read.text.split("\n\n")[1:] == ["A | B | C | E", "A: 12.5 %; B: 1234.5 €; C: 00099", "A: 3.25 kg"]
    assert [each.code for each in read.notes] == ["hidden", "formula"]


def test_a_duration_is_shown_in_hours() -> None:
    cell = '<table:table-cell office:value-type="time" office:time-value="PT{}"/>'.format
    rows = f"<table:table-row>{cell('30H30M00S')}{cell('0H05M07S')}</table:table-row>"

    read = _read(an_opendocument("spreadsheet", f'<table:table table:name="Work">{rows}</table:table>'), "a.ods")

    assert read.text == "# Work\n\n30:30 | 00:05:07"


def test_repeated_rows_and_cells_keep_their_formats_up_to_a_limit() -> None:
    about = 'office:value-type="percentage" office:value="0.5"'
    cell = f"<table:table-cell {about} {{}}><text:p>50 %</text:p></table:table-cell>"
    row = "<table:table-row table:number-rows-repeated='3'>{}</table:table-row>"
    far = '<table:table-row table:visibility="collapse" table:number-rows-repeated="99999999"/>'
    twice = cell.format('table:number-columns-repeated="2"')
    body = f'<table:table table:name="Ducks">{row.format(cell.format("") + twice)}{far * 20_000}</table:table>'

    read = _read(an_opendocument("spreadsheet", body), "a.ods")

    assert read.text == "# Ducks" + 3 * "\n\n50 % | 50 % | 50 %"


def test_what_stands_around_a_drawing_in_a_cell_stays() -> None:
    drawn = "<draw:frame><draw:text-box><text:p>Box</text:p></draw:text-box></draw:frame>"
    cell = f'<table:table-cell office:value-type="string"><text:p>Total {drawn}of the year</text:p></table:table-cell>'
    body = f'<table:table table:name="Ducks"><table:table-row>{cell}</table:table-row></table:table>'

    assert _read(an_opendocument("spreadsheet", body), "a.ods").text == "# Ducks\n\nTotal of the year\n\nBox"


@pytest.mark.parametrize("indent", ["\n ", "\t\t\n\t", " "])
def test_a_sheet_with_indents_is_read(indent: str) -> None:
    cells = "".join(
        f'<table:table-cell office:value-type="string">{indent}<text:p>{each}</text:p></table:table-cell>{indent}'
        for each in ("high", "low")
    )
    row = f"<table:table-row>{indent}{cells}</table:table-row>{indent}"
    body = f'{indent}<table:table table:name="Ducks">{indent}<table:table-column/>{indent}{row}{row}</table:table>'

    assert _read(an_opendocument("spreadsheet", body), "a.ods").text == "# Ducks\n\nhigh | low\n\nhigh | low"


def test_a_cell_far_below_the_others_costs_nothing() -> None:
    cell = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'.format
    blank = '<table:table-cell table:number-columns-repeated="1023"/>'
    gap = f'<table:table-row table:number-rows-repeated="{{}}"><table:table-cell/>{blank}</table:table-row>'.format
    rows = "".join(f"<table:table-row>{cell(each) * 9}{blank}</table:table-row>" for each in ("high", "low"))
    last = f"<table:table-row>{cell('neap')}</table:table-row>"
    body = f'<table:table table:name="Ducks">{rows}{{}}{last}{gap(9)}</table:table>'.format

    far, near = (an_opendocument("spreadsheet", body(gap(rows))) for rows in (1_048_500, 1))

    assert _read(far, "a.ods").text == _read(near, "a.ods").text
    assert least_cpu_s(lambda: _read(far, "a.ods"), 0.5) <= 0.5


def test_a_sheet_whose_container_names_no_type_is_read() -> None:
    cell = '<table:table-cell office:value-type="string"><text:p>high</text:p></table:table-cell>'
    row = f"<table:table-row>{cell}</table:table-row>"
    with zipfile.ZipFile(
        io.BytesIO(an_opendocument("spreadsheet", f'<table:table table:name="Ducks">{row}</table:table>'))
    ) as archive:
        parts = [(name, archive.read(name)) for name in archive.namelist() if name != "mimetype"]

    assert _read(packed(parts), "a.ods").text == "# Ducks\n\nhigh"


def test_a_flat_sheet_with_indents_is_read() -> None:
    spans = "<text:span>high</text:span>\n <text:span>water</text:span>"
    cell = f'<table:table-cell office:value-type="string">\n <text:p>{spans}</text:p>\n </table:table-cell>'
    row = f"\n <table:table-row>\n {cell}\n {cell.replace('high', 'low')}\n </table:table-row>"
    body = f'\n <table:table table:name="Ducks">\n <table:table-column/>{row}\n </table:table>\n '
    with zipfile.ZipFile(io.BytesIO(an_opendocument("spreadsheet", body))) as archive:
        content = archive.read("content.xml").decode()
    said = 'office:mimetype="application/vnd.oasis.opendocument.spreadsheet"'
    flat = f"<?xml version='1.0'?>{content.replace('content xmlns', f'content {said} xmlns', 1)}".encode()

    assert _read(flat, "a.fods").text == "# Ducks\n\nhigh water | low water"


def test_a_merged_cell_counts_for_each_row_that_it_covers() -> None:
    def cell(text: str, about: str = "") -> str:
        return f'<table:table-cell office:value-type="string" {about}><text:p>{text}</text:p></table:table-cell>'

    low = cell("Low", 'table:number-rows-spanned="2" table:number-columns-spanned="1"')
    rows = [cell("Deck") + cell("Side") + cell("Price"), low + cell("in") + cell("5")]
    rows.append("<table:covered-table-cell/>" + cell("out") + cell("6"))
    lines = "".join(f"<table:table-row>{row}</table:table-row>" for row in rows)
    data = an_opendocument("spreadsheet", f'<table:table table:name="Cabins">{lines}</table:table>')

    assert extract(data, Hints(filename="a.ods")).text.split("\n\n")[-1] == "Deck: Low; Side: out; Price: 6"


@CI_ONLY
def test_cells_that_all_claim_the_rest_of_their_row_cost_no_more_than_others() -> None:
    claim = 'office:value-type="string" table:number-columns-spanned="16384"'
    cells = f"<table:table-cell {claim}><text:p>a</text:p></table:table-cell>"
    row = f"<table:table-row>{cells * 8_000}</table:table-row>"
    data = an_opendocument("spreadsheet", f'<table:table table:name="Cabins">{row * 3}</table:table>')

    assert least_cpu_s(lambda: _read(data, "a.ods"), 1.0) <= 1.0


def test_a_value_that_is_an_error_is_shown() -> None:
    failed = 'table:formula="of:=NA()" office:value-type="string" office:string-value="" c:value-type="error"'
    space = 'xmlns:c="urn:org:documentfoundation:names:experimental:calc:xmlns:calcext:1.0"'
    cells = f"<table:table-cell {space} {failed}><text:p>#N/A</text:p></table:table-cell>"
    name = '<table:table-cell office:value-type="string"><text:p>Kai</text:p></table:table-cell>'
    row = f'<table:table table:name="Ducks"><table:table-row>{name}{cells}</table:table-row></table:table>'

    assert _read(an_opendocument("spreadsheet", row), "a.ods").text == "# Ducks\n\nKai | #N/A"


_FILTERED = '<table:database-range table:target-range-address="{}.A1:{}.C4" table:display-filter-buttons="true" {}/>'


@pytest.mark.parametrize(
    ("marks", "ranges", "headed"),
    [
        ("", "", False),
        ("table:table-header-rows", "", True),
        ("", _FILTERED.format("Ducks", "Ducks", ""), True),
        ("", _FILTERED.format("$'Ducks'", "$'Ducks'", 'table:contains-header="false"'), False),
        ("", _FILTERED.format("Other", "Other", ""), False),
    ],
)
def test_a_row_that_repeats_on_each_page_or_has_a_filter_is_the_header(marks: str, ranges: str, headed: bool) -> None:
    cell = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'.format
    crew = [("Duty", "Bosun", "Deck"), ("Cook", "Anna", "Lower"), ("Guard", "Olof", "Upper"), ("Rower", "Mia", "Lower")]
    first, *rows = ("<table:table-row>" + "".join(map(cell, cells)) + "</table:table-row>" for cells in crew)
    body = "".join([f"<{marks}>{first}</{marks}>" if marks else first, *rows])
    more = f"<table:database-ranges>{ranges}</table:database-ranges>"

    read = _read(an_opendocument("spreadsheet", f'<table:table table:name="Ducks">{body}</table:table>{more}'), "a.ods")

    assert ("Duty: Guard; Bosun: Olof; Deck: Upper" in read.text) is headed


_SPLIT = (
    '<config:config-item-map-entry config:name="Ducks"><config:config-item config:name="VerticalSplitMode" '
    'config:type="short">{}</config:config-item><config:config-item config:name="VerticalSplitPosition" '
    'config:type="int">1</config:config-item></config:config-item-map-entry>'
)


@pytest.mark.parametrize(("mode", "headed"), [(2, True), (1, False), (0, False)])
def test_a_row_that_is_kept_in_view_is_the_header(mode: int, headed: bool) -> None:
    cell = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'.format
    crew = [("Duty", "Bosun", "Deck"), ("A1", "Anna", "Lower"), ("B2", "Olof", "Upper"), ("C3", "Mia", "Lower")]
    rows = "".join(f"<table:table-row>{''.join(map(cell, cells))}</table:table-row>" for cells in crew)
    book = an_opendocument("spreadsheet", f'<table:table table:name="Ducks">{rows}</table:table>')
    space = 'xmlns:config="urn:oasis:names:tc:opendocument:xmlns:config:1.0"'
    shown = f"<settings {space}>{_SPLIT.format(mode)}</settings>"

    read = _read(a_zip(parts_of(book) | {"settings.xml": shown}), "a.ods")

    assert ("Duty: B2; Bosun: Olof; Deck: Upper" in read.text) is headed


@pytest.mark.parametrize(
    ("formula", "shown"),
    [
        ('HYPERLINK("https://a.example/b?c=1";"open")', "[open](https://a.example/b?c=1)"),
        ('HYPERLINK("https://a.example/";[.A1])', "[open](https://a.example/)"),
        ('HYPERLINK("https://a.example/"&amp;[.A1];"open")', "open"),
    ],
)
def test_the_address_of_a_link_that_is_a_formula_is_kept(formula: str, shown: str) -> None:
    stated = f'table:formula="of:={formula.replace(chr(34), "&quot;")}" office:value-type="string"'
    cell = f"<table:table-cell {stated}><text:p>open</text:p></table:table-cell>"
    rows = f'<table:table table:name="Ducks"><table:table-row>{cell}</table:table-row></table:table>'

    assert _read(an_opendocument("spreadsheet", rows), "a.ods").text == f"# Ducks\n\n{shown}"
