"""Renders table rows as text with the header's name before each value, so that a chunk can be read on its own."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, tee, zip_longest

_HEADER_ROWS = 5
_COLUMNS = 256
_YEAR = re.compile(r"(?:19|20)\d\d")
_WHOLE = 1e15
_FIGURES = re.compile(r"[\d\s.,:/%$€£+()-]*")


class Covered(str):
    """The value of a merged cell, repeated in another cell that it covers."""

    __slots__ = ()


def labelled(rows: Iterable[Sequence[str]]) -> str:
    """Return a paragraph per row: `header: value; header: value`, or only the values where there is no header.

    The header is the first row of two or more distinct names, or two rows of which the upper one groups the names
    below. After blank rows, a row of names above a row with figures is the header of a new table. Rows above a header
    are kept as they are; blank cells and rows are left out.
    """
    return "\n\n".join(_labelled([_spaced(cell) for cell in row] for row in rows))


def _spaced(cell: str) -> str:
    return cell if isinstance(cell, Covered) else " ".join(cell.split())


def _labelled(rows: Iterable[list[str]]) -> Iterator[str]:
    header: list[str] | None = None
    seen = 0
    gap = False
    pairs = _pairs(rows)
    for cells, following in pairs:
        filled = _own(cells)
        if not filled:
            gap = True
            continue
        if gap and header is not None and _names(filled) and not _names(_own(following)):
            header, seen = None, 0
        gap = False
        if header is None:
            seen += 1
            # A header is only looked for in the first rows.
            if seen <= _HEADER_ROWS:
                header = _of_two_rows(cells, following)
                if header:
                    next(pairs)
                    yield " | ".join(filter(None, header))
                    continue
                header = cells if _names(filled) else None
            yield " | ".join(filled)
            continue
        # Hundreds of columns are a matrix, and their names would dominate the text.
        names = header if len(filled) <= _COLUMNS else []
        named = ((names[at] if at < len(names) else "", cell) for at, cell in enumerate(cells) if cell)
        yield "; ".join(
            f"{name}: {cell}" if name else cell for name, cell in named if name or not isinstance(cell, Covered)
        )


def _own(cells: Iterable[str]) -> list[str]:
    return [cell for cell in cells if cell and not isinstance(cell, Covered)]


def _of_two_rows(cells: Sequence[str], following: Sequence[str]) -> list[str] | None:
    """Return the joined names of a two-row header, whose upper row groups the names of the lower; None if it isn't."""
    below = _own(following)
    if len(below) < 2 or any(map(_FIGURES.fullmatch, below)):
        return None
    width = max(len(cells), len(following))
    above, under = ([*row, *[""] * (width - len(row))] for row in (cells, following))
    groups = list(above)
    if not any(isinstance(cell, Covered) for cell in cells):
        if len(set(below)) == len(below):
            return None
        # A group extends to the right up to the next one, so that it distinguishes repeated names.
        for at in range(1, width):
            if not groups[at] and under[at] and under[at - 1]:
                groups[at] = groups[at - 1]
        if groups == above:
            return None
    if len(set(filter(None, groups))) < 2:  # the upper row is the table's title
        return None
    names = [" ".join(dict.fromkeys(filter(None, both))) for both in zip(groups, under, strict=True)]
    filled = list(filter(None, names))
    return names if len(set(filled)) == len(filled) else None


def _pairs(rows: Iterable[list[str]]) -> Iterator[tuple[list[str], list[str]]]:
    """Yield each row with the row after it, [] after the last."""
    ahead, following = tee(rows)
    next(following, None)
    return zip_longest(ahead, following, fillvalue=[])


def _names(filled: Sequence[str]) -> bool:
    if len(filled) < 2 or len(set(filled)) < len(filled):
        return False
    figures = [cell for cell in filled if _FIGURES.fullmatch(cell)]
    # A header may have a few figures (an index), or a name and then only years at equal steps.
    return len(figures) <= len(filled) // 8 or (len(figures) == len(filled) - 1 > 1 and _years(figures))


def _years(figures: Sequence[str]) -> bool:
    if not all(map(_YEAR.fullmatch, figures)):
        return False
    return len({int(after) - int(before) for before, after in pairwise(figures)}) == 1


def number(value: float) -> str:
    """Return a number as text without binary rounding errors: 0.3, not 0.30000000000000004."""
    if value.is_integer() and abs(value) < _WHOLE:
        return str(int(value))
    exact, meant = repr(value), f"{value:.15g}"
    return meant if len(meant) < len(exact) - 3 else exact


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table with the first row as its header; '' if all cells are blank."""
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    width = max(map(len, cells), default=0)
    lines = ["| " + " | ".join([*row, *[""] * (width - len(row))]) + " |" for row in cells if any(row)]
    return "\n".join([*lines[:1], "|" + " --- |" * width, *lines[1:]]) if lines else ""
