"""Reads JSON and JSON Lines unchanged, except that long lines are indented."""

import json
from itertools import islice

from services.ingest_worker.extract.clean import cleaned, decoded
from services.ingest_worker.extract.format import Extraction, Format, Hints

_LINE = 500  # characters; a longer line was written by a program, and is indented
_GROWTH = 8  # times as long at most; deeply nested values would grow with the square of their length
_ENCODER = json.JSONEncoder(ensure_ascii=False, indent=2)


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
    parts: list[str] = []
    room = _GROWTH * len(line)
    try:
        pieces = _ENCODER.iterencode(json.loads(line))
        while part := "".join(islice(pieces, 1_000)):
            parts.append(part)
            room -= len(part)
            if room < 0:
                return line
    except (ValueError, RecursionError):  # invalid, or nested too deeply
        return line
    return "".join(parts)


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
