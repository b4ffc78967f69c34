"""Reads JSON and JSON Lines unchanged, except that long lines are indented."""

import json

from services.ingest_worker.extract.clean import cleaned, decoded
from services.ingest_worker.extract.format import Extraction, Format, Hints

_LINE = 500  # characters; a longer line was written by a program, and is indented


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the text. Invalid JSON is returned unchanged.

    Raises:
        Rejected: code `unsupported`: the data is not text.
    """
    text = cleaned(decoded(data, hints))
    lines = text.split("\n")
    if any(len(line) > _LINE for line in lines):
        text = "\n\n".join(map(_laid_out, lines)) if len(lines) > 1 else _laid_out(text)
    return Extraction(text=cleaned(text), document_type="json")


def _laid_out(line: str) -> str:
    if len(line) <= _LINE:
        return line
    try:
        return json.dumps(json.loads(line), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):  # invalid, or nested too deeply
        return line


FORMAT = Format(
    document_type="json",
    text_format="plain",
    media_types=frozenset({"application/json", "application/x-ndjson", "application/jsonl", "application/ld+json"}),
    suffixes=frozenset({".json", ".jsonl", ".ndjson", ".geojson", ".jsonld"}),
    sniff=lambda _: False,
    read=read,
    light=True,
    libraries=("chardet",),
)
