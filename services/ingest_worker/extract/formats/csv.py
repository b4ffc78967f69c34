"""Reads CSV and TSV: a paragraph per row, each value with its header."""

import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from services.ingest_worker.extract.clean import cleaned, decoded
from services.ingest_worker.extract.format_types import Extraction, Format, Hints
from services.ingest_worker.extract.html_markdown import cell_text
from services.ingest_worker.extract.rows import labelled

_SAMPLE = 16 * 1024  # characters that decide about the separator
_SAID = re.compile(r"\s*+sep=(\S|\t)\r?\n", re.IGNORECASE)  # what Excel is told by some programs
_WAYS: tuple[dict[str, Any], ...] = ({}, {"escapechar": "\\"}, {"skipinitialspace": True})
_AS_TEXT = re.compile(r'\A="([^"]*+)"\s*+\Z')  # a formula that some programs write to keep leading zeros
_SEPARATORS = "\t;,|"  # where several divide the rows alike, the first counts: commas also divide numbers


def read(data: bytes, hints: Hints) -> Extraction:
    """Return a paragraph per row, each value under its header.

    Raises:
        Rejected: code `unsupported`: the file is not text.
    """
    text = decoded(data, hints).replace("\0", "")
    csv.field_size_limit(max(len(text), csv.field_size_limit()))  # per process, so it is never lowered
    said = _SAID.match(text)
    text = text[said.end() :] if said else text
    try:
        sample = text.lstrip()[:_SAMPLE]
        separator = said[1] if said else _separator(sample)
        # A backslash stands before quotes within quotes, or a space before all quotes, if more rows are alike so.
        single = _in_single_quotes(sample, separator)
        how = {"quotechar": "'"} if single else max(_WAYS, key=lambda way: _alike(sample, separator, **way))
        rows: Iterable[list[str]] = _parsed(text, separator, **how)
        if "</" in text:
            rows = (list(map(cell_text, row)) for row in rows)
        if '="' in text:
            rows = ([_AS_TEXT.sub(r"\1", cell) for cell in row] for row in rows)
        if not any(
            map(any, islice(_parsed(sample, separator, **how), 1, None, 2))
        ):  # each second row is blank: a line end
            rows = filter(any, rows)
        found = labelled(rows)
    except csv.Error:
        found = text
    return Extraction(text=cleaned(found))


def _separator(sample: str) -> str:
    """Return the character that divides the most rows into equally many cells; a comma if none does.

    csv.Sniffer may choose a letter, and takes quadratic time.
    """
    alike = {separator: _alike(sample, separator) for separator in _SEPARATORS}
    best = max(alike, key=alike.__getitem__)
    return best if alike[best] else ","


def _in_single_quotes(sample: str, separator: str) -> bool:
    """Return whether the header's fields and some in most of the rows are in single quotes, and none in others."""
    quoted, apart = "'(?:[^'\n]|'')*+'", re.escape(separator)
    header = re.match(rf"{quoted}(?:{apart}{quoted})++\r?$", sample, re.MULTILINE)
    if header is None or re.search(rf'(?:^|{apart})"', sample, re.MULTILINE):
        return False
    field = rf"(?:{quoted}|[^'\n{apart}]*+)"
    rows = sample[header.end() :].split("\n")[1:]
    alike = re.compile(rf"(?=.*'){field}(?:{apart}{field})*+\r?")
    return 2 * sum(bool(alike.fullmatch(row)) for row in rows) > sum(map(bool, map(str.strip, rows)))


def _alike(sample: str, separator: str, **how: Any) -> int:
    """Return how many rows have as many cells as most, with the separators that end some rows or without."""
    rows = [row for row in _parsed(sample, separator, **how) if len(row) > 1 and not row[0].startswith("#")]
    counts = (
        Counter(map(len, rows)),
        Counter(max(at for at, cell in enumerate(row, 1) if cell or at < 2) for row in rows),
    )
    return max(number for each in counts for number in (0, *each.values()))


def _parsed(text: str, separator: str, **how: Any) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(text, newline=""), delimiter=separator, **how)


FORMAT = Format(
    document_type="csv",
    text_format="plain",
    media_types=frozenset({"text/csv", "text/tab-separated-values", "application/csv"}),
    suffixes=frozenset({".csv", ".tsv", ".tab"}),
    read=read,
    light=True,
    libraries=("chardet", "lxml"),
    revision=10,
)
