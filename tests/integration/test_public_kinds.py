"""What a careful reader finds in a file, by the kinds of faults that people reported: each in several formats."""

import base64
import json
from typing import Final, NamedTuple

import pytest

from services.ingest_worker.chunk import chunks
from services.ingest_worker.extract import Extraction, Hints, extract
from shared.contracts import embedded_of
from tests.fakes.tokens import Bytes
from tests.unit.services.ingest_worker.files import (
    a_docx,
    a_drawn_pdf,
    a_pptx,
    a_shape,
    a_zip,
    an_epub,
    an_opendocument,
    an_xlsx,
    parts_of,
)


class Case(NamedTuple):
    """A file, with what must be in its text and what must not; `{kind}: {format}` is its name."""

    name: str
    data: bytes | str
    shown: str = ""
    hidden: str = ""
    note: str = ""  # the code of a note about it
    together: tuple[str, ...] = ()  # what one chunk must have, with its header


_PROSE: Final = "The harbour office keeps a book of all ships that lie at the quay, with masters and cargo. " * 6
_ADDRESS: Final = "https://forms.example.org/leave_(form)"
_OFFICE: Final = "http://schemas.openxmlformats.org/officeDocument/2006"


def _page(body: str, head: str = "") -> str:
    return f"<html><head>{head}</head><body><main><h1>Quay</h1><p>{_PROSE}</p>{body}</main></body></html>"


def _text(body: str, styles: str = "") -> bytes:
    named = f"<office:automatic-styles>{styles}</office:automatic-styles>" if styles else ""
    space = "urn:oasis:names:tc:opendocument:xmlns"
    whole = f'<text:section xmlns:fo="{space}:xsl-fo-compatible:1.0" xmlns:xlink="http://www.w3.org/1999/xlink">'
    declared = f'<office:font xmlns:style="{space}:style:1.0"/>'
    return an_opendocument("text", f"{declared}{whole}{body}</text:section>", styles=named)


def _with(data: bytes, parts: dict[str, bytes | str]) -> bytes:
    return a_zip({**parts_of(data), **parts})


def _linked(kind: str, target: str, *, external: bool = False) -> str:
    mode = ' TargetMode="External"' if external else ""
    link = f'<Relationship Id="x" Type="{_OFFICE}/relationships/{kind}" Target="{target}"{mode}/>'
    return f'<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">{link}</Relationships>'


def _mail(kind: str, body: str, *, encoded: bool = False) -> str:
    coding = "base64" if encoded else "8bit"
    return f"From: a\nTo: b\nMIME-Version: 1.0\nContent-Type: {kind}\nContent-Transfer-Encoding: {coding}\n\n{body}\n"


def _der(tag: int, content: bytes) -> bytes:
    return bytes([tag, len(content)]) + content


def _sealed() -> str:
    return base64.b64encode(_der(0x30, bytes.fromhex("06092a864886f70d010703") + _der(0xA0, b"\0" * 40))).decode()


_PGP: Final = "Hello.\n\n-----BEGIN PGP MESSAGE-----\n\nhQEMA0\n=ab\n-----END PGP MESSAGE-----\n\nBye.\n"
_HALVES: Final = (b"\xb6\xc9\xc2", "渡轮镕".encode("gbk")[3:])


def _signed(text: str) -> str:
    """Return an S/MIME message in which the signature holds the text."""
    content = _der(0x30, bytes.fromhex("06092a864886f70d010701") + _der(0xA0, _der(4, f"\n{text}".encode())))
    return base64.b64encode(_der(0x30, bytes.fromhex("06092a864886f70d010702") + _der(0xA0, content))).decode()


_ROWS: Final = [["Service", "Port", "Team"], *([f"svc-{at}", str(8000 + at), f"team-{at % 7}"] for at in range(1, 90))]
_TABLE: Final = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in _ROWS)
_MERGED: Final = "<tr><td rowspan='2'>Lower</td><td>Inside</td><td>50</td></tr><tr><td>Outside</td><td>65</td></tr>"
_OUTSIDE: Final = "| Lower | Outside | 65 |"
_SUM: Final = "<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mi>c</mi></mfrac>"
_OMML: Final = (
    f'<m:oMath xmlns:m="{_OFFICE}/math"><m:f><m:num><m:r><m:t>a+b</m:t></m:r></m:num>'
    "<m:den><m:r><m:t>c</m:t></m:r></m:den></m:f></m:oMath>"
)
_HIGH: Final = '<style:style style:name="S" xmlns:style="s"><style:t style:text-position="super 58%"/></style:style>'
_PICTURE: Final = f"data:image/png;base64,{base64.b64encode(bytes(range(256)) * 2).decode()}"
_LEAVE: Final = an_xlsx(A=[["Leave", "Page"], ["long", "form"]])
_RUN: Final = '<w:r><w:rPr><w:vertAlign w:val="superscript"/></w:rPr><w:t>5</w:t></w:r>'
_NARROW: Final = [
    *((72, 700 - 12 * at, text) for at, text in enumerate(["Fares were raised", "in March by two", "euros for all."])),
    *((190, 700 - 12 * at, text) for at, text in enumerate(["The crew of the", "Tern won the", "rowing cup again."])),
    *((300, 700 - 12 * at, text) for at, text in enumerate(["New benches were", "put on the pier", "by the council."])),
]


def _at(left: int, top: int, text: str) -> str:
    place = f'svg:x="{left}cm" svg:y="{top}cm" svg:height="2cm"'
    space = 'xmlns:svg="urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0"'
    return f"<draw:frame {space} {place}><draw:text-box><text:p>{text}</text:p></draw:text-box></draw:frame>"


def _shape(text: str, says: str = "", properties: str = "") -> str:
    run = f"<a:r><a:rPr {properties}/><a:t>{text}</a:t></a:r>"
    begins = "<a:r><a:t>It is 10</a:t></a:r>"
    return f"<p:sp><p:nvSpPr><p:cNvPr {says}/></p:nvSpPr><p:txBody><a:p>{begins}{run}</a:p></p:txBody></p:sp>"


def _flat(kind: str, body: str) -> bytes:
    """Return an OpenDocument file that is one XML file, as programs indent it."""
    content = parts_of(an_opendocument(kind, body))["content.xml"].replace(b"-content", b"")
    says = f'<?xml version="1.0"?>\n<office:document office:mimetype="application/vnd.oasis.opendocument.{kind}"'
    return content.replace(b"<office:document", says.encode(), 1)


_SHEET: Final = (
    "<table:table table:name='A'>\n <table:table-row>\n  <table:table-cell office:value-type='string'>"
    "<text:p>It rises.</text:p>{}</table:table-cell>\n </table:table-row>\n</table:table>"
)
_DRAWN: Final = '<draw:frame><draw:object xmlns:x="http://www.w3.org/1999/xlink" x:href="./O"/></draw:frame>'

_CASES: Final = [
    Case(
        "K3 header of two rows: html",
        _page(
            f"<table><tr><th rowspan=2>Deck</th><th colspan=2>2023</th></tr>"
            f"<tr><th>In</th><th>Out</th></tr>{'<tr><td>D</td><td>1</td><td>2</td></tr>' * 3}</table>"
        ),
        "| Deck | 2023 In | 2023 Out |",
    ),
    Case("K4 separator named: csv", "sep=;\nName;Price\nRope, red;12,50\nSail;9,90\n", "Name: Rope, red; Price: 12,50"),
    Case(
        "K5 signed as one file: eml",
        _mail("application/pkcs7-mime; smime-type=signed-data", _signed("Stone nine."), encoded=True),
        "Stone nine.",
    ),
    Case(
        "K5 sealed: eml",
        _mail("application/pkcs7-mime; smime-type=enveloped-data", _sealed(), encoded=True),
        "From: a",
        note="password",
    ),
    Case("K5 sealed by PGP within the text: eml", _mail("text/plain", _PGP), "Bye.", "hQEM", "password"),
    Case(
        "K5 signed by PGP within the text: eml",
        _mail(
            "text/plain",
            "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\nPier: the gate is open.\n"
            + _PGP.replace("MESSAGE", "SIGNATURE"),
        ),
        "Pier: the gate is open.\nHello.",
        "-----",
    ),
    Case(
        "K5 a file within the text, with the line ends of mail: eml",
        _mail("text/plain", "Here.\nbegin 644 quais.txt\n3<75A:3H@;F]R9#L@9W)U93H@.0\n`\nend\nBye.").replace(
            "\n", "\r\n"
        ),
        "quais.txt",
        "begin 644",
    ),
    Case(
        "K6 names cut within a sign: eml",
        "From: =?utf-8?Q?J=C3?= =?utf-8?Q?=B6rg?= <j@example.org>\n"
        f"Subject: {' '.join(f'=?GB2312?B?{base64.b64encode(half).decode()}?=' for half in _HALVES)}\n\nText.\n",
        "Subject: 渡轮镕\nFrom: Jörg <j@example.org>",
    ),
    Case(
        "K3 a header below a line of the program: csv",
        "EXTF;700;21;Stapel;13;2025\nAmount;Side;Currency;Rate;Account;Against;Date;Text\n"
        "119,00;S;EUR;;8400;;0303;Paper\n23,80;H;EUR;;4930;;0503;Post\n45,10;S;EUR;;4940;;0703;Ink\n",
        "Amount: 23,80; Side: H; Currency: EUR; Account: 4930; Date: 0503; Text: Post",
    ),
    Case("K3 a blank corner: csv", ",name,score\n0,Ann,1.5\n1,Bob,2.5\n2,Cid,3.5\n", "1; name: Bob; score: 2.5"),
    Case(
        "K3 a header above a blank row: csv",
        "Listing\n\nNumber\tDate\tAmount\n\n17\t1.3.2025\t80,00\n18\t2.3.2025\t9,00\n",
        "Number: 18; Date: 2.3.2025; Amount: 9,00",
    ),
    Case(
        "K3 columns without values: csv",
        f"First Name,Last Name,{','.join(f'Field {at}' for at in range(40))},Phone\n"
        f"Ann,Lee,{',' * 40}0123\nBob,Ray,{',' * 40}0456\n",
        "First Name: Bob; Last Name: Ray; Phone: 0456",
    ),
    Case("K6 long lines of a calendar: ics", "BEGIN:VCALENDAR\r\nSUMMARY:Rehear\r\n sal\r\n", "SUMMARY:Rehearsal"),
    Case(
        "K8 table of HTML: xls",
        "<table><tr><td>Berth</td><td>Ship</td></tr><tr><td>B2</td><td>Skua</td></tr></table>",
        "| B2 | Skua |",
    ),
    Case("K8 text: docx", "The chair is Ines Petry.\n", "The chair is Ines Petry."),
    Case("K8 rows: xlsx", "Berth,Ship\nB1,Petrel\nB2,Skua\n", "Berth: B2; Ship: Skua"),
    Case(
        "K8 mail of a wiki: doc",
        "MIME-Version: 1.0\nContent-Type: text/html\n\n<ol><li>Stop it.</li></ol>",
        "1. Stop it.",
    ),
    Case(
        "K10 header of a cut table: html",
        _page(f"<table><thead>{_TABLE.replace('</tr>', '</tr></thead>', 1)}</table>"),
        together=("svc-77", "Port", "team-0"),
    ),
    Case(
        "K10 header of a cut table: md",
        "- Services:\n\n  | Service | Port | Team |\n  | --- | --- | --- |\n"
        + "".join(f"  | {' | '.join(row)} |\n" for row in _ROWS[1:]),
        together=("svc-77", "Port", "team-0"),
    ),
    Case(
        "K11 merged labels: xml",
        f"<?xml version='1.0'?><article><p>Cabins.</p><table>{_MERGED}</table></article>",
        _OUTSIDE,
    ),
    Case(
        "K11 merged labels: xml",
        "<?xml version='1.0'?><doc><para>Cabins.</para><tgroup><row><entry morerows='1'>Lower"
        "</entry><entry>In</entry><entry>5</entry></row><row><entry>Outside</entry><entry>65</entry></row></tgroup></doc>",
        _OUTSIDE,
    ),
    Case(
        "K11 merged labels: adoc",
        "[cols=3*]\n|===\n|Deck |Cabin |Price\n.2+|Lower |Inside |50\n|Outside |65\n|===\n",
        _OUTSIDE,
    ),
    Case(
        "K11 merged labels: rst",
        "+-------+---------+----+\n| Lower | Inside  | 50 |\n|       +---------+----+\n"
        "|       | Outside | 65 |\n+-------+---------+----+\n",
        _OUTSIDE,
    ),
    Case(
        "K12 components: mdx",
        'import Tabs from "@theme/Tabs";\n\n# Set up\n\n<Tab label="Linux">\n\nTake `<Rope>`.\n\n'
        "</Tab>\n\n```jsx\n<Tab/>\n```\n",
        "Linux",
        "@theme",
    ),
    Case("K13 raised numbers: docx", a_docx(f"<w:p><w:r><w:t>It is 10</w:t></w:r>{_RUN}</w:p>"), "10^5"),
    Case("K13 raised numbers: rtf", r"{\rtf1 It is 10{\super 5} N.\par}", "10^5 N"),
    Case(
        "K13 raised numbers: odt",
        _text("<text:p>It is 10<text:span text:style-name='S'>5</text:span> N.</text:p>", _HIGH),
        "10^5 N",
    ),
    Case("K13 raised numbers: pptx", a_pptx(_shape("5", properties='baseline="30000"')), "10^5"),
    Case(
        "K13 marks of notes: epub",
        an_epub("<p>The pier<a href='#n'><sup>a</sup></a>.</p><p><sup>a</sup>Old.</p>"),
        "The pier[a].",
    ),
    Case(
        "K14 equations: html",
        _page(f"<p>It is <math>{_SUM}<msup><mn>10</mn><mn>5</mn></msup></math>.</p>"),
        "(a+b)/c10^5",
    ),
    Case("K14 equations: epub", an_epub(f"<p>It is <math>{_SUM}</math>.</p>"), "(a+b)/c"),
    Case("K14 equations: pptx", a_pptx(a_shape("It is:").replace("</a:p>", f"{_OMML}</a:p>")), "(a+b)/c"),
    Case("K14 equations: rtf", r"{\rtf1 It is {\*\moMath{\mf{\mnum{\mr a+b}}{\mden{\mr c}}}}.\par}", "(a+b)/c"),
    Case(
        "K14 equations: odt",
        _with(
            _text('<text:p>It is <draw:frame><draw:object xlink:href="./Object 1"/></draw:frame></text:p>'),
            {"Object 1/content.xml": f"<math>{_SUM}</math>"},
        ),
        "It is (a+b)/c",
    ),
    Case(
        "K14 limits: docx",
        a_docx(
            f'<w:p><m:oMath xmlns:m="{_OFFICE}/math"><m:limLow><m:e><m:r><m:t>lim</m:t></m:r></m:e>'
            "<m:lim><m:r><m:t>n→0</m:t></m:r></m:lim></m:limLow></m:oMath></w:p>"
        ),
        "lim_{n→0}",
    ),
    Case("K15 dates that were typed: pptx", a_pptx(a_shape("Dues"), a_shape("3 May 1927", place="dt")), "3 May 1927"),
    Case(
        "K7 messages without headers: mbox",
        "From a Mon Jun 01 10:00:00 2009\n\nThe pier is closed.\n\nFrom b Mon Jun 01 11:00:00 2009\n\nIt is open.\n",
        "The pier is closed.",
        "From b",
    ),
    Case(
        "K22 macro sheets: xlsm",
        _with(
            an_xlsx(Tide=[["It rises."]], Run=[["=HALT()"]]),
            {
                "xl/_rels/workbook.xml.rels": parts_of(an_xlsx(Tide=[["x"]], Run=[["x"]]))["xl/_rels/workbook.xml.rels"]
                .decode()
                .replace(f'Id="s2" Type="{_OFFICE}/relationships/worksheet', 'Id="s2" Type="x/xlMacrosheet')
            },
        ),
        "It rises.",
        "HALT",
        note="macro",
    ),
    Case(
        "K8 flat files: fodt", _flat("text", "<text:h>Tide</text:h>\n<text:p>It rises.</text:p>"), "# Tide\n\nIt rises."
    ),
    Case("K8 flat files: txt", _flat("presentation", "<draw:page><text:p>It rises.</text:p></draw:page>"), "It rises."),
    Case("K8 flat files: fods", _flat("spreadsheet", _SHEET.format("")), "# A\n\nIt rises."),
    Case(
        "K22 charts: ods",
        _with(
            an_opendocument("spreadsheet", _SHEET.format(_DRAWN)),
            {"O/content.xml": parts_of(_text("<text:p>Depth in m</text:p>"))["content.xml"]},
        ),
        "It rises.\n\nDepth in m",
    ),
    Case(
        "K22 text boxes: ods",
        an_opendocument(
            "spreadsheet",
            _SHEET.format("<draw:frame><draw:text-box><text:p>At ebb.</text:p></draw:text-box></draw:frame>"),
        ),
        "It rises.\n\nAt ebb.",
    ),
    Case(
        "K22 titles of charts from cells: docx",
        _with(
            a_docx(f"<w:p><w:r><c:chart xmlns:c='c' xmlns:r='{_OFFICE}/relationships' r:id='x'/></w:r></w:p>"),
            {
                "word/_rels/document.xml.rels": _linked("chart", "chart.xml"),
                "word/chart.xml": (
                    "<c:chartSpace xmlns:c='c'><c:valAx><c:title><c:tx><c:strRef><c:strCache><c:pt>"
                    "<c:v>Depth in m</c:v></c:pt></c:strCache></c:strRef></c:tx></c:title></c:valAx></c:chartSpace>"
                ),
            },
        ),
        "Depth in m",
    ),
    Case("K14 struck text: pptx", a_pptx(_shape("9", properties='strike="sngStrike"')), "~~9~~"),
    Case(
        "K15 reading order: odp",
        an_opendocument(
            "presentation", f"<draw:page>{_at(1, 9, 'Third')}{_at(12, 1, 'Second')}{_at(1, 1, 'First')}</draw:page>"
        ),
        "First\n\nSecond\n\nThird",
    ),
    Case("K16 narrow columns: pdf", a_drawn_pdf(_NARROW), "The crew of the\nTern won the\nrowing cup again."),
    Case(
        "K17 property list: xml",
        "<?xml version='1.0'?><plist><dict><key>Timeout</key><integer>30</integer></dict></plist>",
        "Timeout: 30",
    ),
    Case("K17 pictures in text: md", f"# Pier\n\n![Plan]({_PICTURE})\n", "Plan", "base64"),
    Case(
        "K17 pictures in text: ipynb",
        json.dumps({"cells": [{"cell_type": "markdown", "source": f"![Plan]({_PICTURE})"}]}),
        "Plan",
        "base64",
    ),
    Case("K22 pictures: odt", _with(_text("<text:p>Text.</text:p>"), {"Pictures/1.png": b"x"}), note="picture"),
    Case(
        "K22 pictures: docx",
        _with(
            a_docx("<w:p><w:r><w:t>Text.</w:t></w:r></w:p>"),
            {"word/_rels/document.xml.rels": _linked("image", "media/1.png"), "word/media/1.png": b"x"},
        ),
        note="picture",
    ),
    Case("K22 pictures: rtf", r"{\rtf1 Text.{\pict 00}\par}", "Text.", note="picture"),
    Case(
        "K22 embedded files: docx",
        _with(
            a_docx("<w:p><w:r><w:t>Text.</w:t></w:r></w:p>"),
            {
                "word/_rels/document.xml.rels": _linked("package", "embeddings/1.xlsx"),
                "word/embeddings/1.xlsx": an_xlsx(A=[["Rope", "Length"], ["red", 30]]),
            },
        ),
        "Rope: red; Length: 30",
    ),
    Case(
        "K23 cues: sbv",
        "0:00:01.000,0:00:04.000\nThe crane was\n\n0:00:04.000,0:00:07.000\nbuilt in 1927.\n",
        "[00:00:01] The crane was built in 1927.",
    ),
    Case(
        "K23 cues: ass",
        "[Script Info]\n\n[Events]\nDialogue: 0,0:00:01.00,0:00:04.00,Default,,0,0,0,,{\\i1}The crane was\n"
        "Dialogue: 0,0:00:04.00,0:00:07.00,Default,,0,0,0,,built\\Nin 1927.\n",
        "The crane was built in 1927.",
    ),
    Case("K24 links: html", _page(f"<p>Take the <a href='{_ADDRESS}'>form</a>.</p>"), f"[form]({_ADDRESS})"),
    Case(
        "K24 links: rtf",
        rf'{{\rtf1 The {{\field{{\*\fldinst{{HYPERLINK "{_ADDRESS}"}}}}{{\fldrslt{{form}}}}}}.\par}}',
        f"form ({_ADDRESS}).",
    ),
    Case(
        "K24 links: xlsx",
        _with(
            _LEAVE,
            {
                "xl/_rels/sheet1.xml.rels": _linked("hyperlink", _ADDRESS, external=True),
                "xl/sheet1.xml": parts_of(_LEAVE)["xl/sheet1.xml"].replace(
                    b"</worksheet>",
                    b'<hyperlinks><hyperlink xmlns:r="r" ref="B2" r:id="x"/></hyperlinks></worksheet>',
                ),
            },
        ),
        f"[form]({_ADDRESS})",
    ),
    Case(
        "K24 links: ods",
        an_opendocument(
            "spreadsheet",
            "<table:table table:name='A'><table:table-row><table:table-cell "
            f"office:value-type='string'><text:p><text:a xmlns:x='http://www.w3.org/1999/xlink' x:href='{_ADDRESS}'>"
            "form</text:a></text:p></table:table-cell></table:table-row></table:table>",
        ),
        f"[form]({_ADDRESS})",
    ),
    Case(
        "K3 days as names: csv",
        "Shift;Mo;Di;Mi\nEarly;Ines;Olaf;Ann\nLate;Olaf;Ann;Ines\n",
        "Shift: Late; Mo: Olaf; Di: Ann",
    ),
    Case("K12 lists that count down: html", _page("<ol reversed><li>Ready</li><li>Set</li></ol>"), "2. Ready\n1. Set"),
    Case(
        "K17 targets: xml",
        "<?xml version='1.0'?><feed><title>Quay</title><entry><title>Ferry</title>"
        f"<link href='{_ADDRESS}'/><summary>It is called Skua.</summary></entry></feed>",
        _ADDRESS,
    ),
    Case(
        "K24 links in a table: html",
        _page(
            f"<table><tr><th>What</th><th>Where</th></tr>"
            f"<tr><td>Leave</td><td><a href='{_ADDRESS}'>form</a></td></tr></table>"
        ),
        f"[form]({_ADDRESS})",
    ),
    Case(
        "K24 links below an address: html",
        _page("<p>Take the <a href='/leave_(form)'>form</a>.</p>", "<base href='https://forms.example.org/'>"),
        f"[form]({_ADDRESS})",
    ),
    Case("K25 hidden shapes: pptx", a_pptx(_shape("seen") + _shape("SECRET", 'hidden="1"')), "seen", "SECRET"),
    Case(
        "K25 hidden parts: html",
        _page("<div hidden><p>SECRET of the quay and its masters.</p></div>"),
        "book",
        "SECRET",
    ),
    Case(
        "K25 sizes of nothing: xlsx",
        _with(
            an_xlsx(A=[["a", "b"], ["c", "SECRET"]]),
            {
                "xl/sheet1.xml": parts_of(an_xlsx(A=[["a", "b"], ["c", "SECRET"]]))["xl/sheet1.xml"].replace(
                    b'<row r="2">', b'<row r="2" ht="0">'
                )
            },
        ),
        "a | b",
        "SECRET",
        note="hidden",
    ),
]


def _read(case: Case) -> Extraction:
    data = case.data.encode() if isinstance(case.data, str) else case.data
    return extract(data, Hints(filename=f"a.{case.name.rpartition(' ')[2]}"))


@pytest.mark.parametrize("case", _CASES, ids=lambda case: case.name)
def test_a_file_is_read_as_a_careful_reader_would(case: Case) -> None:
    read = _read(case)

    assert case.shown in read.text
    assert not case.hidden or case.hidden not in read.text
    assert not case.note or case.note in {note.code for note in read.notes}
    if case.together:
        made = chunks(read.text, tokens=Bytes(1_000), pages=read.pages)
        assert any(all(part in embedded_of(each.text, each.table_header) for part in case.together) for each in made)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.rst", "Restart\n=======\n\n:Author: Ines Petry\n\nText.\n"),
        ("a.adoc", "= Restart\nInes Petry <i@example.org>\n\nText.\n"),
        ("a.org", "#+TITLE: Restart\n#+AUTHOR: Ines Petry\n\nText.\n"),
        (
            "a.ipynb",
            '{"cells": [{"cell_type": "raw", "source": "Text."}], "metadata": {"authors": [{"name": "Ines Petry"}]}}',
        ),
        (
            "a.html",
            _page("", '<script type="application/ld+json">{"@graph": [{"author": {"name": "Ines Petry"}}]}</script>'),
        ),
    ],
)
def test_who_wrote_a_file_is_kept(name: str, text: str) -> None:
    assert extract(text.encode(), Hints(filename=name)).file["author"] == "Ines Petry"
