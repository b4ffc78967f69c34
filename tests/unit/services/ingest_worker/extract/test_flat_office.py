import base64

import pytest

from services.ingest_worker.extract import Hints, extract
from services.ingest_worker.extract.flat_office import contained
from tests.unit.services.ingest_worker.files import a_docx_of, an_xlsx, parts_of

_PACKAGE = "http://schemas.microsoft.com/office/2006/xmlPackage"
_WORD_2003 = """<?xml version="1.0"?><?mso-application progid="Word.Document"?>
<w:wordDocument xmlns:w="http://schemas.microsoft.com/office/word/2003/wordml" xmlns:o="urn:office">
<o:DocumentProperties><o:Title>Tides</o:Title><o:Author>A. Tern</o:Author></o:DocumentProperties>
<w:styles><w:style w:type="paragraph" w:styleId="Heading1"><w:name w:val="heading 1"/></w:style></w:styles>
<w:body><w:sect><w:p><w:pPr><w:pStyle w:val="Heading1"/></w:pPr><w:r><w:t>The tide</w:t></w:r></w:p>
<w:p><w:r><w:t>It falls, </w:t></w:r><w:hlink w:dest="https://x.org/a"><w:r><w:t>see</w:t></w:r></w:hlink></w:p>
<w:tbl><w:tr><w:tc><w:p><w:r><w:t>Port</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>Depth</w:t></w:r></w:p></w:tc></w:tr>
<w:tr><w:tc><w:p><w:r><w:t>Skua</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>4.2</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
</w:sect></w:body></w:wordDocument>"""


_ABOUT_FLAT = [
    b"<?xml version='1.0'?><a><![CDATA[<p:package xmlns:p='%s'/>]]></a>" % _PACKAGE.encode(),
    b"<html><script><p:package xmlns:p='%s'></p:package></script></html>" % _PACKAGE.encode(),
]


def _flat(data: bytes) -> bytes:
    parts = []
    for name, content in parts_of(data).items():
        xml = content.decode().partition("?>")[2] if content.startswith(b"<?xml") else content.decode()
        inner = f"<p:xmlData>{xml}</p:xmlData>" if "rels" in name else ""
        inner = inner or f"<p:binaryData>{base64.b64encode(content).decode()}</p:binaryData>"
        parts.append(f'<p:part p:name="/{name}" p:contentType="application/xml">{inner}</p:part>')
    return f'<?xml version="1.0"?><p:package xmlns:p="{_PACKAGE}">{"".join(parts)}</p:package>'.encode()


@pytest.mark.parametrize(
    "data", [a_docx_of("The tide falls.", "At nine."), an_xlsx(Harbour=[["Port", "Depth"], ["Skua", 4.2], ["Tern", 5]])]
)
def test_a_flat_package_is_read_like_its_container(data: bytes) -> None:
    assert extract(_flat(data), Hints(filename="a.xml")) == extract(data, Hints(filename="a.xml"))


def test_a_document_of_word_2003_is_read_with_its_title_author_headings_links_and_tables() -> None:
    read = extract(_WORD_2003.encode(), Hints(filename="old.xml"))

    assert (read.document_type, read.title, read.file["author"]) == ("docx", "Tides", "A. Tern")
    assert read.text == (
        "# The tide\n\nIt falls, see (https://x.org/a)\n\n| Port | Depth |\n| --- | --- |\n| Skua | 4.2 |"
    )


def test_lists_of_word_2003_have_their_numbers() -> None:
    def item(text: str, level: int = 0, of: int = 7) -> str:
        said = f'<w:listPr><w:ilvl w:val="{level}"/><w:ilfo w:val="{of}"/><wx:t wx:val="?"/></w:listPr>'
        return f"<w:p><w:pPr>{said}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"

    levels = (
        f'<w:lvl w:ilvl="{at}"><w:start w:val="{start}"/><w:nfc w:val="{kind}"/><w:lvlText w:val="{shown}"/></w:lvl>'
        for at, (start, kind, shown) in enumerate(((3, 0, "%1."), (1, 4, "%2)"), (1, 23, "-")))
    )
    lists = f'<w:lists><w:listDef w:listDefId="4">{"".join(levels)}</w:listDef>'
    lists += '<w:list w:ilfo="7"><w:ilst w:val="4"/></w:list></w:lists>'
    items = item("Shut the valve") + item("Ask first", 1) + item("The mate", 1) + item("Or cook", 2) + item("Stop")
    source = _WORD_2003.replace("<w:styles>", f"{lists}<w:styles>").replace("<w:tbl>", f"{items}<w:tbl>")

    text = extract(source.replace("<w:wordDocument", '<w:wordDocument xmlns:wx="x"').encode(), Hints()).text

    assert "3. Shut the valve\n  a) Ask first\n  b) The mate\n    - Or cook\n4. Stop" in text


@pytest.mark.parametrize(
    "data", [b"<?xml version='1.0'?><package/>", b"office/2006/xmlPackage", b"", b"<p:package office/", *_ABOUT_FLAT]
)
def test_other_files_stay_as_they_are(data: bytes) -> None:
    assert contained(data) is data


def test_a_part_that_is_no_base64_is_left_out_and_entities_do_no_harm() -> None:
    part = '<p:part p:name="/a"><p:binaryData>\u00e4</p:binaryData></p:part>'
    assert parts_of(contained(f'<p:package xmlns:p="{_PACKAGE}">{part}</p:package>'.encode())).keys() == {
        "[Content_Types].xml"
    }
    assert extract(_WORD_2003.replace("<o:Author>", "&x;<o:Author>").encode(), Hints()).title == "Tides"


def test_headers_footers_and_notes_of_word_2003_are_read_at_their_places() -> None:
    def text(words: str) -> str:
        return f"<w:p><w:r><w:t>{words}</w:t></w:r></w:p>"

    note = f"<w:r><w:footnote>{text('By the pilot.')}</w:footnote></w:r>"
    frames = f"<w:sectPr><w:ftr>{text('Page')}</w:ftr><w:hdr>{text('Harbour')}</w:hdr></w:sectPr>"
    data = _WORD_2003.replace("It falls, </w:t></w:r>", f"It falls, </w:t></w:r>{note}")
    data = data.replace("<w:body><w:sect>", f"<w:body><w:sect>{frames}").replace("</w:sect>", f"{frames}</w:sect>")

    read = extract(data.encode(), Hints(filename="old.xml")).text

    assert read.startswith("Harbour\n\n# The tide\n\nIt falls, see (https://x.org/a)\n\nBy the pilot.\n\n|")
    assert read.endswith("|\n\nPage")
