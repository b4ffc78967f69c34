"""Files made to swell, to hang and to reach out, through real parser processes."""

import asyncio
import io
import socket
import zipfile
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from email.message import EmailMessage
from pathlib import Path

import psutil
import pytest

from services.ingest_worker.extract import Hints
from services.ingest_worker.parsers import ParserPool
from shared.errors import Rejected, RetryLater
from tests.e2e.faults import rounds
from tests.e2e.load import new_seed
from tests.integration.hostile_files import hostile_files
from tests.integration.hostile_run import internals
from tests.selection import CI_ONLY
from tests.unit.services.ingest_worker.files import (
    a_docx,
    a_docx_of,
    a_pptx,
    a_shape,
    a_zip,
    an_epub,
    an_opendocument,
    an_xlsx,
)

_MB = 1 << 20
_BOMB_S = 60.0  # five times the bar of 12 s: a guard against hanging, not a measurement
_CODES = {"empty", "unsupported", "damaged", "password", "timeout", "too_large"}


@pytest.fixture
async def pool() -> AsyncIterator[ParserPool]:
    pool = ParserPool(1)
    yield pool
    await pool.close()


async def _ended(pool: ParserPool, data: bytes, filename: str) -> str:
    """Return the text, or the code of the refusal."""
    try:
        return (await pool.extract(data, Hints(filename=filename), tenant="default")).text
    except (Rejected, RetryLater) as refusal:
        honest = refusal.code in _CODES and filename in refusal.sentence and not internals(refusal.sentence)
        return refusal.code if honest else f"dishonest: {refusal.code}: {refusal.sentence}"


def _swelling(name: str, size: int, *, start: bytes = b"", unit: bytes = b"a", end: bytes = b"") -> bytes:
    """Return a ZIP container with one large part of repeated units."""
    out = io.BytesIO()
    with (
        zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(name, "w", force_zip64=True) as part,
    ):
        part.write(start)
        block = unit * (_MB // len(unit))
        for _ in range(size // _MB):
            part.write(block)
        part.write(end)
    return out.getvalue()


def _laughs(root: str = "a", *, levels: int = 9) -> str:
    entities = "".join(f'<!ENTITY e{level + 1} "{f"&e{level};" * 10}">' for level in range(levels))
    return f'<?xml version="1.0"?><!DOCTYPE {root} [<!ENTITY e0 "ha">{entities}]>'


def _pdf_of(stream: bytes, filters: str) -> bytes:
    page = b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 99 99] /Contents 4 0 R >>"
    content = f"<< /Length {len(stream)} /Filter {filters} >>\nstream\n".encode() + stream + b"\nendstream"
    objects = (b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>", page, content)
    body = b"".join(b"%d 0 obj\n%s\nendobj\n" % numbered for numbered in enumerate(objects, start=1))
    return b"%PDF-1.4\n" + body + b"trailer\n<< /Root 1 0 R >>\n%%EOF"


def _packed(size: int, unit: bytes = b" ") -> bytes:
    packer = zlib.compressobj(1)
    block = unit * (_MB // len(unit))
    return b"".join([*(packer.compress(block) for _ in range(size // _MB)), packer.flush()])


def _nested_mail() -> bytes:
    return b"From: a@b\nTo: c@d\n" + b"".join(
        b"Content-Type: multipart/mixed; boundary=b%d\n\n--b%d\n" % (at, at) for at in range(2000)
    )


def _far_corner() -> bytes:
    """Return a sheet of two cells, as far from each other as they can be."""
    book = zipfile.ZipFile(io.BytesIO(an_xlsx(A=[["near"]])))
    parts: dict[str, bytes | str] = {name: book.read(name) for name in book.namelist()}
    row = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
    sheet = book.read("xl/sheet1.xml").replace(b"</sheetData>", row).replace(b"<c t=", b'<c r="A1" t=')
    return a_zip({**parts, "xl/sheet1.xml": sheet})


_W = b'<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body>'
_PARAGRAPH = b"<w:p><w:r><w:t>x</w:t></w:r></w:p>"
_ATTRIBUTES = " ".join(f'a{number}="1"' for number in range(40_000))
_BOMBS: dict[str, Callable[[], bytes]] = {
    "archives.zip": lambda: a_zip({f"{at}.zip": _swelling("a.txt", 8 * _MB) for at in range(40)}),
    "zeros.zip": lambda: _swelling("a.txt", 300 * _MB),
    "deflated.pdf": lambda: _pdf_of(_packed(200 * _MB), "/FlateDecode"),
    "twice.pdf": lambda: _pdf_of(zlib.compress(_packed(200 * _MB)), "[/FlateDecode /FlateDecode]"),
    "words.pdf": lambda: _pdf_of(_packed(100 * _MB, b"BT (x) Tj ET "), "/FlateDecode"),
    "laughs.xml": (_laughs() + "<a>&e9;</a>").encode,
    "laughs.svg": (_laughs("svg") + "<svg>&e9;</svg>").encode,
    "laughs.docx": lambda: a_docx("<w:p><w:r><w:t>&e9;</w:t></w:r></w:p>", prolog=_laughs()),
    "laughs.odt": lambda: a_zip(
        {"content.xml": _laughs() + "<a><body><p>&e9;</p></body></a>", "mimetype": "application/x"}
    ),
    "laughs.xlsx": lambda: an_xlsx(A=[["x"]]).replace(b"docProps/core.xml", b"docProps/cora.xml"),
    "paragraphs.docx": lambda: _swelling("word/document.xml", 93 * _MB, start=_W, unit=_PARAGRAPH),
    "empties.docx": lambda: _swelling("word/document.xml", 18 * _MB, start=_W, unit=b"<w:p/>"),
    "node.docx": lambda: _swelling("word/document.xml", 150 * _MB, start=_W + b"<w:p><w:r><w:t>"),
    "attributes.docx": lambda: a_docx(f"<w:p {_ATTRIBUTES}><w:r><w:t>x</w:t></w:r></w:p>"),
    "attributes.xml": f"<?xml version='1.0'?><a {_ATTRIBUTES}>x</a>".encode,
    "attributes.html": f"<html><body><p {_ATTRIBUTES}>x</p></body></html>".encode,
    "tables.docx": lambda: a_docx("<w:tbl><w:tr><w:tc>" * 20_000),
    "chapter.epub": lambda: an_epub("<p>" + "x " * (40 * _MB) + "</p>"),
    "mails.eml": _nested_mail,
    "braces.rtf": lambda: b"{\\rtf1 " + b"{\\b " * 500_000,
    "corner.xlsx": _far_corner,
}


@pytest.mark.slow
@CI_ONLY
@pytest.mark.timeout(1800)
async def test_bombs_hurt_nobody(pool: ParserPool) -> None:
    assert (
        await pool.extract(a_docx_of("Still here."), Hints(filename="first.docx"), tenant="default")
    ).text == "Still here."
    us = psutil.Process()

    for name, bomb in _BOMBS.items():
        data = bomb()
        idle = us.memory_info().rss
        ended = await asyncio.wait_for(_ended(pool, data, name), _BOMB_S)

        assert len(data) < 4 * _MB, name
        assert not ended.startswith("dishonest"), (name, ended)
        assert us.memory_info().rss - idle < 100 * _MB, name
    assert (
        await pool.extract(a_docx_of("Still here."), Hints(filename="last.docx"), tenant="default")
    ).text == "Still here."


_ENTITIES = '<!DOCTYPE a [<!ENTITY x SYSTEM "{url}"><!ENTITY % y SYSTEM "{url}"> %y;]>'
_OUTER = '<!DOCTYPE a SYSTEM "{url}">'
_INCLUDE = '<a xmlns:i="http://www.w3.org/2001/XInclude"><i:include href="{url}" parse="text"/>text</a>'
_SHEET = '<?xml version="1.0"?><?xml-stylesheet href="{url}" type="text/xsl"?>'
_RELATION = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="x"'
_LINK = _RELATION + ' Type="http://x/attachedTemplate" Target="{url}" TargetMode="External"/></Relationships>'
_WEB = """<html><head><base href="{url}"><link rel="stylesheet" href="{url}"><script src="{url}"></script></head>
<body><img src="{url}"><iframe src="{url}"></iframe><object data="{url}"></object><p>text</p></body></html>"""


def _with(package: bytes, **parts: str) -> bytes:
    book = zipfile.ZipFile(io.BytesIO(package))
    return a_zip({**{name: book.read(name) for name in book.namelist()}, **parts})


def _mail_of(page: str) -> bytes:
    mail = EmailMessage()
    mail["From"], mail["To"] = "a@example.org", "b@example.org"
    mail.set_content(page, subtype="html")
    return mail.as_bytes()


def _pdf_that_reaches_out(url: str) -> bytes:
    action = f"/OpenAction << /S /URI /URI ({url}) >> /AA << /WC << /S /JavaScript /JS (app.launchURL('{url}')) >> >>"
    plain = _pdf_of(_packed(_MB), "/FlateDecode")
    return plain.replace(b"/Type /Catalog", f"/Type /Catalog {action}".encode())


def _pdf_of_a_file(url: str) -> bytes:
    stream = f"/F << /FS /URL /F ({url}) >> /Length".encode()
    return _pdf_of(_packed(_MB), "/FlateDecode").replace(b"/Length", stream)


_WORD = "<w:p><w:r><w:t>text &x;</w:t></w:r></w:p>"
_CARRIERS: dict[str, Callable[[str], bytes]] = {
    "entity.xml": lambda url: (_ENTITIES.format(url=url) + "<a>text &x;</a>").encode(),
    "declared.xml": lambda url: ('<?xml version="1.0"?>' + _ENTITIES.format(url=url) + "<a>text &x;</a>").encode(),
    "dtd.xml": lambda url: ('<?xml version="1.0"?>' + _OUTER.format(url=url) + "<a>text</a>").encode(),
    "include.xml": lambda url: ('<?xml version="1.0"?>' + _INCLUDE.format(url=url)).encode(),
    "sheet.xml": lambda url: (_SHEET.format(url=url) + "<a>text</a>").encode(),
    "schema.xml": lambda url: f'<?xml version="1.0"?><a xsi:schemaLocation="x {url}" xmlns:xsi="x">text</a>'.encode(),
    "entity.svg": lambda url: (_ENTITIES.format(url=url) + f'<svg><image href="{url}"/><a>text &x;</a></svg>').encode(),
    "entity.rss": lambda url: ('<?xml version="1.0"?>' + _ENTITIES.format(url=url) + "<rss>text &x;</rss>").encode(),
    "page.html": lambda url: _WEB.format(url=url).encode(),
    "entity.html": lambda url: (_ENTITIES.format(url=url) + "<html><p>text &x;</p></html>").encode(),
    "page.xhtml": lambda url: ('<?xml version="1.0"?>' + _ENTITIES.format(url=url) + "<html><p>text &x;</p>").encode(),
    "refresh.html": lambda url: f'<html><meta http-equiv="refresh" content="0;url={url}"><p>text</p>'.encode(),
    "picture.md": lambda url: f"---\nimage: !!python/object/apply:os.system [{url}]\n---\n![text]({url})".encode(),
    "entity.docx": lambda url: a_docx(_WORD, prolog=_ENTITIES.format(url=url)),
    "dtd.docx": lambda url: a_docx(_WORD.replace("&x;", ""), prolog=_OUTER.format(url=url)),
    "template.docx": lambda url: _with(a_docx_of("text"), **{"word/_rels/settings.xml.rels": _LINK.format(url=url)}),
    "picture.docx": lambda url: _with(a_docx_of("text"), **{"word/_rels/document.xml.rels": _LINK.format(url=url)}),
    "core.docx": lambda url: _with(
        a_docx_of("text"), **{"docProps/core.xml": _ENTITIES.format(url=url) + "<a><title>&x;</title></a>"}
    ),
    "package.docx": lambda url: _with(a_docx_of("text"), **{"customXml/_rels/item1.xml.rels": _LINK.format(url=url)}),
    "slide.pptx": lambda url: _with(
        a_pptx(a_shape("text")), **{"ppt/slides/_rels/slide1.xml.rels": _LINK.format(url=url)}
    ),
    "entity.pptx": lambda url: _with(
        a_pptx(a_shape("text")), **{"ppt/slides/slide1.xml": _ENTITIES.format(url=url) + f"<a>{a_shape('&x;')}</a>"}
    ),
    "show.pptx": lambda url: _with(
        a_pptx(a_shape("text")), **{"docProps/core.xml": _ENTITIES.format(url=url) + "<a><title>&x;</title></a>"}
    ),
    "link.xlsx": lambda url: _with(an_xlsx(A=[["text"]]), **{"xl/_rels/extra.rels": _LINK.format(url=url)}),
    "formula.xlsx": lambda url: an_xlsx(A=[["text", f'=WEBSERVICE("{url}")'.replace('"', "&quot;")]]),
    "entity.xlsx": lambda url: _with(
        an_xlsx(A=[["text"]]), **{"xl/sharedStrings.xml": _ENTITIES.format(url=url) + "<sst><si><t>&x;</t></si></sst>"}
    ),
    "entity.odt": lambda url: _with(
        an_opendocument("text", "<text:p>text</text:p>"),
        **{"meta.xml": _ENTITIES.format(url=url) + "<a><meta><title>&x;</title></meta></a>"},
    ),
    "picture.odt": lambda url: an_opendocument("text", f'<text:p>text</text:p><draw:image draw:href="{url}"/>'),
    "entity.epub": lambda url: _with(
        an_epub("<p>text</p>"), **{"META-INF/encryption.xml": _ENTITIES.format(url=url) + "<a>&x;</a>"}
    ),
    "page.epub": lambda url: an_epub(_WEB.format(url=url)),
    "page.eml": lambda url: _mail_of(_WEB.format(url=url)),
    "body.eml": lambda url: (
        b'From: a\nTo: b\nContent-Type: message/external-body; access-type=URL; URL="%s"\n\ntext' % url.encode()
    ),
    "field.rtf": lambda url: b'{\\rtf1 text {\\field{\\*\\fldinst INCLUDEPICTURE "%s"}}}' % url.encode(),
    "action.pdf": _pdf_that_reaches_out,
    "stream.pdf": _pdf_of_a_file,
}


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        yield server


@pytest.mark.slow
@CI_ONLY
@pytest.mark.timeout(600)
async def test_what_is_linked_is_neither_read_nor_asked_for(
    pool: ParserPool, listener: socket.socket, tmp_path: Path
) -> None:
    canary = tmp_path / "canary.txt"
    canary.write_text("canary-in-the-file")
    web = f"http://127.0.0.1:{listener.getsockname()[1]}/canary"

    for name, carrier in _CARRIERS.items():
        for url in (canary.as_uri(), web):
            ended = await _ended(pool, carrier(url), name)
            assert "canary-in-the-file" not in ended, name
            assert not ended.startswith("dishonest"), (name, ended)

    assert len(_CARRIERS) >= 30
    with pytest.raises(BlockingIOError):  # nobody waits to be let in
        listener.accept()


@pytest.mark.slow
@CI_ONLY
@pytest.mark.timeout(3600)
async def test_every_file_made_by_a_seed_ends_with_text_or_a_sentence_of_ours(pool: ParserPool) -> None:
    seed, count = new_seed(), rounds(ci=24)
    ends: Counter[str] = Counter()
    wrong: dict[str, str] = {}

    for file in hostile_files(seed, count):
        ended = await _ended(pool, file.data, file.name)
        ends[ended if ended in _CODES else "text"] += 1
        if ended.startswith("dishonest"):
            wrong[f"{file.name}: {file.how}"] = ended

    print(f"{count} hostile files, seed {seed}: {dict(ends)}")
    assert wrong == {}
