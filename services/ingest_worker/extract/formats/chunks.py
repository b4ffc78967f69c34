"""Reads prepared chunks: a submission's list of them, or a JSON file."""

import msgspec

from services.ingest_worker.extract.clean import cleaned
from services.ingest_worker.extract.embedded_files import sentence
from services.ingest_worker.extract.format_types import Extraction, Format, Hints
from shared.errors import Rejected
from shared.inputs.prepared_chunks import BODY, chunk_file, listed_chunks, prepared_chunks, prepared_text


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the chunks, and their texts joined by blank lines.

    Raises:
        Rejected: code `damaged`: it is not JSON; `invalid_chunks`: no chunk is valid; `empty`: no chunk is active.
    """
    try:
        found = prepared_chunks(listed_chunks(msgspec.json.decode(data)), cleaned)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Rejected(f"{hints.name} is not valid JSON: {error}", "damaged") from None
    if not found.chunks:
        code = "invalid_chunks" if found.skipped else "empty"
        raise Rejected(f"{hints.name} has no chunk to index: {sentence(found.notes) or 'its list is empty'}", code)
    return Extraction(
        text=prepared_text(found.chunks),
        chunks=found.chunks,
        notes=found.notes,
    )


FORMAT = Format(
    document_type="chunks",
    text_format="plain",
    media_types=frozenset({"application/vnd.sluice.chunks+json"}),
    suffixes=frozenset(),
    sniff=lambda data: data.startswith(BODY) or chunk_file(data) is not None,
    read=read,
    light=True,
)
