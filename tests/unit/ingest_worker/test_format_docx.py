import importlib.util

import pytest

from services.ingest_worker.extract import Extraction, Hints, detect, extract
from shared.errors import Rejected
from tests.unit.ingest_worker.files import a_docx, a_docx_of, a_zip


def _read(data: bytes) -> Extraction:
    return extract(data, Hints(filename="report.docx"))


def test_paragraphs_and_tables_come_as_markdown_with_what_the_file_says_of_itself() -> None:
    cell = "<w:tc><w:p><w:r><w:t>{}</w:t></w:r></w:p></w:tc>"
    rows = "".join(f"<w:tr>{cell.format(a)}{cell.format(b)}</w:tr>" for a, b in (("Port", "Tide"), ("Bath", "12_m")))

    read = _read(a_docx(f"<w:p><w:r><w:t>The sea rose.</w:t></w:r></w:p><w:tbl>{rows}</w:tbl>"))

    assert read.text == "The sea rose.\n\n| Port | Tide |\n| --- | --- |\n| Bath | 12_m |"
    assert (read.title, read.description, read.document_type) == ("The tide", "Of the harbour.", "docx")
    assert (read.created, read.modified) == ("2024-05-01T10:00:00Z", "2024-06-01T10:00:00Z")


def test_it_is_known_by_its_content() -> None:
    assert detect(a_docx_of("x"), Hints(filename="a.txt", media_type="text/plain")).document_type == "docx"


def test_entities_are_not_opened(tmp_path_factory: pytest.TempPathFactory) -> None:
    secret = tmp_path_factory.mktemp("secret") / "canary"
    secret.write_text("canary")
    prolog = f'<!DOCTYPE a [<!ENTITY x SYSTEM "{secret.as_uri()}">]>'

    read = _read(a_docx("<w:p><w:r><w:t>amber &x; lantern</w:t></w:r></w:p>", prolog=prolog))

    assert "amber" in read.text
    assert "canary" not in read.text


@pytest.mark.parametrize(
    "data", [b"no container", a_zip({"a.txt": "x"}), a_docx_of("x" * 999)[:-30], a_zip({"word/document.xml": "<a"})]
)
def test_a_broken_file_is_damaged(data: bytes) -> None:
    with pytest.raises(Rejected, match=r"^report\.docx is damaged: ") as caught:
        _read(data)

    assert caught.value.code == "damaged"


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    with pytest.raises(Rejected, match=r"^report\.docx is not read without the office extra: make extras$") as caught:
        _read(a_docx_of("x"))

    assert caught.value.code == "unsupported"
