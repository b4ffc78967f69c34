"""The format itself says how its text is written, and every later part believes it."""

import json
from typing import get_args

import pytest

from services.ingest_worker.chunk import chunks
from services.ingest_worker.extract import FORMATS, Hints, extract
from shared.contracts import TextFormat
from tests.fakes.tokens import Words
from tests.unit.services.ingest_worker.files import (
    a_docx,
    a_pdf,
    a_pptx,
    a_shape,
    a_zip,
    an_epub,
    an_opendocument,
    an_xlsx,
)

NOTEBOOK = json.dumps(
    {
        "cells": [
            {"cell_type": "markdown", "source": "# The tide", "metadata": {}},
            {
                "cell_type": "code",
                "source": "rise = 1\n\nfall = 2",
                "outputs": [],
                "metadata": {},
                "execution_count": 1,
            },
        ],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
).encode()
RTF = rb"{\rtf1{\stylesheet{\s1 heading 1;}}{\pard\s1\outlinelevel0 The tide\par}{\pard It rises twice a day.\par}}"
# A small file of each format that needs no extra, and how its text is written.
SAMPLES: dict[str, tuple[bytes, TextFormat]] = {
    "a.md": (b"# The tide\n\nIt rises.", "markdown"),
    "a.html": (b"<html><body><h1>The tide</h1><p>It rises twice a day.</p></body></html>", "markdown"),
    "a.xml": (b"<article><title>The tide</title><p>It rises.</p></article>", "markdown"),
    "a.docx": (a_docx("<w:p><w:r><w:t>It rises.</w:t></w:r></w:p>"), "markdown"),
    "a.pptx": (a_pptx(a_shape("It rises.")), "markdown"),
    "a.odt": (an_opendocument("text", "<text:p>It rises.</text:p>"), "markdown"),
    "a.epub": (an_epub("<h1>The tide</h1><p>It rises.</p>"), "markdown"),
    "a.eml": (b"Subject: The tide\nFrom: a@example.org\n\nIt rises.", "markdown"),
    "a.zip": (a_zip({"a.txt": "It rises."}), "markdown"),
    "a.rtf": (RTF, "markdown"),
    "a.ipynb": (NOTEBOOK, "markdown"),
    "a.pdf": (a_pdf("It rises twice a day."), "sections"),
    "a.xlsx": (an_xlsx(Tide=[["day", "height"], ["Monday", 3.5]]), "sections"),
    "a.txt": (b"# 1 is no heading here", "plain"),
    "a.csv": (b"day,height\nMonday,3.5\n", "plain"),
    "a.json": (b'{"day": "Monday"}', "sections"),
    "a.rst": (b"The tide\n========\n\nIt rises.", "markdown"),
    "a.wiki": (b"== The tide ==\n\nIt rises.", "markdown"),
    "a.adoc": (b"= The tide\n\nIt rises.", "markdown"),
    "a.org": (b"* The tide\n\nIt rises.", "markdown"),
    "a.srt": (b"1\n00:00:01,000 --> 00:00:02,000\nIt rises.\n", "plain"),
}
# These need an extra, a library's own writer, or are a variant of one above; they declare it all the same.
DECLARED: dict[str, TextFormat] = {
    "doc": "markdown", "ppt": "markdown", "msg": "markdown", "odp": "markdown", "ods": "sections", "xls": "sections",
    "image": "plain", "chunks": "plain",
}  # fmt: skip


@pytest.mark.parametrize("name", SAMPLES)
def test_a_text_is_written_as_its_format_says(name: str) -> None:
    data, text_format = SAMPLES[name]

    assert extract(data, Hints(filename=name)).text_format == text_format


def test_every_format_says_how_its_text_is_written() -> None:
    sampled = {extract(data, Hints(filename=name)).document_type for name, (data, _) in SAMPLES.items()}
    declared = {form.document_type: form.text_format for form in FORMATS}

    assert set(declared.values()) == set(get_args(TextFormat))
    assert sampled <= declared.keys()
    assert {name: declared[name] for name in DECLARED} == DECLARED


def test_a_heading_of_an_rtf_file_is_a_section_title() -> None:
    extraction = extract(RTF, Hints(filename="a.rtf"))

    found = chunks(extraction.text, tokens=Words(), structured=extraction.text_format != "plain")

    assert [chunk.section for chunk in found] == ["The tide"]


def test_the_code_of_a_notebook_stays_in_one_piece() -> None:
    extraction = extract(NOTEBOOK, Hints(filename="a.ipynb"))

    found = chunks(extraction.text, tokens=Words(), structured=extraction.text_format != "plain")

    assert any("rise = 1\n\nfall = 2" in chunk.text and chunk.text.count("```") == 2 for chunk in found)
