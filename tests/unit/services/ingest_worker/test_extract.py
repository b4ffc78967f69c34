import pytest

from services.ingest_worker.extract import FORMATS, Hints, detect, extract
from shared.errors import Rejected
from tests.unit.services.ingest_worker.files import a_zip


@pytest.mark.parametrize(
    ("data", "filename", "media_type", "expected"),
    [
        (b"%PDF-1.7\n", "a.txt", "text/plain", "pdf"),
        (b"junk before\n%PDF-1.7\n", "a", None, "pdf"),
        (b"<!DOCTYPE html><p>x", "a.pdf", "application/pdf", "html"),
        (b"\xef\xbb\xbf<!-- a -->\n<html><p>x", "a.md", None, "html"),
        (b"<?xml version='1.0'?><html xmlns='x'>", "a.txt", None, "html"),
        (b"<p>a fragment", "a.txt", "text/html; charset=utf-8", "html"),
        (b"not a pdf", "a.txt", "application/pdf", "pdf"),
        (b"# a", "a.txt", "text/markdown", "md"),
        (b"# a", "folder.d/A.MD", "application/octet-stream", "md"),
        (b"# a", "a.md", "text/plain", "md"),
        (b"<p>a fragment", "a.htm", None, "html"),
        (b"<htmlish>", "a", None, "txt"),
        (b"int main() {}", "a.c", "text/x-c", "txt"),
        (b"", ".md", None, "txt"),
    ],
)
def test_the_content_decides_then_the_media_type_then_the_name(
    data: bytes, filename: str, media_type: str | None, expected: str
) -> None:
    assert detect(data, Hints(filename=filename, media_type=media_type)).document_type == expected


def test_sniffing_is_linear_in_hostile_comments() -> None:
    assert detect(b"<!--" * 500_000, Hints()).document_type == "txt"


@pytest.mark.parametrize("data", [b"", b" \n\t\r\n ", b"\xef\xbb\xbf", b"\x00"])
@pytest.mark.parametrize("filename", ["a.txt", "a.md", "a.html"])
def test_a_file_without_text_is_refused_by_name(data: bytes, filename: str) -> None:
    with pytest.raises(Rejected, match=f"^{filename} holds no readable text$") as caught:
        extract(data, Hints(filename=filename))

    assert caught.value.code == "empty"


def test_a_file_without_a_name_is_called_by_its_title() -> None:
    with pytest.raises(Rejected, match=r"^Minutes holds no readable text$"):
        extract(b" ", Hints(title="Minutes"))


def test_without_a_title_of_its_own_a_document_is_called_after_its_file() -> None:
    assert extract(b"some text", Hints(filename="notes/Year 2024.txt", title="x")).title == "Year 2024"
    assert extract(b"some text", Hints(title="Minutes")).title == "Minutes"
    assert extract(b"some text", Hints()).title is None


def test_no_two_formats_claim_the_same_type_or_suffix() -> None:
    for claims in ([form.media_types for form in FORMATS], [form.suffixes for form in FORMATS]):
        assert sum(map(len, claims)) == len(frozenset().union(*claims))


def test_a_file_at_which_a_library_panics_is_damaged() -> None:
    named = (1).to_bytes(4, "little") + "x".encode("utf-16-le")
    sheet = b"\x9c\x01" + bytes([8 + 2 * len(named)]) + bytes(8) + named + named  # by a relation that there isn't
    book = a_zip({"xl/workbook.bin": sheet, "xl/_rels/workbook.bin.rels": "<Relationships/>"})

    with pytest.raises(Rejected, match=r"^a\.xlsb is damaged: it crashed its parser$") as caught:
        extract(book, Hints(filename="a.xlsb"))

    assert caught.value.code == "damaged"
