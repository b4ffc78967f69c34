"""Reads CSV and TSV: a paragraph per row, each value with its header."""

import csv
import io

from services.ingest_worker.extract.clean import cleaned, decoded
from services.ingest_worker.extract.format import Extraction, Format, Hints
from services.ingest_worker.extract.rows import labelled

_SAMPLE = 16 * 1024  # characters
_DELIMITERS = ",;\t|"


def read(data: bytes, hints: Hints) -> Extraction:
    """Return a paragraph per row, each value under its header.

    Raises:
        Rejected: code `unsupported`: the file is not text.
    """
    text = decoded(data, hints).replace("\0", "")
    csv.field_size_limit(max(len(text), csv.field_size_limit()))  # per process, so it is never lowered
    # The most frequent one in the first line. csv.Sniffer may choose a letter, and takes quadratic time.
    first = text.lstrip()[:_SAMPLE].partition("\n")[0]
    delimiter = max(_DELIMITERS, key=first.count)
    try:
        rows = labelled(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error:
        rows = text
    return Extraction(text=cleaned(rows), document_type="csv")


FORMAT = Format(
    document_type="csv",
    text_format="plain",
    media_types=frozenset({"text/csv", "text/tab-separated-values", "application/csv"}),
    suffixes=frozenset({".csv", ".tsv", ".tab"}),
    sniff=lambda _: False,  # any text is CSV
    read=read,
    light=True,
    libraries=("chardet",),
)
