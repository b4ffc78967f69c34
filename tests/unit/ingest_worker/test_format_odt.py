import pytest

from services.ingest_worker.extract import Extraction, Hints, extract
from shared.errors import Rejected
from tests.unit.ingest_worker.files import an_opendocument


def _read(body: str, kind: str = "text", *, locked: bool = False) -> Extraction:
    return extract(an_opendocument(kind, body, locked=locked), Hints(filename="a"))


def test_headings_paragraphs_lists_and_tables_come_as_markdown() -> None:
    item = "<text:list-item><text:p>{}</text:p></text:list-item>".format
    cell = "<table:table-cell><text:p>{}</text:p></table:table-cell>".format

    read = _read(
        '<text:h text:outline-level="2">Ebb</text:h>'
        '<text:p>It <text:span>falls<text:s text:c="3"/>twice</text:span>.</text:p>'
        f"<text:list>{item('One')}{item('Two')}</text:list>"
        f"<table:table><table:table-row>{cell('Port')}{cell('Tide')}</table:table-row></table:table>"
        "<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>"
    )

    assert read.text == "## Ebb\n\nIt falls twice.\n\n- One\n- Two\n\n| Port | Tide |\n| --- | --- |"
    assert (read.title, read.language, read.created) == ("The tide", "en-GB", "2024-05-01T10:00:00")
    assert read.document_type == "odt"


def test_slides_have_headings() -> None:
    read = _read(
        '<draw:page draw:name="Start"><draw:frame><text:p>Hello</text:p></draw:frame></draw:page>', "presentation"
    )

    assert (read.text, read.document_type) == ("# Start\n\nHello", "odp")


def test_a_locked_file_is_refused_as_such() -> None:
    with pytest.raises(Rejected, match=r"^a is locked by a password$") as caught:
        _read("<text:p>x</text:p>", locked=True)

    assert caught.value.code == "password"
