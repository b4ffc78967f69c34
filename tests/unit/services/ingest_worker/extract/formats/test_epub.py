import re

import pytest

from services.ingest_worker.extract import Extraction, Hints, extract
from shared.errors import Rejected
from tests.unit.services.ingest_worker.files import a_zip, an_epub, parts_of


def _read(data: bytes) -> Extraction:
    return extract(data, Hints(filename="book.epub"))


def test_chapters_come_in_the_order_of_reading() -> None:
    read = _read(an_epub("<h1>One</h1><p>It rose.</p>", "<h1>Two</h1><p>It fell.</p>"))

    assert read.text == "# One\n\nIt rose.\n\n# Two\n\nIt fell."
    assert (read.title, read.language, read.document_type, read.notes) == ("Tides", "en", "epub", ())


def test_a_chapter_that_is_missing_is_said() -> None:
    read = _read(an_epub("<p>It rose.</p>", "<p>It fell.</p>").replace(b"c 1.xhtml", b"c_1.xhtml"))

    assert read.text == "It rose."
    assert [(each.code, each.place) for each in read.notes] == [("damaged", "OEBPS/text/c 1.xhtml")]


@pytest.mark.parametrize("container", ["<container/>", "", "<rootfile full-path='../../etc/passwd'/>"])
def test_a_book_without_a_table_of_its_parts_is_damaged(container: str) -> None:
    with pytest.raises(Rejected, match=r"^book\.epub is damaged: ") as caught:
        _read(a_zip({"META-INF/container.xml": container}))

    assert caught.value.code == "damaged"


def test_a_chapter_has_the_characters_that_it_says_it_has() -> None:
    chapter = "<?xml version='1.0' encoding='iso-8859-1'?><html><body><p>L'été</p></body></html>".encode("latin-1")
    book = an_epub("<p>x</p>", encoded=chapter)

    assert _read(book).text == "L'été"


def test_a_book_whose_text_is_encrypted_is_locked_and_one_whose_fonts_are_is_not() -> None:
    says = '<encryption><CipherReference URI="OEBPS/{}"/></encryption>'

    assert _read(an_epub("<p>It rose.</p>", encryption=says.format("font.otf"))).text == "It rose."
    with pytest.raises(Rejected, match=r"^book\.epub is encrypted by its publisher") as caught:
        _read(an_epub("<p>It rose.</p>", encryption=says.format("text/c%200.xhtml")))

    assert caught.value.code == "password"


def test_a_link_shows_its_address() -> None:
    page = '<p><a href="https://a.test/f">The form</a>, <a href="c1.xhtml">here</a>, <a href="https://b.test">b.test</a></p>'

    assert _read(an_epub(page)).text == "The form (https://a.test/f), here, b.test (https://b.test)"


def test_a_chapter_without_a_heading_has_the_one_of_the_contents() -> None:
    parts = parts_of(an_epub("<p>It rose.</p>", "<h1>Two</h1><p>It fell.</p>"))
    package = next(name for name in parts if name.endswith(".opf"))
    chapters = [f"text/{name.rpartition('/')[2].replace(' ', '%20')}" for name in parts if name.endswith("xhtml")]
    points = "".join(
        f'<navPoint><navLabel><text>Part {at}: Sand</text></navLabel><content src="{name}#x"/></navPoint>'
        for at, name in enumerate(chapters)
    )
    ncx = '<item id="ncx" href="toc.ncx" media-type="application/x-dtbncx+xml"/>'
    parts[package] = parts[package].replace(b"</manifest>", f"{ncx}</manifest>".encode())
    parts[f"{package.rpartition('/')[0]}/toc.ncx"] = f"<ncx><navMap>{points}</navMap></ncx>".encode()

    read = _read(a_zip(parts))

    assert re.fullmatch(r"# Part \d: Sand\n\nIt rose\.\n\n# Two\n\nIt fell\.", read.text)


def test_the_number_of_a_page_of_print_stands_in_no_sentence() -> None:
    page = '<p>At noon<span xmlns:epub="http://www.idpf.org/2007/ops" epub:type="pagebreak">7</span> it rose.</p>'

    assert _read(an_epub(page)).text == "At noon it rose."


def test_pages_and_landmarks_are_no_chapters() -> None:
    parts = parts_of(an_epub("<p>It rose.</p>", "<p>CHAPTER TWO</p><p>It fell.</p>", "<p>It stayed.</p>"))
    package = next(name for name in parts if name.endswith(".opf"))
    chapters = sorted(name.rpartition("/")[2].replace(" ", "%20") for name in parts if name.endswith(".xhtml"))
    lists = (
        ("toc", (chapters[1], "Chapter Two")),
        ("page-list", (chapters[2], "3")),
        ("landmarks", (chapters[0], "Go")),
    )
    navs = "".join(f'<nav epub:type="{kind}"><a href="text/{to}">{says}</a></nav>' for kind, (to, says) in lists)
    item = '<item id="nav" href="nav.xhtml" properties="nav" media-type="application/xhtml+xml"/>'
    parts[package] = parts[package].replace(b"</manifest>", f"{item}</manifest>".encode())
    html = f'<html xmlns:epub="http://www.idpf.org/2007/ops"><body>{navs}</body></html>'
    parts[f"{package.rpartition('/')[0]}/nav.xhtml"] = html.encode()

    said = "It rose.\n\nCHAPTER TWO\n\nIt fell.\n\nIt stayed."
    assert _read(a_zip(parts)).text == said
    shown, unseen = (f'<itemref idref="nav" linear="{linear}"/></spine>'.encode() for linear in ("yes", "no"))
    parts[package] = parts[package].replace(b"</spine>", shown)
    assert _read(a_zip(parts)).text != said
    parts[package] = parts[package].replace(shown, unseen)
    assert _read(a_zip(parts)).text == said
