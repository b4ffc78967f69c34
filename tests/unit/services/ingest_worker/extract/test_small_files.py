"""Small files stay small: whatever they repeat, nest or refer to, their text and the time to read them are bounded."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import pytest

from services.ingest_worker.extract import FORMATS, Hints, detect, extract
from shared.errors import Rejected
from tests.loop_holds import least_cpu_s
from tests.selection import sampled
from tests.unit.services.ingest_worker.files import a_docx, an_opendocument, an_xlsx

_BYTES: Final = 64 * 1024
_MOST_TEXT: Final = 100 * _BYTES  # characters
_LIGHT_S: Final = 1.0  # CPU time; a light format is read beside others' requests, and takes a tenth of it
_OTHER_S: Final = 10.0  # what a parser process allows
_BOOK: Final = (
    '<?xml version="1.0"?><Workbook xmlns="urn:schemas-microsoft-com:office:spreadsheet" '
    'xmlns:ss="urn:schemas-microsoft-com:office:spreadsheet"><Worksheet ss:Name="A"><Table>'
)
_P: Final = "<w:p><w:r><w:t>a</w:t></w:r></w:p>"
_CELL: Final = "<table:table-cell><text:p>a</text:p></table:table-cell>"
_BLANKS: Final = '<text:s text:c="1000"/>'
_TWO: Final[list[list[str | float]]] = [["1", "2"]]
_SHEET: Final[list[list[str | float]]] = [["A" * 30_000, "b"], *_TWO * 2_000]
_ROW: Final = f"<table:table-row>{_CELL}</table:table-row>"


def _filled(unit: str, head: str = "", tail: str = "", size: int = _BYTES) -> bytes:
    return (head + unit * ((size - len((head + tail).encode())) // len(unit.encode())) + tail).encode()


def _mail(part: str, count: int = 20_000) -> bytes:
    head = 'From: a\nTo: b\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="b"\n\n'
    return _filled(part, head, "--b--\n", min(_BYTES, len(part) * count))


_FILES: Final[dict[str, Callable[[], bytes]]] = {
    "header.csv": lambda: _filled("1,\n", "A" * (_BYTES // 2) + ",b\n"),
    "columns.csv": lambda: _filled("1,\n", ",".join(f"c{number}" for number in range(6_000)) + "\n"),
    "quotes.csv": lambda: _filled('"'),
    "nested.json": lambda: b"[" * 400 + b"1," * 20_000 + b"1" + b"]" * 400,
    "records.json": lambda: _filled('{"b":1},', '[{"a":"' + "A" * 30_000 + '","c":[', '{"b":1}]},{}]'),
    "rules.rst": lambda: _filled("=\n"),
    "blocks.rst": lambda: _filled("::\n\n x\n"),
    "grid.rst": lambda: _filled("|a\n", "+-" * 9_000 + "+\n"),
    "lines.rst": lambda: _filled("|a\n", "+-" * 60 + "+\n"),
    "short-rules.rst": lambda: _filled("+-\n|a\n", "+-" * 60 + "+\n"),
    "simple.rst": lambda: _filled("= =\na\n"),
    "lists.rst": lambda: _filled(".. list-table::\n * - a\n"),
    "rules.adoc": lambda: _filled("----\n...." + "\n"),
    "columns.adoc": lambda: _filled("|a\n", '[cols="' + "," * 400 + '"]\n|===\n'),
    "rows.adoc": lambda: _filled(".9999+|a\n", "[cols=1]\n|===\n"),
    "rows-of-many.adoc": lambda: _filled(".9999+|a\n|b\n", '[cols="99*,99*,99*,99*"]\n|===\n'),
    "across.adoc": lambda: _filled("999.9999+|a", "|===\n"),
    "covered.rst": lambda: _filled("|a |b |\n|  +--+\n", "+--+--+\n"),
    "opens.wiki": lambda: _filled("{|\n"),
    "lines.wiki": lambda: _filled("a\n", "{|\n|", "\n|}"),
    "cells.wiki": lambda: _filled("colspan=99 rowspan=999|a||", "{|\n|", "\n|}"),
    "about.wiki": lambda: _filled("a=b ", "{|\n|", "\n|}"),
    "blocks.org": lambda: _filled("#+begin_src\n"),
    "cues.srt": lambda: _filled("00:00:00,000 --> 00:00:00,000\na\n"),
    "deep.json": (b"[" * _BYTES).strip,
    "marks.txt": lambda: _filled("\u0301\u0323", "a"),
    "marks.md": ("a" + "\u0301" * 16_000 + "\u0323" * 16_000).encode,
    "escapes.txt": lambda: _filled("\x1b]"),
    "keys.md": lambda: _filled("a.", "+++\n", "b = 1\n+++\nx", 32_000),
    "tags.md": lambda: _filled("- a\n", "---\ntags:\n", "---\nx", 32_000),
    "questions.md": lambda: _filled("? ", "---\n", "\n---\nx", 32_000),
    "fences.md": lambda: _filled("```\n~~~\n"),
    "cells.ipynb": lambda: _filled('{"cell_type":"code","source":"```"},', '{"cells":[', "{}]}"),
    "chunks.json": lambda: _filled('{"text":"a","embeddingStrings":{}},', "[", "{}]"),
    "entities.xml": lambda: _filled("&nbsp;", "<?xml version='1.0'?><a>", "</a>"),
    "nested.xml": lambda: b"<?xml version='1.0'?>" + b"<a>" * 250 + b"x " * 20_000 + b"</a>" * 250,
    "merged.xml": lambda: _filled(
        '<Row><Cell ss:MergeAcross="256" ss:MergeDown="9999"/></Row>', _BOOK, "</Table></Worksheet></Workbook>"
    ),
    "cells.xml": lambda: _filled(
        '<Cell ss:MergeAcross="256" ss:MergeDown="99999"/>',
        f"{_BOOK}<Row>",
        f"</Row>{'<Row/>' * 3_000}</Table></Worksheet></Workbook>",
    ),
    "gaps.xml": lambda: _filled(
        '<Row ss:Index="99999999"><Cell ss:Index="256" ss:MergeDown="9999"/></Row>',
        _BOOK,
        "</Table></Worksheet></Workbook>",
    ),
    "characters.rtf": lambda: _filled("\\uc99999\\u8364?", "{\\rtf1 ", "}"),
    "cells.rtf": lambda: b"{\\rtf1 \\trowd" + b"\\cell" * 5_000 + b"\\row" + b"\\trowd a\\cell\\row" * 2_000 + b"}",
    "columns.rtf": lambda: _filled("\\cell\\row", "{\\rtf1\\trowd" + "\\cellx1" * 4_000 + "\\clmrg\\cellx9" * 9, "}"),
    "table.docx": lambda: a_docx(
        f"<w:tbl><w:tr>{f'<w:tc>{_P}</w:tc>' * 10_000}</w:tr>{f'<w:tr><w:tc>{_P}</w:tc></w:tr>' * 10_000}</w:tbl>"
    ),
    "spans.docx": lambda: a_docx(
        "<w:tbl>"
        + f"<w:tr><w:tc><w:tcPr><w:gridSpan w:val='99999999'/></w:tcPr>{_P}</w:tc><w:tc>{_P}</w:tc></w:tr>" * 2_000
        + "</w:tbl>"
    ),
    "numbers.docx": lambda: a_docx(
        "<w:p><w:pPr><w:numPr><w:ilvl w:val='0'/><w:numId w:val='1'/></w:numPr></w:pPr><w:r><w:t>i</w:t></w:r></w:p>"
        * 900,
        numbering="<w:abstractNum w:abstractNumId='1'><w:lvl w:ilvl='0'><w:numFmt w:val='decimal'/>"
        f"<w:lvlText w:val='{'A' * 100_000}'/></w:lvl></w:abstractNum>"
        "<w:num w:numId='1'><w:abstractNumId w:val='1'/></w:num>",
    ),
    "blanks.odt": lambda: an_opendocument("text", f"<text:p>a{_BLANKS * 50_000}b</text:p>"),
    "table.odt": lambda: an_opendocument(
        "text", f"<table:table><table:table-row>{_CELL * 10_000}</table:table-row>{_ROW * 10_000}</table:table>"
    ),
    "header.xlsx": lambda: an_xlsx(A=_SHEET),
    "merged.xlsx": lambda: an_xlsx(merged=["Z1:Z50"], A=[["a", "b"], ["c", "d"]]),
    "parts.eml": lambda: _mail("--b\n\nx\n"),
    "borders.eml": lambda: _mail("--b\n"),
    "nested.eml": lambda: (
        b"From: a\nTo: b\n"
        + b"".join(b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (at, at) for at in range(900))
    ),
    "mails.eml": lambda: b"From: a\nTo: b\n" + b"Content-Type: message/rfc822\n\n" * 2_000,
    "parameters.eml": lambda: b"From: a\nTo: b\nContent-Type: text/plain" + b"; a*0=b" * 8_000 + b"\n\nx",
    "words.eml": lambda: _filled("=?utf-8?q?a?= ", "From: a\nTo: b\nSubject: ", "\n\nx"),
}


@pytest.mark.parametrize("name", sampled(_FILES))
def test_a_small_file_makes_bounded_text_in_bounded_time(name: str) -> None:
    data = _FILES[name]()
    limit = _LIGHT_S if detect(data, Hints(filename=name)).light else _OTHER_S
    lengths = [0]

    def read() -> None:
        with suppress(Rejected):
            lengths.append(len(extract(data, Hints(filename=name)).text))

    assert least_cpu_s(read, limit) <= limit
    assert len(data) <= _BYTES
    assert max(lengths) <= _MOST_TEXT


def test_each_light_format_has_such_a_file() -> None:
    light = {form.document_type for form in FORMATS if form.light}

    assert light == {detect(make(), Hints(filename=name)).document_type for name, make in _FILES.items()} & light
