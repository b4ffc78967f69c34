"""The page and the API list just the formats that are read."""

import re

from services.ingest_worker.extract import FORMATS
from services.query_api.ingest.upload import READABLE
from tests.docs import readme

_PAGE = (readme.ROOT / "docs/formats.md").read_text(encoding="utf-8")
_ROWS = {
    row[1]: (set(row[2].split()), row[3])
    for row in re.finditer(r"^\| (\w+) \| (\.[\w. ]+) \|[^|]*\| ?([^|]*?) ?\|$", _PAGE, re.MULTILINE)
}


def test_the_page_has_a_row_for_each_format_and_no_other() -> None:
    assert {kind: suffixes for kind, (suffixes, _) in _ROWS.items()} == {
        form.document_type: set(form.suffixes)
        for form in FORMATS
        if form.suffixes  # one without is no file that somebody sends
    }


def test_the_page_names_the_extra_that_a_format_needs() -> None:
    assert {
        form.document_type for form in FORMATS if form.extra and f"`{form.extra}`" not in _ROWS[form.document_type][1]
    } == set()


def test_the_api_lists_every_suffix_and_no_other() -> None:
    assert set(re.findall(r"\.[a-z]\w*", READABLE)) == {suffix for form in FORMATS for suffix in form.suffixes}
