import pytest

from services.ingest_worker.extract import Hints, extract
from services.ingest_worker.extract.document_properties import declared, file_properties, opening_heading, own_title
from tests.unit.services.ingest_worker.files import (
    a_docx_of,
    a_pdf,
    a_pptx,
    a_shape,
    a_zip,
    an_epub,
    an_opendocument,
    parts_of,
)


@pytest.mark.parametrize(
    ("given", "title"),
    [
        ("Annual report", "Annual report"),
        ("  Annual\n report ", "Annual report"),
        ("Microsoft Word - Annual report", "Annual report"),
        ("untitled", None),
        ("Presentation 1", None),
        ("report.docx", None),
        ("", None),
        (None, None),
        *((given, None) for given in ("Layout 1", "Untitled-1", "Untitled Document", "New Microsoft Word Document")),
        *((given, None) for given in ("a.doc [Compatibility Mode]", "file:///C:/a/b.html", "about:blank", "page 1")),
        *((given, None) for given in ("Presentazione standard di PowerPoint", "plan.odt", "Scan", "tmp5A.tmp")),
        *((given, given) for given in ("Layout of the harbour", "How to write robots.txt", "Print and paper in 1900")),
        *((given, given) for given in ("Introduction to PowerPoint", "Using about:config", "Slide rules", "Node.js")),
    ],
)
def test_a_programs_placeholder_is_no_title(given: str | None, title: str | None) -> None:
    assert own_title(given) == title


@pytest.mark.feature(92)
def test_the_heading_at_the_start_stands_in_for_a_missing_title() -> None:
    assert opening_heading("## Tea\n\nText") == "Tea"
    assert opening_heading("Text\n\n# Tea") is None
    assert declared({"title": "untitled"}, "# Tea\n")["title"] == "Tea"
    assert declared({"title": "Own"}, "# Tea\n")["title"] == "Own"


def test_what_a_file_says_is_texts_of_bounded_number_and_length() -> None:
    says = {
        "created": None,
        "author": "Ada Lovelace; Bo ",
        "keywords": "tide, sea;moon",
        "authors": [{"name": "Cy", "email": "c@example.org"}, {"orcid": 7}],
        "draft": True,
        "a.b[c]": " two\nlines ",
        "": "nameless",
        "long": "x" * 1000,
        "many": [str(number) for number in range(100)],
        "last": "left out",
    }

    found = file_properties(says)

    assert found.pop("many") == [str(number) for number in range(22)]
    assert found == {
        "author": ["Ada Lovelace", "Bo"],
        "keywords": ["tide", "sea", "moon"],
        "authors": ["Cy", "orcid: 7"],
        "draft": "true",
        "a_b_c_": "two lines",
        "long": "x" * 200,
    }


def _signed(file: bytes, part: str, mark: str, more: str) -> bytes:
    parts = parts_of(file)
    return a_zip(parts | {part: parts[part].decode().replace(mark, more + mark, 1)})


_DC = "<dc:creator>Ada</dc:creator>"


@pytest.mark.parametrize(
    "file",
    [
        _signed(a_docx_of("x"), "docProps/core.xml", "<dc:title>", _DC),
        _signed(a_pptx(a_shape("x")), "docProps/core.xml", "<dc:title>", _DC),
        an_opendocument("text", "<text:p>x</text:p>"),
        _signed(an_epub("<p>x</p>"), "OEBPS/book.opf", "<dc:title>", _DC),
        a_pdf("x", title="A) /Author (Ada"),
        b"{\\rtf1{\\info{\\author Ada}{\\company B}} x}",
        b"<!doctype html><html><head><meta name=author content=Ada></head><body><p>x</p></body></html>",
        b"From: Ada\nSubject: x\n\nx",
        b"---\nauthor: Ada\n---\nx",
    ],
)
def test_every_format_says_who_wrote_it(file: bytes) -> None:
    name = "x.eml" if file.startswith(b"From") else "x.md" if file.startswith(b"---") else ""

    assert extract(file, Hints(filename=name)).file["author"] == "Ada"
