"""JSON and JSON lines, as they are written; what stands on one line is laid out."""

import json

from services.ingest_worker.extract.clean import cleaned, decoded
from services.ingest_worker.extract.format import Extraction, Format, Hints

_LINE = 500  # characters nobody writes on one line by hand


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the text; broken JSON is text as well.

    Raises:
        Rejected: code `unsupported`, when it is no text.
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
    except (ValueError, RecursionError):  # broken, or nested beyond reason
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
