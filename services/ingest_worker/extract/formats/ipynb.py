"""Jupyter notebooks: their text and code in order, with what the code printed."""

import json
from collections.abc import Iterator
from typing import Any

from services.ingest_worker.chunk.blocks import first_heading
from services.ingest_worker.extract.clean import cleaned, decoded, one_line
from services.ingest_worker.extract.format import Extraction, Format, Hints

_SHOWN = ("text/markdown", "text/plain")  # of the forms that a result comes in


def read(data: bytes, hints: Hints) -> Extraction:
    """Return text cells as they are, code and its printed results in fences; what is no notebook as it is written.

    Raises:
        Rejected: code `unsupported`, when it is no text.
    """
    source = decoded(data, hints)
    try:
        book = json.loads(source)
    except (ValueError, RecursionError):
        book = None
    text = cleaned("\n\n".join(filter(None, _blocks(book))))
    return Extraction(
        text=text or cleaned(source),
        document_type="ipynb",
        title=one_line(first_heading(text)),
    )


def _blocks(book: Any) -> Iterator[str]:
    notebook = _map(book)
    language = _map(_map(notebook.get("metadata")).get("kernelspec")).get("language", "")
    sheets = [notebook, *map(_map, _list(notebook.get("worksheets")))]  # before format 4
    for cell in (_map(cell) for sheet in sheets for cell in _list(sheet.get("cells"))):
        text = _joined(cell.get("source", cell.get("input")))
        match cell.get("cell_type"):
            case "code":
                yield _fenced(text, language if isinstance(language, str) and language.isalnum() else "")
                for output in map(_map, _list(cell.get("outputs"))):
                    yield from _printed(output)
            case "heading":
                yield f"# {' '.join(text.split())}"
            case _:
                yield text.strip()


def _printed(output: dict[str, Any]) -> Iterator[str]:
    if output.get("output_type") in ("error", "pyerr"):
        yield _fenced(f"{output.get('ename', '')}: {output.get('evalue', '')}")
        return
    results = _map(output.get("data"))
    kind = next((kind for kind in _SHOWN if kind in results), None)
    text = _joined(results[kind] if kind else output.get("text"))
    yield text.strip() if kind == "text/markdown" else _fenced(text)


def _fenced(text: str, language: str = "") -> str:
    fence = "````" if "```" in text else "```"
    return f"{fence}{language}\n{text.strip(chr(10))}\n{fence}" if text.strip() else ""


def _joined(text: Any) -> str:
    """Return a text, which notebooks hold whole or in lines."""
    return text if isinstance(text, str) else "".join(line for line in _list(text) if isinstance(line, str))


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


FORMAT = Format(
    document_type="ipynb",
    text_format="markdown",
    revision=2,
    media_types=frozenset({"application/x-ipynb+json"}),
    suffixes=frozenset({".ipynb"}),
    sniff=lambda _: False,
    read=read,
    light=True,
    libraries=("chardet",),
)
