import json
import math
from contextlib import suppress

import pytest

from services.ingest_worker.extract import Hints, extract, limits
from shared.errors import Rejected


def test_pages_and_scans_add_time_up_to_a_limit() -> None:
    assert limits.allowed(10, 5, 2) == 10 + 5 * limits.PAGE_S + 2 * limits.SCAN_S
    assert limits.allowed(0, 10**9, 10**9) == limits.allowed(0, limits.MAX_PAGES, limits.MAX_SCANS)


def test_time_on_the_wall_counts_only_where_it_is_far_above_the_cpus() -> None:
    assert limits.used(3.0, 10.0) == 3.0
    assert limits.used(3.0, 100.0) == 5.0


def test_a_document_without_time_is_spent_and_its_pages_are_announced() -> None:
    announced: list[tuple[int, int]] = []
    try:
        limits.begin(0.0, lambda pages, scans: announced.append((pages, scans)))
        assert limits.spent()
        limits.earn(pages=100)
        limits.earn(scans=1)
        assert not limits.spent()
        assert announced == [(100, 0), (100, 1)]
        assert limits.seconds() == "30 s of CPU time"
    finally:
        limits.begin(math.inf, lambda _pages, _scans: None)


_TABLE = "<table><tr><th>Port</th><th>Depth</th></tr><tr><td>Skua</td><td>4.2</td></tr></table>"
_CELL = json.dumps({"cells": [{"cell_type": "markdown", "source": _TABLE}]}).replace("<", "\\u003c")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.txt", b'<pkg:package xmlns:pkg="http://schemas.microsoft.com/office/2006/xmlPackage"></pkg:package>'),
        ("a.md", _TABLE.encode("utf-16")),
        ("a.md", _TABLE.replace("ble", "\u00adble").encode()),
        ("a.mdx", _TABLE.replace("<ta", "<t<X/>a").encode()),
        ("a.ipynb", _CELL.encode()),
    ],
)
def test_a_process_that_is_not_confined_parses_no_markup(name: str, data: bytes) -> None:
    with limits.lightly(), pytest.raises(limits.Heavy):
        extract(data, Hints(filename=name))
    with suppress(Rejected):  # only the package, which has no parts
        assert "| Skua | 4.2 |" in extract(data, Hints(filename=name)).text
