"""Rows of tables as text in which each row says what its values are, so that a chunk of them needs no other."""

import re
from collections.abc import Iterable, Iterator, Sequence

_FIGURES = re.compile(r"[\d\s.,:/%$€£+()-]*")


def told(rows: Iterable[Sequence[str]]) -> str:
    """Return a paragraph per row: `header: value; header: value`, or its values alone where there is no header.

    The header is the first row of two or more names, none of them twice. What is above stands as it is; blank cells
    and rows are left out.
    """
    return "\n\n".join(_told(rows))


def _told(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    header: list[str] | None = None
    seen = 0
    for row in rows:
        cells = [" ".join(cell.split()) for cell in row]
        filled = [cell for cell in cells if cell]
        if not filled:
            continue
        if header is None:
            seen += 1
            # A table without a header in its first rows has none.
            if seen <= 5 and _names(filled):
                header = cells
            yield " | ".join(filled)
            continue
        yield "; ".join(
            f"{header[at]}: {cell}" if at < len(header) and header[at] else cell
            for at, cell in enumerate(cells)
            if cell
        )


def _names(filled: Sequence[str]) -> bool:
    figures = sum(map(bool, map(_FIGURES.fullmatch, filled)))  # a few name years, or an index
    return len(filled) > 1 and len(set(filled)) == len(filled) and figures <= len(filled) // 8


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table of the rows, the first one its header; '' where there is nothing in it."""
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    width = max(map(len, cells), default=0)
    lines = ["| " + " | ".join([*row, *[""] * (width - len(row))]) + " |" for row in cells if any(row)]
    return "\n".join([*lines[:1], "|" + " --- |" * width, *lines[1:]]) if lines else ""
