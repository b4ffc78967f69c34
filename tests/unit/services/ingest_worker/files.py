"""Builders of small files."""

import io
import struct
import zipfile
from collections.abc import Iterable, Mapping, Sequence

from pypdf import PdfReader, PdfWriter


def a_drawn_pdf(*pages: Iterable[tuple[float, float, str]], lines: str = "", turn: int = 0) -> bytes:
    """Return a PDF with each text at its place, in points from the lower left corner; `lines` is drawn on each page.

    Pages are turned by `turn` degrees, and so is what is on them, so that they are shown upright.
    """
    matrix = {0: "1 0 0 1 0 0", 90: "0 1 -1 0 612 0", 180: "-1 0 0 -1 612 792", 270: "0 -1 1 0 0 792"}[turn]
    contents = [
        f"q {matrix} cm {lines} " + "".join(f"BT /F1 10 Tf {x} {y} Td ({text}) Tj ET " for x, y, text in page) + "Q"
        for page in pages
    ]
    return _pdf(contents, None, f"/Rotate {turn}")


def a_pdf(*pages: str, title: str | None = None) -> bytes:
    """Return a PDF with one page per text; lines end in a line feed, an empty text is an empty page."""
    shown = ("".join(f"({line}) Tj T* " for line in text.split("\n") if line) for text in pages)
    return _pdf([f"BT /F1 12 Tf 14 TL 72 720 Td {each}ET" for each in shown], title)


def _pdf(pages: Sequence[str], title: str | None, inherited: str = "") -> bytes:
    """Return a PDF of pages with these contents."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    bold = "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold /Encoding /WinAnsiEncoding >>"
    inherited += f" /MediaBox [0 0 612 792] /Resources << /Font << /F1 3 0 R /F2 {bold} >> >>"
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} {inherited} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
    ]
    for number, content in enumerate(pages):
        objects += [
            f"<< /Type /Page /Parent 2 0 R /Contents {5 + 2 * number} 0 R >>",
            f"<< /Length {len(content)} >>\nstream\n{content}\nendstream",
        ]
    info = ""
    if title is not None:
        objects.append(f"<< /Title ({title}) >>")
        info = f" /Info {len(objects)} 0 R"
    out, offsets = "%PDF-1.4\n", []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    table = "".join(f"{offset:010d} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    out += (
        f"xref\n0 {size}\n0000000000 65535 f \n{table}"
        f"trailer\n<< /Size {size} /Root 1 0 R{info} >>\nstartxref\n{len(out)}\n%%EOF\n"
    )
    return out.encode("latin-1")


def locked(pdf: bytes, password: str) -> bytes:
    """Return the PDF, encrypted."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf)))
    writer.encrypt(password, algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def parts_of(data: bytes) -> dict[str, bytes]:
    """Return the parts of a ZIP container by name."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def a_zip(parts: Mapping[str, bytes | str]) -> bytes:
    """Return a ZIP container of the parts."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def an_ole(name: str, stream: bytes) -> bytes:
    """Return an OLE file with one stream, which has at least 4,096 bytes. Sectors: directory, tables, stream."""
    free, end = 0xFFFF_FFFF, 0xFFFF_FFFE
    stream += bytes(max(0, 4096 - len(stream)))
    held = -(-len(stream) // 512)
    tables = -(-(held + 3) // 126)  # there is room for the few sectors besides the stream's
    lists = -(-max(0, tables - 109) // 127)
    first = 1 + tables + lists
    follow = [end, *[0xFFFF_FFFD] * tables, *[0xFFFF_FFFC] * lists, *range(first + 1, first + held), end]
    numbers = [*range(1, 1 + tables), *[free] * (109 + 127 * lists - tables)]
    more = [[*numbers[109 + 127 * at :][:127], 1 + tables + at + 1 if at + 1 < lists else end] for at in range(lists)]
    head = bytearray(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".ljust(512, b"\0"))
    struct.pack_into("<HHHHH", head, 24, 0x3E, 3, 0xFFFE, 9, 6)
    struct.pack_into("<IIIIIIII", head, 44, tables, 0, 0, 4096, end, 0, 1 + tables if lists else end, lists)
    struct.pack_into("<109I", head, 76, *numbers[:109])
    entry = struct.Struct("<64sHBBIII36xIQ").pack
    root = entry("Root Entry".encode("utf-16-le"), 22, 5, 1, free, free, 1, end, 0)
    leaf = entry(name.encode("utf-16-le"), 2 * len(name) + 2, 2, 1, free, free, free, first, len(stream))
    table = struct.pack(f"<{128 * tables}I", *follow, *[free] * (128 * tables - len(follow)))
    listed = b"".join(struct.pack("<128I", *each) for each in more)
    return bytes(head) + (root + leaf).ljust(512, b"\0") + table + listed + stream.ljust(512 * held, b"\0")


def an_ole_of_small(streams: Mapping[str, bytes]) -> bytes:
    """Return an OLE file whose streams share one, of 8 kB at most. Sectors: tables, directory, pieces."""
    free, end = 0xFFFF_FFFF, 0xFFFF_FFFE
    names = sorted(streams, key=lambda name: (len(name), name))
    pieces, starts, follow = b"", list[int](), list[int]()
    for name in names:
        starts.append(len(follow))
        held = max(1, -(-len(streams[name]) // 64))
        follow += [*range(len(follow) + 1, len(follow) + held), end]
        pieces += streams[name].ljust(64 * held, b"\0")
    listed, shared = -(-(len(names) + 1) // 4), -(-len(pieces) // 512)
    entry = struct.Struct("<64sHBBIII36xIQ").pack
    rows = [("Root Entry", 5, free, 1, 2 + listed, len(pieces))]
    for at, (name, start) in enumerate(zip(names, starts, strict=True), 1):
        rows.append((name, 2, at + 1 if at < len(names) else free, free, start, len(streams[name])))
    directory = b"".join(
        entry(name.encode("utf-16-le"), 2 * len(name) + 2, kind, 1, free, right, child, start, size)
        for name, kind, right, child, start, size in rows
    )
    head = bytearray(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".ljust(512, b"\0"))
    struct.pack_into("<HHHHH", head, 24, 0x3E, 3, 0xFFFE, 9, 6)
    struct.pack_into("<IIIIIIII", head, 44, 1, 2, 0, 4096, 1, 1, end, 0)
    struct.pack_into("<109I", head, 76, 0, *[free] * 108)
    table = [0xFFFF_FFFD, end, *range(3, 2 + listed), end, *range(3 + listed, 2 + listed + shared), end]
    both = b"".join(struct.pack("<128I", *each, *[free] * (128 - len(each))) for each in (table, follow))
    return bytes(head) + both + directory.ljust(512 * listed, b"\0") + pieces.ljust(512 * shared, b"\0")


_OFFICE = "http://schemas.openxmlformats.org"
_CORE = f"""<cp:coreProperties xmlns:cp="{_OFFICE}/package/2006/metadata/core-properties"
 xmlns:dc="http://purl.org/dc/elements/1.1/" xmlns:dcterms="http://purl.org/dc/terms/"><dc:title>The tide</dc:title>
 <dc:description>Of the harbour.</dc:description><dcterms:created>2024-05-01T10:00:00Z</dcterms:created>
 <dcterms:modified>2024-06-01T10:00:00Z</dcterms:modified></cp:coreProperties>"""


def _package(main: str, kind: str, parts: Mapping[str, bytes | str], *, title: str = "The tide") -> bytes:
    types = f"""<Types xmlns="{_OFFICE}/package/2006/content-types">
 <Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>
 <Default Extension="xml" ContentType="application/xml"/>
 <Override PartName="/{main}" ContentType="application/vnd.openxmlformats-officedocument.{kind}.main+xml"/></Types>"""
    rels = f"""<Relationships xmlns="{_OFFICE}/package/2006/relationships"><Relationship Id="r1" Target="{main}"
 Type="{_OFFICE}/officeDocument/2006/relationships/officeDocument"/></Relationships>"""
    return a_zip(
        {
            "[Content_Types].xml": types,
            "_rels/.rels": rels,
            "docProps/core.xml": _CORE.replace("The tide", title),
            **parts,
        }
    )


_RELATIONS = f'<Relationships xmlns="{_OFFICE}/package/2006/relationships">{{}}</Relationships>'


def a_docx(body: str, *, prolog: str = "", title: str = "The tide", **others: str) -> bytes:
    """Return a Word file with the body's XML (prefixes w, r), and that of others by kind: `styles`, `header`, `chart` …

    The kind is also the id by which the body refers to it.
    """
    relations = f"{_OFFICE}/officeDocument/2006/relationships"
    space = f'xmlns:w="{_OFFICE}/wordprocessingml/2006/main" xmlns:r="{relations}"'
    links = "".join(f'<Relationship Id="{name}" Type="{relations}/{name}" Target="{name}.xml"/>' for name in others)
    parts: dict[str, bytes | str] = {
        "word/document.xml": f"{prolog}<w:document {space}><w:body>{body}</w:body></w:document>",
        "word/_rels/document.xml.rels": _RELATIONS.format(links),
    }
    for name, content in others.items():
        parts[f"word/{name}.xml"] = content if name == "aFChunk" else f"<w:{name} {space}>{content}</w:{name}>"
    return _package("word/document.xml", "wordprocessingml.document", parts, title=title)


def a_docx_of(*paragraphs: str) -> bytes:
    """Return a Word file with the paragraphs."""
    return a_docx("".join(f"<w:p><w:r><w:t>{text}</w:t></w:r></w:p>" for text in paragraphs))


def a_pptx(*slides: str, notes: Mapping[int, str] | None = None, chart: str = "") -> bytes:
    """Return a PowerPoint file with a slide of each XML (prefixes p, a); `notes` by the slide's number from 0.

    Every slide may refer to the chart of that XML as `chart`.
    """
    spaces = f'xmlns:p="{_OFFICE}/presentationml/2006/main" xmlns:a="{_OFFICE}/drawingml/2006/main"'
    relations = f"{_OFFICE}/officeDocument/2006/relationships"
    ids = "".join(f'<p:sldId id="{256 + at}" r:id="s{at}"/>' for at in range(len(slides)))
    links = "".join(
        f'<Relationship Id="s{at}" Type="{relations}/slide" Target="slides/slide{len(slides) - at}.xml"/>'
        for at in range(len(slides))
    )
    parts = {
        "ppt/presentation.xml": f"""<p:presentation {spaces} xmlns:r="{relations}">
 <p:sldIdLst>{ids}</p:sldIdLst></p:presentation>""",
        "ppt/_rels/presentation.xml.rels": _RELATIONS.format(links),
    }
    for at, slide in enumerate(slides):
        name = f"slide{len(slides) - at}.xml"  # not in the order of their names
        parts[f"ppt/slides/{name}"] = f"<p:sld {spaces}><p:cSld><p:spTree>{slide}</p:spTree></p:cSld></p:sld>"
        link = f'<Relationship Id="chart" Type="{relations}/chart" Target="../chart.xml"/>' if chart else ""
        if text := (notes or {}).get(at):
            parts[f"ppt/notesSlides/n{at}.xml"] = f"<p:notes {spaces}>{a_shape(text)}</p:notes>"
            link += f'<Relationship Id="n" Type="{relations}/notesSlide" Target="../notesSlides/n{at}.xml"/>'
        parts[f"ppt/slides/_rels/{name}.rels"] = _RELATIONS.format(link)
    if chart:
        parts["ppt/chart.xml"] = chart
    return _package("ppt/presentation.xml", "presentationml.presentation", parts)


def a_shape(*lines: str, place: str | None = None) -> str:
    """Return a slide's shape with the lines; `place` is the kind of its place holder."""
    holder = f'<p:nvSpPr><p:nvPr><p:ph type="{place}"/></p:nvPr></p:nvSpPr>' if place else ""
    paragraphs = "".join(f"<a:p><a:r><a:t>{line}</a:t></a:r></a:p>" for line in lines)
    return f"<p:sp>{holder}<p:txBody>{paragraphs}</p:txBody></p:sp>"


def an_xlsx(*, merged: Sequence[str] = (), box: str = "", **sheets: list[list[str | float]]) -> bytes:
    """Return an Excel file with the sheets' rows; on each the cells of those ranges are one, a box has that text."""
    main, relations = f"{_OFFICE}/spreadsheetml/2006/main", f"{_OFFICE}/officeDocument/2006/relationships"
    entries = "".join(f'<sheet name="{name}" sheetId="{at}" r:id="s{at}"/>' for at, name in enumerate(sheets, start=1))
    links = "".join(
        f'<Relationship Id="s{at}" Type="{relations}/worksheet" Target="sheet{at}.xml"/>'
        for at in range(1, len(sheets) + 1)
    )
    parts = {
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{relations}"><sheets>{entries}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f"""<Relationships xmlns="{_OFFICE}/package/2006/relationships">
 {links}</Relationships>""",
    }
    ranges = "".join(f'<mergeCell ref="{each}"/>' for each in merged)
    for at, rows in enumerate(sheets.values(), start=1):
        lines = "".join(_row(number, row) for number, row in enumerate(rows, start=1))
        parts[f"xl/sheet{at}.xml"] = f"""<worksheet xmlns="{main}"><sheetData>{lines}</sheetData>
 <mergeCells>{ranges}</mergeCells></worksheet>"""
        if box:
            link = f'<Relationship Id="d" Type="{relations}/drawing" Target="box.xml"/>'
            parts[f"xl/_rels/sheet{at}.xml.rels"] = _RELATIONS.format(link)
            parts["xl/box.xml"] = f'<d xmlns:p="p" xmlns:a="a">{a_shape(box)}</d>'
    return _package("xl/workbook.xml", "spreadsheetml.sheet", parts)


def _row(number: int, row: Sequence[str | float]) -> str:
    cells = "".join(_cell(f"{chr(65 + at)}{number}", value) for at, value in enumerate(row))
    return f'<row r="{number}">{cells}</row>'


def _cell(place: str, value: str | float) -> str:
    if value == "":
        return ""
    if isinstance(value, str):
        return f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>'
    return f'<c r="{place}"><v>{value}</v></c>'


_OPEN = "urn:oasis:names:tc:opendocument:xmlns"


def an_opendocument(kind: str, body: str, *, styles: str = "", locked: bool = False) -> bytes:
    """Return an OpenDocument file of a kind (text, presentation, spreadsheet) with the body's XML."""
    out = io.BytesIO()
    spaces = " ".join(
        f'xmlns:{name}="{_OPEN}:{name}:1.0"' for name in ("office", "text", "table", "meta", "presentation")
    )
    spaces += f' xmlns:draw="{_OPEN}:drawing:1.0" xmlns:dc="http://purl.org/dc/elements/1.1/"'
    content = f"""<office:document-content {spaces}>{styles}
 <office:body><office:{kind}>{body}</office:{kind}></office:body>
 </office:document-content>"""
    meta = f"""<office:document-meta {spaces}><office:meta><dc:title>The tide</dc:title><dc:language>en-GB</dc:language>
 <meta:creation-date>2024-05-01T10:00:00</meta:creation-date><meta:initial-creator>Ada</meta:initial-creator></office:meta></office:document-meta>"""
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("mimetype"), f"application/vnd.oasis.opendocument.{kind}")
        archive.writestr("content.xml", content)
        archive.writestr("meta.xml", meta)
        archive.writestr("META-INF/manifest.xml", "<manifest:encryption-data/>" if locked else "<manifest:manifest/>")
    return out.getvalue()


def an_epub(*chapters: str, encoded: bytes = b"", encryption: str = "") -> bytes:
    """Return a book; each chapter is the body of its page, `encoded` the first one as a whole."""
    items = "".join(f'<item id="c{at}" href="text/c%20{at}.xhtml"/>' for at in range(len(chapters)))
    spine = "".join(f'<itemref idref="c{at}"/>' for at in range(len(chapters)))
    package = f"""<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/"><metadata>
 <dc:title>Tides</dc:title><dc:language>en</dc:language></metadata><manifest>{items}</manifest><spine>{spine}</spine></package>"""
    container = '<container><rootfiles><rootfile full-path="OEBPS/book.opf"/></rootfiles></container>'
    parts: dict[str, bytes | str] = {
        f"OEBPS/text/c {at}.xhtml": f"<html><body>{body}</body></html>" for at, body in enumerate(chapters)
    }
    if encoded:
        parts["OEBPS/text/c 0.xhtml"] = encoded
    if encryption:
        parts["META-INF/encryption.xml"] = encryption
    return a_zip({"META-INF/container.xml": container, "OEBPS/book.opf": package, **parts})
