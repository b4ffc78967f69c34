"""Rows of tables as text in which each row says what its values are, so that a chunk of them needs no other."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, tee, zip_longest

_HEADER_ROWS = 5
_COLUMNS = 256
_YEAR = re.compile(r"(?:19|20)\d\d")
_WHOLE = 1e15
_FIGURES = re.compile(r"[\d\s.,:/%$€£+()-]*")


class Covered(str):
    """The value of a merged cell, in a further cell that it covers."""

    __slots__ = ()


def told(rows: Iterable[Sequence[str]]) -> str:
    """Return a paragraph per row: `header: value; header: value`, or its values alone where there is no header.

    The header is the first row of two or more names, none of them twice, or two rows of which the upper one groups the
    names below; after blank rows a row of names above one with figures is the next table's. What is above a header
    stands as it is; blank cells and rows are left out.
    """
    return "\n\n".join(_told([_spaced(cell) for cell in row] for row in rows))


def _spaced(cell: str) -> str:
    return cell if isinstance(cell, Covered) else " ".join(cell.split())


def _told(rows: Iterable[list[str]]) -> Iterator[str]:
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
            # A table without a header in its first rows has none.
            if seen <= _HEADER_ROWS:
                header = _of_two_rows(cells, following)
                if header:
                    next(pairs)
                    yield " | ".join(filter(None, header))
                    continue
                header = cells if _names(filled) else None
            yield " | ".join(filled)
            continue
        # Hundreds of columns are a matrix; their names would be most of the text.
        names = header if len(filled) <= _COLUMNS else []
        named = ((names[at] if at < len(names) else "", cell) for at, cell in enumerate(cells) if cell)
        yield "; ".join(
            f"{name}: {cell}" if name else cell for name, cell in named if name or not isinstance(cell, Covered)
        )


def _own(cells: Iterable[str]) -> list[str]:
    return [cell for cell in cells if cell and not isinstance(cell, Covered)]


def _of_two_rows(cells: Sequence[str], following: Sequence[str]) -> list[str] | None:
    """Return the names of a header whose upper row groups those of the lower one, None where they aren't that."""
    below = _own(following)
    if len(below) < 2 or any(map(_FIGURES.fullmatch, below)):
        return None
    width = max(len(cells), len(following))
    above, under = ([*row, *[""] * (width - len(row))] for row in (cells, following))
    groups = list(above)
    if not any(isinstance(cell, Covered) for cell in cells):
        if len(set(below)) == len(below):
            return None
        # Names that come again are told apart by the group above them or to the left, up to the next one.
        for at in range(1, width):
            if not groups[at] and under[at] and under[at - 1]:
                groups[at] = groups[at - 1]
        if groups == above:
            return None
    if len(set(filter(None, groups))) < 2:  # a title
        return None
    names = [" ".join(dict.fromkeys(filter(None, both))) for both in zip(groups, under, strict=True)]
    filled = list(filter(None, names))
    return names if len(set(filled)) == len(filled) else None


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


def number(value: float) -> str:
    """Return a number as it was meant, without digits that only its binary form has: 0.3, not 0.30000000000000004."""
    if value.is_integer() and abs(value) < _WHOLE:
        return str(int(value))
    exact, meant = repr(value), f"{value:.15g}"
    return meant if len(meant) < len(exact) - 3 else exact


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table of the rows, the first one its header; '' where there is nothing in it."""
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    width = max(map(len, cells), default=0)
    lines = ["| " + " | ".join([*row, *[""] * (width - len(row))]) + " |" for row in cells if any(row)]
    return "\n".join([*lines[:1], "|" + " --- |" * width, *lines[1:]]) if lines else ""
