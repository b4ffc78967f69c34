"""Rows of tables as text in which each row says what its values are, so that a chunk of them needs no other."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, tee, zip_longest

_HEADER_ROWS = 5
_COLUMNS = 256
_YEAR = re.compile(r"(?:19|20)\d\d")
_LONG_NUMBER = re.compile(r"-?\d{1,15}\.\d{10,20}")
_FIGURES = re.compile(r"[\d\s.,:/%$€£+()-]*")


def told(rows: Iterable[Sequence[str]]) -> str:
    """Return a paragraph per row: `header: value; header: value`, or its values alone where there is no header.

    The header is the first row of two or more names, none of them twice; after blank rows a row of names above one
    with figures is the next table's. What is above a header stands as it is; blank cells and rows are left out.
    """
    return "\n\n".join(_told([" ".join(cell.split()) for cell in row] for row in rows))


def _told(rows: Iterable[list[str]]) -> Iterator[str]:
    header: list[str] | None = None
    seen = 0
    gap = False
    for cells, following in _pairs(rows):
        filled = [cell for cell in cells if cell]
        if not filled:
            gap = True
            continue
        if gap and header is not None and _names(filled) and not _names([cell for cell in following if cell]):
            header, seen = None, 0
        gap = False
        if header is None:
            seen += 1
            # A table without a header in its first rows has none.
            if seen <= _HEADER_ROWS and _names(filled):
                header = cells
            yield " | ".join(filled)
            continue
        # Hundreds of columns are a matrix; their names would be most of the text.
        names = header if len(filled) <= _COLUMNS else []
        yield "; ".join(
            f"{names[at]}: {cell}" if at < len(names) and names[at] else cell for at, cell in enumerate(cells) if cell
        )


def _pairs(rows: Iterable[list[str]]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield each row with the next one."""
    ahead, following = tee(rows)
    next(following, None)
    return zip_longest(ahead, following, fillvalue=[])


def _names(filled: Sequence[str]) -> bool:
    if len(filled) < 2 or len(set(filled)) < len(filled):
        return False
    figures = [cell for cell in filled if _FIGURES.fullmatch(cell)]
    # A few of many are an index; all but the first may be years, each the same step from the last.
    return len(figures) <= len(filled) // 8 or (len(figures) == len(filled) - 1 > 1 and _years(figures))


def _years(figures: Sequence[str]) -> bool:
    if not all(map(_YEAR.fullmatch, figures)):
        return False
    return len({int(after) - int(before) for before, after in pairwise(figures)}) == 1


def number(text: str) -> str:
    """Return a number without the digits that only its binary form has, any other text as it is."""
    if not _LONG_NUMBER.fullmatch(text):
        return text
    return f"{float(text):.15g}"


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table of the rows, the first one its header; '' where there is nothing in it."""
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    width = max(map(len, cells), default=0)
    lines = ["| " + " | ".join([*row, *[""] * (width - len(row))]) + " |" for row in cells if any(row)]
    return "\n".join([*lines[:1], "|" + " --- |" * width, *lines[1:]]) if lines else ""
