"""Files that take long to read, read on an idle and on a busy machine: the outcomes are the same. ADR 0005."""

import asyncio
import io
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest
from PIL import Image, ImageDraw, ImageFont

from services.ingest_worker.extract import Extraction, Hints, ocr
from services.ingest_worker.parsers import ParserPool
from shared.errors import PipelineError
from tests.e2e.text import paragraph
from tests.selection import CI_ONLY
from tests.unit.services.ingest_worker.files import a_pdf, a_zip, an_xlsx, parts_of

CHOSEN = os.environ.get("SLUICE_TEST_COUNT")  # number of files; the acceptance run has 20
FILES = int(CHOSEN or 3)
LOAD: Final = 12 if CHOSEN else 3  # processes that want a core each
PAGES, ROWS, COLUMNS, LINES = 300, 12_000, 8, 22
WORDS_IN_LINE: Final = 8

pytestmark = [CI_ONLY, pytest.mark.slow, pytest.mark.timeout(3000 if CHOSEN else 600)]


def a_scan(number: int) -> bytes:
    """Return an image of a page of text."""
    image = Image.new("L", (1240, 1754), "white")  # A4 at 150 dots per inch
    words = paragraph(number, 0, 0, of=1).split() * 3
    lines = [" ".join(words[at : at + WORDS_IN_LINE]) for at in range(0, WORDS_IN_LINE * LINES, WORDS_IN_LINE)]
    ImageDraw.Draw(image).multiline_text((80, 80), "\n".join(lines), "black", ImageFont.load_default(26), spacing=30)
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def a_long_report(number: int) -> bytes:
    """Return a PDF with many pages of text."""
    pages = (paragraph(number, 0, page, of=PAGES).split() for page in range(PAGES))
    return a_pdf(*("\n".join(" ".join(words[at : at + 10]) for at in range(0, len(words), 10)) for words in pages))


def a_large_table(number: int) -> bytes:
    """Return a workbook with a long sheet."""
    words = paragraph(number, 0, 0, of=1).split()
    rows = ROWS + 1000 * number
    return an_xlsx(
        Stock=[
            [f"{words[(row + at) % len(words)]} {row}" if at % 2 else row * (at + 1) / 4 for at in range(COLUMNS)]
            for row in range(rows)
        ]
    )


KINDS = {"scan.png": a_scan, "report.pdf": a_long_report, "table.xlsx": a_large_table}
Outcome = Extraction | str


async def outcomes(files: dict[str, bytes]) -> dict[str, Outcome]:
    """Return what a new pool with production limits gives for each file: its text, or why there is none."""
    pool = ParserPool(2)
    taken: dict[str, float] = {}

    async def read(name: str, data: bytes) -> Outcome:
        began = time.monotonic()
        try:
            return await pool.extract(data, Hints(filename=name), tenant="default")
        except PipelineError as error:
            return error.sentence
        finally:
            taken[name] = time.monotonic() - began

    try:
        found = await asyncio.gather(*(read(name, data) for name, data in files.items()))
    finally:
        await pool.close()
    print(", ".join(f"{name} {seconds:.1f} s" for name, seconds in taken.items()))
    return dict(zip(files, found, strict=True))


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep so many processes busy while the block runs."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for each in running:
            each.kill()
            each.wait()


@pytest.mark.skipif(not ocr.installed(), reason="needs the ocr extra")
async def test_given_a_busy_machine_when_slow_files_are_read_then_each_has_the_outcome_of_an_idle_one() -> None:
    kinds = list(KINDS)
    files = {f"{number}-{(kind := kinds[number % len(kinds)])}": KINDS[kind](number) for number in range(FILES)}

    idle = await outcomes(files)
    with busy(LOAD):
        loaded = await outcomes(files)

    print({name: found if isinstance(found, str) else len(found.text) for name, found in idle.items()})
    assert [name for name, found in idle.items() if isinstance(found, str) or found.notes] == []
    assert [name for name in files if loaded[name] != idle[name]] == []


async def test_a_sheet_of_more_than_100_000_rows_fits_into_the_memory_of_a_parser() -> None:
    parts = parts_of(an_xlsx(Stock=[[1.0]]))
    blank = "".join(f'<c r="{column}{{0}}" s="1"/>' for column in "BCDEFGHIJ")  # formatted, as programs leave them
    rows = map(f'<row r="{{0}}"><c r="A{{0}}"><v>{{0}}</v></c>{blank}</row>'.format, range(2, 100_011))
    sheet = parts["xl/sheet1.xml"].replace(b"</sheetData>", "".join(rows).encode() + b"</sheetData>")

    (found,) = (await outcomes({"long.xlsx": a_zip(parts | {"xl/sheet1.xml": sheet})})).values()

    assert isinstance(found, Extraction), found
    assert found.text.endswith("100010")
