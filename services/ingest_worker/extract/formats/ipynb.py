"""Reads Jupyter notebooks: text and code in order, each piece of code with its output."""

import json
from collections.abc import Iterator
from typing import Any

from services.ingest_worker.extract.clean import cleaned, decoded, one_line
from services.ingest_worker.extract.format_types import Extraction, Format, Hints
from services.ingest_worker.extract.formats.markdown import shown
from services.ingest_worker.extract.html_markdown import page_text, with_tables
from services.ingest_worker.extract.markdown_writer import fenced
from services.ingest_worker.text_blocks import first_heading

_SHOWN = ("text/markdown", "text/plain")  # media types of results that are read, the preferred one first


def read(data: bytes, hints: Hints) -> Extraction:
    """Return text cells as Markdown, code and its output in fences; a file that is no notebook is returned unchanged.

    Raises:
        Rejected: code `unsupported`: the data is not text.
    """
    source = decoded(data, hints)
    try:
        book = json.loads(source)
    except (ValueError, RecursionError):
        book = None
    text = cleaned("\n\n".join(filter(None, _blocks(book))))
    return Extraction(
        text=text or cleaned(source),
        title=one_line(first_heading(text)),
        file={"author": _list(_map(_map(book).get("metadata")).get("authors"))},
    )


def _blocks(book: Any) -> Iterator[str]:
    notebook = _map(book)
    language = _map(_map(notebook.get("metadata")).get("kernelspec")).get("language", "")
    sheets = [notebook, *map(_map, _list(notebook.get("worksheets")))]  # notebooks older than format 4 have worksheets
    for cell in (_map(cell) for sheet in sheets for cell in _list(sheet.get("cells"))):
        text = _joined(cell.get("source", cell.get("input")))
        match cell.get("cell_type"):
            case "code":
                yield fenced(text, language if isinstance(language, str) and language.isalnum() else "")
                for output in map(_map, _list(cell.get("outputs"))):
                    yield from _printed(output)
            case "heading":
                level = cell.get("level")
                yield f"{'#' * (level if isinstance(level, int) and 0 < level < 7 else 1)} {' '.join(text.split())}"
            case _:
                yield with_tables(shown(text))


def _printed(output: dict[str, Any]) -> Iterator[str]:
    if output.get("output_type") in ("error", "pyerr"):
        yield fenced(f"{output.get('ename', '')}: {output.get('evalue', '')}")
        return
    results = _map(output.get("data"))
    drawn = _joined(results.get("text/html"))
    if "<table" in drawn.lower():
        table = page_text(drawn).strip()
        if "| --- |" in table:
            yield table
            return
    kind = next((kind for kind in _SHOWN if kind in results), None)
    text = _joined(results[kind] if kind else output.get("text"))
    if text.startswith("<") and any(name.startswith("image/") for name in results):  # what Python calls the picture
        return
    yield text.strip() if kind == "text/markdown" else fenced(text)


def _joined(text: Any) -> str:
    """Return a text that the notebook stores as one string or as a list of lines."""
    return text if isinstance(text, str) else "".join(line for line in _list(text) if isinstance(line, str))


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


FORMAT = Format(
    document_type="ipynb",
    revision=6,
    media_types=frozenset({"application/x-ipynb+json"}),
    suffixes=frozenset({".ipynb"}),
    read=read,
    light=True,
    libraries=("chardet", "lxml"),
)
