"""CSV and TSV: rows that keep their headers."""

import csv
import io

from services.ingest_worker.extract.clean import cleaned, decoded
from services.ingest_worker.extract.format import Extraction, Format, Hints
from services.ingest_worker.extract.rows import told

_SAMPLE = 16 * 1024  # characters
_DELIMITERS = ",;\t|"


def read(data: bytes, hints: Hints) -> Extraction:
    """Return a paragraph per row, each value under its header.

    Raises:
        Rejected: code `unsupported`, when it is no text.
    """
    text = decoded(data, hints).replace("\0", "")
    csv.field_size_limit(max(len(text), csv.field_size_limit()))  # of the process: others read CSV, too
    # The most frequent one of the first line; csv.Sniffer takes letters for delimiters, and squares of time.
    first = text.lstrip()[:_SAMPLE].partition("\n")[0]
    delimiter = max(_DELIMITERS, key=first.count)
    try:
        rows = told(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error:
        rows = text
    return Extraction(text=cleaned(rows), document_type="csv")


FORMAT = Format(
    document_type="csv",
    media_types=frozenset({"text/csv", "text/tab-separated-values", "application/csv"}),
    suffixes=frozenset({".csv", ".tsv", ".tab"}),
    sniff=lambda _: False,  # any text is CSV
    read=read,
    light=True,
    libraries=("chardet",),
)
