# ruff: noqa: E501 - an attack is one line, however long
"""Makes hostile files from a seed: valid files of every format, then broken, inflated, nested and mislabelled.

Nothing is stored: seed and number reproduce each file.
"""

import binascii
import io
import json
import random
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from tests.unit.services.ingest_worker.files import (
    a_docx,
    a_docx_of,
    a_pdf,
    a_pptx,
    a_shape,
    a_zip,
    an_epub,
    an_opendocument,
    an_xlsx,
)

LARGEST: Final = 3 << 20  # bytes of a file
_HUGE: Final = (
    "0",
    "-1",
    "65536",
    "1048577",
    "2147483647",
    "2147483648",
    "4294967295",
    "9223372036854775808",
    "1e309",
    "-9" * 40,
    "9" * 400,
    "NaN",
    "0x7fffffff",
    "1.5",
    "٣",
    "",
)
_TEXT = "The lantern on the pier is lit at six. Herons nest in the old willow; nobody may disturb them before June."


class HostileFile(NamedTuple):
    """A file, and what was done to it."""

    name: str
    data: bytes
    how: str


def hostile_files(seed: int, count: int) -> Iterator[HostileFile]:
    """Yield so many hostile files. With the same seed, a longer run begins with the files of a shorter one."""
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        # Half are made for one format; the others are valid files that get damaged.
        if rng.random() < 0.5:
            kind = rng.choice(sorted(_CLAIMS))
            suffix, data = kind.rpartition(".")[2], _CLAIMS[kind](rng)
        else:
            kind = suffix = rng.choice(sorted(SOUND))
            data = SOUND[suffix](rng)
        told = [kind]
        for _ in range(rng.choice((0, 1, 1, 2)) if kind in _CLAIMS else rng.choice((1, 1, 2, 3))):
            name = rng.choice(sorted(_CHANGES))
            data = _CHANGES[name](rng, data)[:LARGEST]
            told.append(name)
        if rng.random() < 0.1:
            suffix = rng.choice(sorted(SOUND))
            told.append(f"named .{suffix}")
        if rng.random() < 0.1:
            levels = rng.randint(1, 6)
            data, suffix = _wrapped(rng, data, suffix, levels)
            told.append(f"{levels} levels deep")
        yield HostileFile(f"{number}.{suffix}", data[:LARGEST], ", ".join(told))


# Valid files


def _word(rng: random.Random) -> str:
    return rng.choice(_TEXT.split())


def _mail(rng: random.Random) -> bytes:
    part = binascii.b2a_base64(SOUND[rng.choice(("txt", "html", "csv", "pdf"))](rng)).decode()
    return (
        "From: a@example.org\nTo: b@example.org\nSubject: =?utf-8?q?T=C3=A4glich?=\nDate: Mon, 6 May 2024 10:00:00 +0200\n"
        'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="b1"\n\n--b1\nContent-Type: text/plain; '
        f"charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n{_TEXT}=C3=A4\n--b1\nContent-Type: text/html\n"
        f'Content-Disposition: attachment; filename="x.html"\nContent-Transfer-Encoding: base64\n\n{part}\n--b1--\n'
    ).encode()


def _notebook(_: random.Random) -> bytes:
    cells = [
        {"cell_type": "markdown", "source": ["# Lantern\n", _TEXT], "metadata": {}},
        {
            "cell_type": "code",
            "source": "print(1)",
            "execution_count": 1,
            "metadata": {},
            "outputs": [
                {"output_type": "stream", "name": "stdout", "text": ["1\n"]},
                {"output_type": "execute_result", "data": {"text/plain": ["2"]}, "metadata": {}, "execution_count": 1},
                {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["t"]},
            ],
        },
    ]
    return json.dumps({"cells": cells, "metadata": {"kernelspec": {"language": "python"}}, "nbformat": 4}).encode()


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _png(width: int, height: int, *, rows: int = 4) -> bytes:
    header = _chunk(b"IHDR", struct.pack(">IIBBBBB", width & 0xFFFFFFFF, height & 0xFFFFFFFF, 8, 2, 0, 0, 0))
    pixels = zlib.compress(b"\0" * rows * (1 + 3 * min(width, 64)))
    return b"\x89PNG\r\n\x1a\n" + header + _chunk(b"IDAT", pixels) + _chunk(b"IEND", b"")


def _table(rng: random.Random) -> str:
    cell = f"<w:tc><w:tcPr><w:gridSpan w:val='2'/></w:tcPr><w:p><w:r><w:t>{_word(rng)}</w:t></w:r></w:p></w:tc>"
    return f"<w:tbl><w:tr>{cell * 2}</w:tr></w:tbl>"


_LIST = "<w:p><w:pPr><w:numPr><w:ilvl w:val='1'/><w:numId w:val='1'/></w:numPr></w:pPr><w:r><w:t>item</w:t></w:r></w:p>"
_ODF_TABLE = (
    '<table:table><table:table-row table:number-rows-repeated="2"><table:table-cell table:number-columns-repeated="2">'
    '<text:p>cell<text:s text:c="3"/></text:p></table:table-cell></table:table-row></table:table>'
)
_PAGE = (
    f"<html lang=en><head><title>Lantern</title><meta charset=utf-8></head><body><article><h1>Lantern</h1><p>{_TEXT}</p>"
    "<table><tr><td colspan=2 rowspan=2>a</td><td>b</td></tr></table><ul><li>one<li>two</ul></article></body></html>"
)
SOUND: dict[str, Callable[[random.Random], bytes]] = {
    "txt": lambda rng: (_TEXT * rng.randint(1, 30)).encode(),
    "md": lambda _: (
        f"---\ntitle: Lantern\ntags: [a, b]\n---\n# Lantern\n\n{_TEXT}\n\n| a | b |\n|---|---|\n| 1 | 2 |\n".encode()
    ),
    "rst": lambda _: f"Lantern\n=======\n\n{_TEXT}\n".encode(),
    "html": lambda _: _PAGE.encode(),
    "xml": lambda _: f'<?xml version="1.0"?><a xmlns:b="c"><title>Lantern</title><b:p>{_TEXT}</b:p></a>'.encode(),
    "json": lambda _: json.dumps({"a": [1, 2.5, None, True, {"text": _TEXT}], "b": {"c": "d"}}).encode(),
    "jsonl": lambda rng: b"\n".join(json.dumps({"n": n, "t": _word(rng)}).encode() for n in range(20)),
    "csv": lambda rng: "\n".join(f'{n},"{_word(rng)}, x",{n * 2}' for n in range(30)).encode(),
    "ipynb": _notebook,
    "pdf": lambda rng: a_pdf(*(f"{_TEXT}\npage {n}" for n in range(rng.randint(1, 4))), title="Lantern"),
    "docx": lambda rng: a_docx(
        f"<w:p><w:r><w:t>{_TEXT}</w:t></w:r></w:p>{_table(rng)}{_LIST}",
        styles="<w:style w:styleId='a'><w:basedOn w:val='a'/><w:name w:val='heading 1'/></w:style>",
        numbering="<w:abstractNum w:abstractNumId='1'><w:lvl w:ilvl='1'><w:start w:val='7'/><w:numFmt w:val='lowerRoman'/>"
        "<w:lvlText w:val='%1.%2'/></w:lvl></w:abstractNum><w:num w:numId='1'><w:abstractNumId w:val='1'/></w:num>",
    ),
    "pptx": lambda _: a_pptx(a_shape("Lantern", place="title"), a_shape(_TEXT), notes={0: "a note"}),
    "xlsx": lambda _: an_xlsx(
        merged=["A1:B2"], box="box", A=[["name", "n"], ["lantern", 1.5], ["x", 44000]], B=[["y"]]
    ),
    "odt": lambda _: an_opendocument(
        "text", f'<text:h text:outline-level="2">L</text:h><text:p>{_TEXT}</text:p>{_ODF_TABLE}'
    ),
    "ods": lambda _: an_opendocument("spreadsheet", _ODF_TABLE),
    "odp": lambda _: an_opendocument(
        "presentation",
        f'<draw:page draw:name="p"><draw:frame><draw:text-box><text:p>{_TEXT}</text:p></draw:text-box></draw:frame></draw:page>',
    ),
    "epub": lambda _: an_epub(f"<h1>One</h1><p>{_TEXT}</p>", "<p>Two</p>"),
    "rtf": lambda _: (
        r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}}{\info{\title L}}\pard\b " + _TEXT + r"\b0\par\'e4\u228?{\*\x y}"
        r"\trowd\cellx100 a\cell\row{\footnote n}{\pict\pngblip 89504e47}}"
    ).encode(),
    "eml": _mail,
    "zip": lambda rng: a_zip({"a/b.txt": _TEXT, "c.csv": "1,2\n3,4", "d.docx": a_docx_of(_word(rng))}),
    "png": lambda _: _png(8, 4),
    "gif": lambda _: (
        b"GIF89a\x08\0\x04\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x08\0\x04\0\0\x02\x05\x84\x8f\xa9\xcb\x02\0;"
    ),
    "bmp": lambda _: (
        b"BM" + struct.pack("<IHHIIiiHHIIiiII", 70, 0, 0, 54, 40, 2, 2, 1, 24, 0, 16, 1, 1, 0, 0) + b"\0" * 16
    ),
}


# False claims, and structures that no program writes


def _claim(rng: random.Random) -> int:
    return rng.choice((0, -1, 20_001, 65_535, 1_000_000, 2**31 - 1, 2**31, 2**32 - 1, 2**63))


def _depth(rng: random.Random) -> int:
    return rng.choice((50, 300, 2_000, 20_000, 100_000))


def _pdf(objects: list[str | bytes], *, trailer: str = "") -> bytes:
    body = b"".join(
        b"%d 0 obj\n%s\nendobj\n" % (number, text.encode() if isinstance(text, str) else text)
        for number, text in enumerate(objects, start=1)
    )
    return b"%PDF-1.7\n" + body + f"trailer\n<< /Root 1 0 R {trailer} >>\n%%EOF".encode()


def _pdf_tree(rng: random.Random) -> bytes:
    """Return a PDF whose tree of pages is deep, wide, circular, or has a false count."""
    depth = min(_depth(rng), 20_000)
    kids = {
        "deep": [f"<< /Type /Pages /Kids [{n + 3} 0 R] /Count {_claim(rng)} >>" for n in range(depth)]
        + ["<< /Type /Page /MediaBox [0 0 9 9] >>"],
        "circle": [
            "<< /Type /Pages /Kids [2 0 R 3 0 R] /Count 9 >>",
            "<< /Type /Pages /Kids [2 0 R 2 0 R] /Count 9 >>",
        ],
        "wide": [
            f"<< /Type /Pages /Kids [{'3 0 R ' * depth}] /Count {depth} >>",
            "<< /Type /Page /MediaBox [0 0 9 9] >>",
        ],
        "count": [
            f"<< /Type /Pages /Kids [3 0 R] /Count {_claim(rng)} >>",
            "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 1e30 -1e30] >>",
        ],
    }[rng.choice(("deep", "circle", "wide", "count"))]
    return _pdf(["<< /Type /Catalog /Pages 2 0 R /Outlines 2 0 R >>", *kids], trailer=f"/Size {_claim(rng)}")


def _pdf_stream(rng: random.Random) -> bytes:
    """Return a PDF of one page with a stream that unpacks to much, or not at all."""
    filters = " ".join(
        rng.choices(
            ("/FlateDecode", "/LZWDecode", "/ASCII85Decode", "/RunLengthDecode", "/DCTDecode", "/JPXDecode"),
            k=rng.randint(1, 5),
        )
    )
    unit = rng.choice((b" ", b"BT (x) Tj ET ", b"q ", b"[" * 9, b"1 0 0 1 0 0 cm ", b"(" * 50))
    stream = zlib.compress(unit * (rng.choice((1000, 10_000_000)) // len(unit)), 1)
    for _ in range(rng.randint(0, 2)):
        stream = zlib.compress(stream)
    length = rng.choice((len(stream), 0, -5, 10**12))
    content = (
        f"<< /Length {length} /Filter [{filters}] /DecodeParms << /Columns {_claim(rng)} /Predictor 15 >> >>\nstream\n"
    )
    font = f"<< /Type /Font /Subtype /Type0 /FirstChar {_claim(rng)} /LastChar {_claim(rng)} /ToUnicode 4 0 R >>"
    page = "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 99 99] /Contents [4 0 R 4 0 R] /Resources << /Font << /F 5 0 R >> >> >>"
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "<< /Type /Pages /Kids [3 0 R] /Count 1 >>", page]
    return _pdf([*objects, content.encode() + stream + b"\nendstream", font])


def _pdf_outline(rng: random.Random) -> bytes:
    """Return a PDF whose outline or form is circular or very deep."""
    depth = min(_depth(rng), 20_000)
    names = [
        "<< /Type /Catalog /Pages 2 0 R /Outlines 4 0 R /AcroForm << /Fields [4 0 R] >> /Names 4 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 99 99] >>",
    ]
    link = rng.choice(("First", "Next", "Kids", "Parent"))
    nodes = [
        f"<< /Title (t) /T (t) /V (v) /{link} {5 + n} 0 R /Dest [3 0 R] /Count {_claim(rng)} >>" for n in range(depth)
    ]
    last = f"<< /Title (end) /{link} {rng.choice((4, 4 + depth))} 0 R >>"
    return _pdf([*names, *nodes, last])


def _pdf_references(rng: random.Random) -> bytes:
    """Return a PDF whose cross-reference table or object streams refer to themselves."""
    data = a_pdf("page one", "page two")
    at = data.rindex(b"startxref")
    return {
        "prev": data.replace(b"trailer\n<<", b"trailer\n<< /Prev %d" % data.index(b"xref\n")),
        "start": data[:at] + b"startxref\n%d\n%%%%EOF" % _claim(rng),
        "stream": _pdf(
            [
                "<< /Type /Catalog /Pages 2 0 R >>",
                "<< /Type /ObjStm /N 2147483647 /First 99999999 /Extends 2 0 R /Length 9 >>\nstream\n1 0 2 0 3\nendstream",
            ]
        ),
        "length": data.replace(b"/Length", b"/Length 9 0 R /L"),
        "encrypt": data.replace(
            b"/Root",
            b"/Encrypt << /Filter /Standard /V %d /R 9 /O (x) /U (y) /P -1 >> /ID [(a)(b)] /Root" % rng.randint(0, 9),
        ),
        "encrypt itself": data.replace(b"/Root", b"/Encrypt 1 0 R /Root"),
    }[rng.choice(("prev", "start", "stream", "length", "encrypt", "encrypt itself"))]


def _image(rng: random.Random) -> bytes:
    """Return an image that claims to be huge."""
    width, height = rng.choice(((65_535, 65_535), (2**31 - 1, 2**31 - 1), (1, 2**31 - 1), (0, 0), (100_000, 100_000)))
    tiff = (
        b"II*\0\x08\0\0\0"
        + struct.pack("<H", 6)
        + b"".join(
            struct.pack("<HHII", tag, 4, 1, value & 0xFFFFFFFF)
            for tag, value in ((256, width), (257, height), (258, 8), (259, 1), (273, 8), (279, 2**32 - 1))
        )
        + rng.choice((b"\0\0\0\0", b"\x08\0\0\0"))
    )
    return {
        "png": lambda: _png(width, height),
        "png text": lambda: _png(9, 9).replace(b"IDAT", b"zTXt", 1),
        "png chunks": lambda: b"\x89PNG\r\n\x1a\n" + _chunk(b"iCCP", b"x\0\0" + zlib.compress(b"\0" * 20_000_000)) * 3,
        "gif": lambda: (
            b"GIF89a\xff\xff\xff\xff\xf7\0\0" + b"\0" * 768 + b",\0\0\0\0\xff\xff\xff\xff\0\x08\xff" + b"\xaa" * 255
        ),
        "bmp": lambda: (
            b"BM"
            + struct.pack(
                "<IHHIIIIHHIIiiII", 70, 0, 0, 54, 40, width & 0xFFFFFFFF, height & 0xFFFFFFFF, 1, 24, 0, 16, 1, 1, 0, 0
            )
        ),
        "tiff": lambda: tiff,
        "webp": lambda: (
            b"RIFF\xff\xff\xff\xffWEBPVP8X\x0a\0\0\0\0\0\0\0" + b"\xff" * 6 + b"VP8L\xff\xff\xff\x7f/" + b"\xff" * 40
        ),
        "jpeg": lambda: (
            b"\xff\xd8\xff\xc0\0\x11\x08\xff\xff\xff\xff\x03\x01\x22\0\x02\x11\x01\x03\x11\x01\xff\xda\0\x0c\x03\x01\0\x02\x11\x03\x11\0?\0"
            + b"\xff\0" * 100
            + b"\xff\xd9"
        ),
    }[rng.choice(("png", "png text", "png chunks", "gif", "bmp", "tiff", "webp", "jpeg"))]()


def _rtf(rng: random.Random) -> bytes:
    depth = _depth(rng)
    return {
        "braces": b"{\\rtf1 " + b"{\\b " * depth + b"x",
        "bin": b"{\\rtf1 a\\bin%d " % _claim(rng) + b"x" * 200 + b" b}",
        "unicode": b"{\\rtf1\\uc%d " % _claim(rng) + b"\\u%d ?" % _claim(rng) + b"\\u55357 ?" * 500 + b"}",
        "hex": b"{\\rtf1 " + b"\\'zz\\'" * depth + b"}",
        "lists": b"{\\rtf1{\\*\\listtable"
        + b"{\\list\\listid%d{\\listlevel\\levelstartat%d}}" % (_claim(rng), _claim(rng)) * 50
        + b"}\\ls%d\\ilvl%d item\\par}" % (_claim(rng), _claim(rng)),
        "table": b"{\\rtf1\\trowd"
        + b"\\cellx%d" % _claim(rng) * min(depth, 5000)
        + b" a\\cell\\row" * 50
        + b"\\itap%d b\\nestcell}" % _claim(rng),
        "words": b"{\\rtf1 \\" + b"a" * 200_000 + b"%d}" % _claim(rng),
    }[rng.choice(("braces", "bin", "unicode", "hex", "lists", "table", "words"))]


def _odf(rng: random.Random) -> bytes:
    kind = rng.choice(("text", "spreadsheet", "presentation"))
    repeats = f'table:number-rows-repeated="{_claim(rng)}"', f'table:number-columns-repeated="{_claim(rng)}"'
    row = f"<table:table-row {repeats[0]}><table:table-cell {repeats[1]}><text:p>x</text:p></table:table-cell></table:table-row>"
    body = rng.choice(
        (
            f"<table:table>{row * rng.choice((1, 300))}</table:table>",
            f'<text:p>a<text:s text:c="{_claim(rng)}"/>b</text:p>' * rng.choice((1, 200)),
            f'<text:h text:outline-level="{_claim(rng)}">x</text:h>',
            "<text:list><text:list-item>" * min(_depth(rng), 20_000) + "<text:p>x</text:p>",
            "<table:table><table:table-row><table:table-cell>" * min(_depth(rng), 5_000) + "<text:p>x</text:p>",
            f'<table:table><table:table-row><table:table-cell table:number-rows-spanned="{_claim(rng)}" table:number-columns-spanned="{_claim(rng)}"/></table:table-row></table:table>',
            "<draw:page><draw:frame><draw:text-box>" * min(_depth(rng), 5_000) + "<text:p>x</text:p>",
        )
    )
    return an_opendocument(kind, body)


def _word_file(rng: random.Random) -> bytes:
    many = min(_depth(rng), 20_000)
    body = rng.choice(
        (
            f"<w:tbl><w:tr><w:tc><w:tcPr><w:gridSpan w:val='{_claim(rng)}'/></w:tcPr><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tc></w:tr></w:tbl>",
            f"<w:p><w:pPr><w:numPr><w:ilvl w:val='{_claim(rng)}'/><w:numId w:val='{_claim(rng)}'/></w:numPr></w:pPr><w:r><w:t>x</w:t></w:r></w:p>"
            * 50,
            f"<w:p><w:pPr><w:outlineLvl w:val='{_claim(rng)}'/></w:pPr><w:r><w:t>x</w:t></w:r></w:p>",
            "<w:tbl><w:tr><w:tc>" * many + "<w:p><w:r><w:t>x</w:t></w:r></w:p>",
            "<w:sdt><w:sdtContent>" * many + "<w:p><w:r><w:t>x</w:t></w:r></w:p>" + "</w:sdtContent></w:sdt>" * many,
            "<w:p><w:hyperlink r:id='x'>"
            + "<w:r><w:fldChar w:fldCharType='begin'/></w:r>" * many
            + "</w:hyperlink></w:p>",
            "<w:p><w:r><w:footnoteReference w:id='1'/></w:r></w:p>" * many,
            "<w:p><w:r><w:sym w:char='ZZZZ' w:font='Symbol'/><w:t>x</w:t></w:r></w:p>",
            "<w:altChunk r:id='aFChunk'/>" * 20,
        )
    )
    numbering = f"""<w:abstractNum w:abstractNumId='1'><w:lvl w:ilvl='{_claim(rng)}'><w:start w:val='{_claim(rng)}'/><w:numFmt w:val='upperRoman'/>
      <w:lvlText w:val='%1%2%3%4%5%6%7%8%9'/></w:lvl></w:abstractNum><w:num w:numId='{_claim(rng)}'><w:abstractNumId w:val='1'/></w:num>"""
    styles = "".join(f"<w:style w:styleId='s{n}'><w:basedOn w:val='s{(n + 1) % 900}'/></w:style>" for n in range(900))
    note = "<w:footnote w:id='1'><w:p><w:r><w:footnoteReference w:id='1'/><w:t>x</w:t></w:r></w:p></w:footnote>"
    chunk = a_docx("<w:altChunk r:id='aFChunk'/>").decode("latin-1") if rng.random() < 0.5 else "<html><p>x</p></html>"
    return a_docx(body, styles=styles, numbering=numbering, footnotes=note, aFChunk=chunk)


def _excel_file(rng: random.Random) -> bytes:
    plain = an_xlsx(
        merged=rng.sample(("A1:XFD1048576", "B2:A1", "ZZZZ9:A1", "A0:A-1", ":"), 3), A=[["name", "n"], ["x", 1.0]]
    )
    cells = {
        "corner": b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>',
        "place": b'<row r="%d"><c r="AAAAAAAA%d"><v>1</v></c></row></sheetData>' % (_claim(rng), _claim(rng)),
        "shared": b'<row r="9"><c r="A9" t="s"><v>%d</v></c><c r="B9" t="s"><v>x</v></c></row></sheetData>'
        % _claim(rng),
        "date": b'<row r="9"><c r="A9" t="d"><v>9999-99-99</v></c><c r="B9" s="%d"><v>1e300</v></c></row></sheetData>'
        % _claim(rng),
        "back": b'<row r="5"><c r="B5"><v>1</v></c><c r="A5"><v>2</v></c></row><row r="2"><c><v>3</v></c></row></sheetData>',
        "wide": b'<row r="9">' + b"<c><v>1</v></c>" * min(_depth(rng), 40_000) + b"</row></sheetData>",
    }[rng.choice(("corner", "place", "shared", "date", "back", "wide"))]
    return _part_changed(plain, "xl/sheet1.xml", lambda part: part.replace(b"</sheetData>", cells))


def _part_changed(package: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    book = zipfile.ZipFile(io.BytesIO(package))
    return a_zip({each: change(book.read(each)) if each == name else book.read(each) for each in book.namelist()})


def _markup(rng: random.Random) -> bytes:
    depth = _depth(rng)
    tag = rng.choice(
        ("div", "table><tr><td", "b", "font", "ul><li", "blockquote", "svg", "template", "select", "a href=x")
    )
    return rng.choice(
        (
            "<html><body>" + f"<{tag}>" * depth + _TEXT,
            "<html><body><p " + " ".join(f'a{n}="1"' for n in range(min(depth, 40_000))) + f">{_TEXT}</p>",
            f"<html><body><table><tr><td colspan={_claim(rng)} rowspan={_claim(rng)}>{_TEXT}</td></tr></table>",
            f"<html><head><meta charset='{rng.choice(('utf-7', 'utf-16', 'x-user-defined', 'idna', 'rot13', 'undefined', 'base64', 'zip', chr(0)))}'></head><body>{_TEXT}",
            f"<html><body>{'&amp' * depth}&#{_claim(rng)};&#x110000;&#xD800;{_TEXT}",
            "<html><!--" + "-" * depth + f"<body><![CDATA[{_TEXT}",
            f"<html><body><pre>{' ' * depth}{_TEXT}</pre><ol start={_claim(rng)}><li value={_claim(rng)}>x",
            f"<html><body>{'<p>' + _TEXT}<base href='http://['><a href='http://[::1'>x</a><link rel=canonical href='//\\x:99999'>",
        )
    ).encode()


def _laughs(rng: random.Random) -> bytes:
    levels, each = rng.randint(3, 12), rng.choice((2, 10, 100))
    entities = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * each}">' for n in range(levels))
    root = rng.choice(("a", "svg", "rss", "html"))
    url = rng.choice(("file:///etc/passwd", "http://127.0.0.1:1/x", "expect://id", "php://filter"))
    outer = f'<!ENTITY x SYSTEM "{url}"><!ENTITY % y SYSTEM "{url}"> %y;'
    entity = rng.choice((f"&e{levels};", "&x;", "&undefined;", "&#0;"))
    return f'<?xml version="1.{_claim(rng)}"?><!DOCTYPE {root} [<!ENTITY e0 "ha">{entities}{outer}]><{root}>{entity}{_TEXT}</{root}>'.encode()


def _json(rng: random.Random) -> bytes:
    depth = _depth(rng)
    return rng.choice(
        (
            "[" * depth,
            '{"a":' * depth + "1" + "}" * depth,
            "[" * depth + "]" * depth,
            '{"a": ' + "9" * min(depth, 50_000) + "}",
            '{"a": 1e999999, "b": -0.0, "c": NaN, "d": "\\ud800", "e": "\\u0000"}',
            "{" + ",".join('"a":1' for _ in range(depth)) + "}",
            '"' + "\\" * depth,
            "[" + "1," * depth,
        )
    ).encode()


def _notebook_of_others(rng: random.Random) -> bytes:
    """Return a notebook with values of other types at random places."""
    book = json.loads(_notebook(rng))

    def changed(value: Any) -> Any:
        if rng.random() < 0.15:
            return rng.choice((None, 7, "x", [], {}, [[[]]], {"a": None}, True, -1e308, ["x", 7, None]))
        if isinstance(value, dict):
            return {key: changed(each) for key, each in value.items()}
        return [changed(each) for each in value] if isinstance(value, list) else value

    return json.dumps(changed(book)).encode()


def _chunks_file(rng: random.Random) -> bytes:
    chunk: dict[str, Any] = {"text": _TEXT, "metadata": {"a": 1}}
    odd: Any = rng.choice(
        (None, 7, [], {}, {"text": 7}, {"text": ""}, {"text": "\ud800"}, {"text": _TEXT, "metadata": _claim(rng)})
    )
    return json.dumps({"chunks": [chunk, odd] * rng.choice((1, 500)), "version": _claim(rng)}).encode()


def _rows(rng: random.Random) -> bytes:
    many = min(_depth(rng), 20_000)
    return rng.choice(
        (
            "a,b\n" + '"' * many,
            '"' + "a,\n" * many,
            ",".join("x" for _ in range(many)) + "\n" + ",".join("y" for _ in range(many)),
            "a;b\tc|d\n" * 50 + "\0" * 50,
            "\n" * many + "a,b\n1,2",
            "a,b\n" + "=cmd|' /C calc'!A0," * 20,
            "\ufeff" * 20 + "a,b\r1,2\r\r\n3",
            "a,b\n" + "x" * 300_000 + ",y",
        )
    ).encode()


def _marks(rng: random.Random) -> bytes:
    many = min(_depth(rng), 20_000)
    aliases = "a0: &a0 [x]\n" + "".join(f"a{n + 1}: &a{n + 1} [{','.join([f'*a{n}'] * 9)}]\n" for n in range(12))
    return rng.choice(
        (
            "*a_" * many,
            "[" * many + "](" * many,
            "`" * many + "x",
            "> " * many + "x",
            "- " * many + "x",
            "#" * many + " x",
            "|" * many + "\n|" + "-|" * many,
            "![x](" * many,
            "<a " * many,
            "&" * many,
            "_" * many + "x" + "*" * many,
            f"---\n{aliases}---\n{_TEXT}",
            f"---\ntitle: !!python/object/apply:os.system [x]\n---\n{_TEXT}",
            f"---\ntitle: {'[' * many}\n---\n{_TEXT}",
            f"---\ntags: {{a: [1, {_claim(rng)}]}}\ndate: 9999-99-99\ntitle: [1, 2]\n---\n{_TEXT}",
            "```" + "x" * many + "\n" + _TEXT,
            "\r".join(["x"] * many),
            "1. " * many + "x",
            "[x]: <" * many,
        )
    ).encode()


def _message(rng: random.Random) -> bytes:
    many = min(_depth(rng), 5_000)
    return rng.choice(
        (
            "".join(f"Content-Type: multipart/mixed; boundary=b{n}\n\n--b{n}\n" for n in range(many)) + _TEXT,
            "From: a\n" + "Content-Type: message/rfc822\n\nFrom: a\n" * many + "\n" + _TEXT,
            f"From: a\nContent-Type: text/plain; charset={rng.choice(('undefined', 'idna', 'utf-7', 'x' * 5000, 'rot13', '=?', 'unicode_escape'))}\n\n{_TEXT}",
            "From: a\nContent-Transfer-Encoding: base64\n\n" + "!@#$" * many,
            f"From: a\nContent-Transfer-Encoding: uuencode\n\nbegin 644 ../../x\n{'M' * many}\n",
            "From: " + "=?utf-8?b?" * many + "\nTo: b\n\n" + _TEXT,
            "From: " + "(" * many + "\nTo: b\nSubject: " + "=?utf-8?q?=ff=fe?=" * 50 + "\n\n" + _TEXT,
            "From: a\nTo: " + "a@b, " * many + "\nDate: Mon, 99 Foo 99999 99:99:99 +9999\n\n" + _TEXT,
            f"From: a\nContent-Type: multipart/mixed; boundary={chr(34)}{'b' * 5000}\n\n--{'b' * 5000}\n{_TEXT}",
            (
                "From: a\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Disposition: attachment; "
                f'filename*0="..";filename*1="/x.zip"; filename*=utf-8\'{"%" * 50}\n\nPK\x03\x04\n--b--'
            ),
            "From: a\nX: " + "y" * 500_000 + "\n\n" + _TEXT,
            'From: a\nMIME-Version: 1.0\nContent-Type: multipart/related; type="text/html"; boundary=b\n\n--b\nContent-Location: cid:\n\n--b\n--b\n--b',
        )
    ).encode("utf-8", "surrogatepass")


def _book(rng: random.Random) -> bytes:
    plain = an_epub(
        "<p>x</p>",
        encryption=rng.choice(
            (
                "",
                "<encryption/>",
                '<a><EncryptionMethod Algorithm="x"/><CipherReference URI="OEBPS/text/c%200.xhtml"/></a>',
            )
        ),
    )
    return {
        "spine": lambda: _part_changed(
            plain,
            "OEBPS/book.opf",
            lambda part: part.replace(b'<itemref idref="c0"/>', b'<itemref idref="c0"/>' * 20_000),
        ),
        "itself": lambda: _part_changed(
            plain, "OEBPS/book.opf", lambda part: part.replace(b"text/c%200.xhtml", b"book.opf")
        ),
        "outside": lambda: _part_changed(
            plain,
            "OEBPS/book.opf",
            lambda part: part.replace(
                b"text/", rng.choice((b"../../../etc/passwd#", b"file:///etc/", b"http://127.0.0.1/", b"%00%ff"))
            ),
        ),
        "container": lambda: _part_changed(
            plain, "META-INF/container.xml", lambda part: part.replace(b"OEBPS/book.opf", b"META-INF/container.xml")
        ),
    }[rng.choice(("spine", "itself", "outside", "container"))]()


def _archive(rng: random.Random) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        kind = rng.choice(("names", "many", "zeros", "nested", "same", "links"))
        if kind == "names":
            for name in (
                "../../etc/cron.d/x.txt",
                "/abs.txt",
                "C:\\x.txt",
                "a/" * 400 + "x.txt",
                "x\0y.txt",
                "con.txt",
                "\u202etxt.exe",
                ".",
            ):
                archive.writestr(zipfile.ZipInfo(name), _TEXT)
        elif kind == "many":
            for number in range(rng.choice((2_000, 12_000))):
                archive.writestr(zipfile.ZipInfo(f"{number}.txt"), "x", zipfile.ZIP_STORED)
        elif kind == "zeros":
            archive.writestr(
                zipfile.ZipInfo("zeros.txt"), rng.choice((b"\0", b"a ")) * (60 << 20), zipfile.ZIP_DEFLATED, 1
            )
        elif kind == "nested":
            inner = a_zip({"a.txt": "a " * (1 << 20)})
            for _ in range(rng.randint(1, 8)):
                inner = a_zip({f"{n}.zip": inner for n in range(rng.randint(1, 6))})
            archive.writestr(zipfile.ZipInfo("in.zip"), inner)
        elif kind == "links":
            link = zipfile.ZipInfo("link.txt")
            link.external_attr = 0o120777 << 16
            archive.writestr(link, "/etc/passwd")
        else:
            for name in ("a.txt", "A.TXT", "./a.txt", "a.txt "):
                archive.writestr(zipfile.ZipInfo(name), _TEXT)
    return out.getvalue()


_CLAIMS: dict[str, Callable[[random.Random], bytes]] = {
    "tree.pdf": _pdf_tree,
    "stream.pdf": _pdf_stream,
    "outline.pdf": _pdf_outline,
    "references.pdf": _pdf_references,
    "image.png": _image,
    "groups.rtf": _rtf,
    "repeats.odt": _odf,
    "repeats.ods": _odf,
    "numbers.docx": _word_file,
    "cells.xlsx": _excel_file,
    "tags.html": _markup,
    "laughs.xml": _laughs,
    "laughs.svg": _laughs,
    "deep.json": _json,
    "types.ipynb": _notebook_of_others,
    "types.json": _chunks_file,
    "rows.csv": _rows,
    "marks.md": _marks,
    "parts.eml": _message,
    "spine.epub": _book,
    "archive.zip": _archive,
    "parts.docx": lambda rng: a_docx(
        f"<w:p><w:r><w:t>&e{rng.randint(0, 9)};</w:t></w:r></w:p>",
        prolog=_laughs(rng).decode().partition("?>")[2].rpartition("]>")[0] + "]>",
    ),
}


# Kinds of damage


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _flipped(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 8, 64, 500)) if changed else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _repeated(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data) + 1)
    piece = data[start : start + rng.choice((1, 20, 500))]
    return data[:start] + piece * rng.choice((2, 100, 5_000)) + data[start:]


def _numbers(rng: random.Random, data: bytes) -> bytes:
    """Replace some of the numbers that are written as digits."""
    found = [*re.finditer(rb"-?\d+", data)]
    chosen = sorted(rng.sample(found, min(len(found), rng.choice((1, 3, 20)))), key=lambda each: -each.start())
    for each in chosen:
        data = data[: each.start()] + rng.choice(_HUGE).encode() + data[each.end() :]
    return data


def _fields(rng: random.Random, data: bytes) -> bytes:
    """Overwrite some two or four bytes with the largest, the smallest and no number."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 4, 20))):
        field = rng.choice(
            (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\0", b"\xff\xff", b"\0\x80")
        )
        place = rng.randrange(len(changed) + 1)
        changed[place : place + len(field)] = field
    return bytes(changed)


def _spliced(rng: random.Random, data: bytes) -> bytes:
    other = SOUND[rng.choice(sorted(SOUND))](rng)
    place = rng.randrange(len(data) + 1)
    return rng.choice((data + other, other + data, data[:place] + other + data[place:], data[:place] + other))


def _recoded(rng: random.Random, data: bytes) -> bytes:
    codec = rng.choice(("utf-16-le", "utf-16-be", "utf-16", "utf-32", "utf-7", "cp037", "utf-8-sig"))
    return data.decode("latin-1").encode(codec, "replace")


def _with_zeros(rng: random.Random, data: bytes) -> bytes:
    place = rng.randrange(len(data) + 1)
    return (
        data[:place]
        + rng.choice((b"\0", b"\xed\xa0\x80", b"\xc0\xaf", b"\x1b[2J", b"\xff\xfe", b"\r")) * rng.choice((1, 300))
        + data[place:]
    )


def _part(rng: random.Random, data: bytes) -> bytes:
    """Change one part of a container, and pack it again."""
    try:
        book = zipfile.ZipFile(io.BytesIO(data))
        parts = {name: book.read(name) for name in book.namelist()}
    except (
        zipfile.BadZipFile,
        OSError,
        ValueError,
        NotImplementedError,
        RuntimeError,
        EOFError,
        zlib.error,
        struct.error,
    ):
        return _flipped(rng, data)
    if not parts:
        return data
    name = rng.choice(sorted(parts))
    if sum(map(len, parts.values())) > 8 * LARGEST:
        return data
    match rng.randrange(4):
        case 0:
            del parts[name]
        case 1:
            parts[name] = parts[rng.choice(sorted(parts))]
        case 2:
            parts[name] = _laughs(rng)
        case _:
            inner = rng.choice(sorted(set(_CHANGES) - {"a part"}))
            parts[name] = _CHANGES[inner](rng, parts[name])[: 4 * LARGEST]
    return a_zip(dict(parts))


def _directory(rng: random.Random, data: bytes) -> bytes:
    """Change a field of a container's entries: sizes, method, flags, checksum."""
    mark, size = rng.choice(((b"PK\x01\x02", 46), (b"PK\x03\x04", 30), (b"PK\x05\x06", 22)))
    places = [each.start() for each in re.finditer(re.escape(mark), data)]
    if not places:
        return _fields(rng, data)
    changed = bytearray(data)
    for place in rng.sample(places, min(len(places), 3)):
        at = place + rng.randrange(4, size)
        changed[at : at + 2] = rng.choice((b"\xff\xff", b"\0\0", b"\x01\0", b"\x63\0"))
    return bytes(changed)


_CHANGES: dict[str, Callable[[random.Random, bytes], bytes]] = {
    "cut off": _cut,
    "bits flipped": _flipped,
    "a piece repeated": _repeated,
    "numbers replaced": _numbers,
    "fields overwritten": _fields,
    "spliced with another": _spliced,
    "in another encoding": _recoded,
    "with odd bytes": _with_zeros,
    "a part": _part,
    "the directory": _directory,
}


def _wrapped(rng: random.Random, data: bytes, suffix: str, levels: int) -> tuple[bytes, str]:
    for _ in range(levels):
        if rng.random() < 0.5:
            data, suffix = a_zip({f"in.{suffix}": data}), "zip"
        else:
            part = binascii.b2a_base64(data).decode()
            head = 'From: a\nTo: b\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="w"\n\n--w\n'
            name = f'Content-Disposition: attachment; filename="in.{suffix}"\nContent-Transfer-Encoding: base64\n\n'
            data, suffix = f"{head}{name}{part}\n--w--\n".encode(), "eml"
    return data, suffix
