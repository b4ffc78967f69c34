"""Renders table rows as text with the header's name before each value, so that a chunk can be read on its own."""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from itertools import chain, pairwise, zip_longest
from typing import NamedTuple

from services.ingest_worker.extract.table_header import (
    LOOK_AHEAD,
    Covered,
    Figure,
    Name,
    begins_with_data,
    find_header,
    is_figure,
    is_name,
    is_preamble,
    is_value,
    of_rows,
    own,
)

REPEATED = 60  # characters; a longer merged cell is a text, not a name, and isn't repeated
_COLUMNS = 256
_NAME = 200  # characters of a column's name that are repeated before each of its values
_PARAGRAPH = 600  # characters; a longer row doesn't fit a chunk, so each of its values is a paragraph with its names
_PADDED = 64  # columns up to which a table's short rows get empty cells
_ACROSS = 50  # columns that a merged cell may cover
_HEADS = 3  # rows of a header, at most
_COVERED = 20_000  # cells of a table that merged ones may cover: a small file could make a huge table
_WHOLE = 1e15
_LABEL = re.compile(r": \| (?![^|]*:(?: \||$))")  # before a value
_LESS = re.compile(r"\A[^\d]*[-−(]|-\Z")
_FRACTION = re.compile(r"(.*?)(?:[.,](\d{1,2})\D*)?", re.DOTALL)


def labelled(rows: Iterable[Sequence[str]]) -> str:
    """Return a paragraph per row: `header: value; header: value`, or only the values where there is no header.

    The header is what `find_header` finds in the first rows, and again after blank rows, where a new table may begin.
    Without one there, the header before them stays if it has a name for each column. Rows above a header are kept as
    they are; blank cells and rows are left out. Nor does it stay where columns of figures have as many words, and no
    row has as many cells as it.
    """
    spaced = (
        [cell if isinstance(cell, Covered | Figure | Name) else " ".join(cell.split()) for cell in row] for row in rows
    )
    return "\n\n".join(filter(None, _labelled(spaced)))


def _labelled(rows: Iterable[list[str]]) -> Iterator[str]:
    names: list[str] = []
    above: list[str] = []  # names alone, which may be the header of what is below a blank row
    second = 0  # column in which another table begins, beside the first
    counted: set[int] = set()  # columns of figures, without the first, in which a sum has its name
    for (begins, whole), (_, following) in pairwise(chain(_blocks(rows), [(True, list[list[str]]())])):
        block = whole
        preamble = begins and not names and is_preamble(block, following)
        header = find_header(block) if begins and not preamble else None
        if header is not None:
            yield from map(_alone, block[: header.at])
            names = header.names
            yield " | ".join(filter(None, own(names) if header.rows == 1 else names))
            block = block[header.at + header.rows :]
            kinds = {(at, is_figure(cell)) for cells in block for at, cell in enumerate(cells) if cell}
            counted = {at for at, figure in kinds if at and figure and (at, False) not in kinds}
        elif begins and not _fits(names, counted, block):
            as_wide = bool(above) and len(own(block[0])) == len(own(above)) and _fits(above, (), block)
            names = above if as_wide and find_header([above, *block]) else []
        alone = own(block[0]) if begins and len(block) == 1 and not names else []
        named = len(alone) > 2 and not any(map(is_figure, alone)) and 2 * sum(map(is_name, alone)) >= len(alone)
        above = block[0] if named else []
        # After a gap, words alone in their rows are a remark below the table.
        words = [each[0] for cells in block if len(each := own(cells)) == 1 and (cells[0] or " " in each[0])]
        told = any if len(own(names)) > 2 else all  # of two columns, the second may be blank
        remark = begins and header is None and len(words) == len(block) and told(" " in each for each in words)
        second = _beside(names, block) if header is not None else second
        last, sums = _sums(block if header is not None else [])
        for at, cells in enumerate(block):
            if not names or remark:
                yield _alone(cells)
            elif second:
                yield _row(cells[:second], names[:second], sums if at >= last else ())
                yield _row(cells[second:], names[second:])
            else:  # hundreds of columns are a matrix, and their names would dominate the text
                yield _row(cells, names if len(own(cells)) <= _COLUMNS else [], sums if at >= last else ())


def _alone(cells: Sequence[str]) -> str:
    """Return a row without names of columns; a name of its own that ends in a colon stands right before its value."""
    return _LABEL.sub(": ", " | ".join(own(cells)))


def _beside(names: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Return the first column behind a blank one if a table of its own begins there; 0 if all columns are one table.

    Both have names for their rows, and each its figures, or they have equal names of columns, or not as many rows.
    """
    for at in range(2, len(names) - 2):
        apart = names[at + 1] and not names[at] and not any(any(cells[at : at + 1]) for cells in rows)
        if not apart or min(len(own(names[:at])), len(own(names[at:]))) < 2:
            continue
        sides = [[cells[:at] for cells in rows], [cells[at + 1 :] for cells in rows]]
        filled = [[cells for cells in side if own(cells)] for side in sides]
        keys = [[cells[0] for cells in side] for side in filled]
        if any(not all(each) or len(set(each)) < max(len(each), 2) or any(map(is_figure, each)) for each in keys):
            continue
        counted = all(any(map(is_figure, chain.from_iterable(side))) for side in filled)
        if counted or len(filled[0]) != len(filled[1]) or own(names[:at]) == own(names[at + 1 :]):
            return at + 1
    return 0


def _fits(names: Sequence[str], counted: Container[int], block: Sequence[Sequence[str]]) -> bool:
    filled = [(at, cell) for cells in block for at, cell in enumerate(cells) if cell and not isinstance(cell, Covered)]
    figures = [is_figure(cell) for at, cell in filled if at in counted]
    corner = bool(names) and not names[0]  # above the names of the rows
    whole = any(len(own(cells)) == len(own(names)) + corner for cells in block)
    goes_on = whole or (not corner and (not figures or 2 * sum(figures) > len(figures)))
    return goes_on and all(at < len(names) and (names[at] or not at) for at, _ in filled)


def _sums(rows: Sequence[Sequence[str]]) -> tuple[int, set[int]]:
    """Return where the last rows begin, whose first words name sums, and the columns of figures but the first.

    None are so unless two rows or more stand above them, and one of them has the sum of the figures above it.
    """
    end = len(rows)
    while end > 2 and (not any(rows[end - 1][:1]) or any(isinstance(cell, Covered) for cell in rows[end - 1][1:2])):
        end -= 1
    kinds, above = Counter[tuple[int, bool]](), Counter[int]()
    for cells in rows[:end]:
        filled = {at: cell for at, cell in enumerate(cells) if at and cell and not isinstance(cell, Covered)}
        kinds.update((at, is_figure(cell)) for at, cell in filled.items())
        above.update({at: _hundredths(cell) for at, cell in filled.items() if is_figure(cell)})
    with_taxes = above.copy()
    for cells in rows[end:]:
        amounts = {at: _hundredths(cell) for at, cell in enumerate(cells) if at and is_figure(cell)}
        if any(amount and abs(amount) in (abs(above[at]), abs(with_taxes[at])) for at, amount in amounts.items()):
            return end, {at for at, figure in kinds if figure and kinds[at, True] > 2 * kinds[at, False]}
        with_taxes.update(amounts)
    return len(rows), set()


def _hundredths(cell: str) -> int:
    """Return a figure in hundredths, whatever divides its thousands, and below zero also as `(5)` and `5-`."""
    sign = -1 if _LESS.search(cell) else 1
    whole, fraction = _FRACTION.fullmatch(cell[:_NAME]).group(1, 2)  # type: ignore[union-attr]  # fits any text
    return sign * (int("".join(filter(str.isdecimal, whole)) or 0) * 100 + int((fraction or "").ljust(2, "0")))


def _row(cells: Sequence[str], names: Sequence[str], sums: Container[int] = ()) -> str:
    parts: list[str] = []
    first = next((at for at, cell in enumerate(cells) if cell), 0)
    told = next((at for at, cell in enumerate(cells) if at > first and cell and not isinstance(cell, Covered)), first)
    if any(cells[at] and at in sums for at in range(first, told)) and _names_sum(own(cells)):
        parts, cells = [cells[first].rstrip(":")], ["" if at < told else cell for at, cell in enumerate(cells)]
    for at, cell in enumerate(cells):
        name = names[at] if at < len(names) else ""
        if name and cell:
            parts.append(f"{name[:_NAME].rstrip(':')}: {cell}")
        elif cell and not isinstance(cell, Covered):
            labelled = bool(parts) and parts[-1].endswith(":")  # a form's
            parts += [f"{parts.pop()} {cell}" if labelled else cell]
    return "; ".join(parts)


def _names_sum(cells: Sequence[str]) -> bool:
    day = cells[0][:1].isdigit() and "%" not in cells[0]  # of a calendar, with its note
    return (
        all(map(is_figure, cells[1:]))
        and not (day or is_figure(cells[0]))
        and sum(map(str.isalpha, cells[0])) > 1 + cells[0].isascii()
    )  # n/a


def named_rows(rows: Sequence[Sequence[str]], names: Sequence[str]) -> Iterator[str]:
    """Yield a paragraph for each row, its values below `names`; a row that is long, one for each value."""
    last, sums = _sums(rows)
    for place, cells in enumerate(rows):
        alone = len(own(cells)) == 1 and bool(cells[0]) and not isinstance(cells[0], Covered)  # a title among the rows
        row = "".join(own(cells)) if alone else _row(cells, names, sums if place >= last else ())
        if alone or len(row) <= _PARAGRAPH:
            yield row
            continue
        first = next((at for at, cell in enumerate(cells) if cell and len(cell) <= _NAME), None)
        label = "" if first is None else _row(["", cells[first]], ["", *names[first:]])
        named = [
            "; ".join(filter(None, (label, _row(["", cell], ["", *names[at:]]))))
            for at, cell in enumerate(cells)
            if cell and at != first and not isinstance(cell, Covered)
        ]
        yield from filter(None, named or [label])


def row_label(text: str) -> str:
    """Return the text of a row's first cell as it is repeated in each row that the cell covers: its first words."""
    return text if len(text) <= _NAME else f"{text[: _NAME - 2].rpartition(' ')[0] or text[: _NAME - 2]} …"


def _blocks(rows: Iterable[list[str]]) -> Iterator[tuple[bool, list[list[str]]]]:
    """Yield rows up to the next blank one, in pieces of limited length, and whether the piece is the first of them."""
    begins, block = True, list[list[str]]()
    for cells in rows:
        if own(cells):
            block.append(cells)
        if block and (not own(cells) or len(block) == LOOK_AHEAD):
            yield begins, block
            block, begins = [], not own(cells)
        elif not own(cells):
            begins = True
    if block:
        yield begins, block


def number(value: float) -> str:
    """Return a number as text without binary rounding errors: 0.3, not 0.30000000000000004."""
    if value.is_integer() and abs(value) < _WHOLE:
        return str(int(value))
    exact, meant = repr(value), f"{value:.15g}"
    return meant if len(meant) < len(exact) - 3 else exact


class Cell(NamedTuple):
    """A cell, with the number of columns and rows that it covers."""

    text: str
    across: int = 1
    down: int = 1  # 0: it goes on from the cell above, unless it has a text


def spread(rows: Iterable[Iterable[Cell]], *, heads: int = 0) -> list[list[str]]:
    """Return the rows' texts by column; a merged cell's text stands in each cell that it covers.

    So each row can be read on its own. Only its first cell has it if it is long, or alone in its row, as a title is.
    A header of two or three rows becomes one; so do up to three first rows that are known to be its `heads`.
    """
    found: list[list[str]] = []
    room = _COVERED
    above: dict[int, tuple[int, str]] = {}  # column -> rows that are still covered, and the text of the cell above
    for row in rows:
        cells = list(row)
        texts: list[str] = []

        def covered(texts: list[str] = texts) -> bool:
            nonlocal room
            left, text = above.get(len(texts), (0, "")) if room > 0 else (0, "")
            if left:
                room -= 1
                above[len(texts)] = (left - 1, text)
                texts.append(text)
            return left > 0

        alone = sum(bool(cell.text) for cell in cells) < 2
        for cell in cells:
            while covered():
                pass
            short = cell.text if len(cell.text) <= REPEATED else ""
            across = min(max(cell.across, 1), _ACROSS if room > 0 else 1)
            room -= across - 1
            if not cell.down and not cell.text:
                texts += [above.get(column, (0, ""))[1] for column in range(len(texts), len(texts) + across)]
                continue
            for number in range(across):
                text = Covered(short if not alone else "") if number else cell.text
                below = short if texts else row_label(cell.text)
                above[len(texts)] = (max(cell.down - 1, 0), Covered(below if text else ""))
                texts.append(text)
        while covered():
            pass
        found.append(texts)
    width = max((at for texts in found for at, text in enumerate(texts, 1) if not isinstance(text, Covered)), default=0)
    found = [texts[:width] for texts in found]  # columns in which no cell begins hold nothing
    named = all(len(own(texts)) > 1 for texts in found[:heads]) and not any(map(is_value, chain(*found[1:heads])))
    if 1 < heads <= _HEADS and heads < len(found) and named:  # sums, or all rows, may be marked as names, too
        columns = zip_longest(*found[:heads], fillvalue="")
        return [[" ".join(dict.fromkeys(filter(None, names))) for names in columns], *found[heads:]]
    return _with_one_header(found)


def _with_one_header(rows: list[list[str]]) -> list[list[str]]:
    for deep in (2, 3):
        if len(rows) > deep and all(_is_grouped(*pair) for pair in pairwise(rows[:deep])):
            names = of_rows(rows[:deep])
            if names is not None:
                return [names, *rows[deep:]]
    return rows


def _is_grouped(above: Sequence[str], below: Sequence[str]) -> bool:
    """Return whether each name in the upper row covers columns, or has no other below it."""
    groups = [isinstance(name, Covered) for name in (*above, "")]
    return any(groups) and all(
        not name or groups[at] or groups[at + 1] or not own(below[at : at + 1]) for at, name in enumerate(above)
    )


def table(rows: Sequence[Sequence[str]], *, headed: bool = True, form: bool = False) -> str:
    """Return a Markdown table with the first row as its header; '' if all cells are blank.

    Where nothing says that it is `headed`, and the first row looks like those below it, or where it is a `form` of
    names with values, the header is blank.
    """
    filled = [row for row in rows if any(map(str.strip, row))]
    if filled and (form or (not headed and begins_with_data(filled))):
        filled.insert(0, [""])
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in filled]
    width = max(map(len, cells), default=0)
    lines = ["| " + " | ".join([*row, *[""] * (min(width, _PADDED) - len(row))]) + " |" for row in cells]
    return "\n".join([*lines[:1], "|" + " --- |" * width, *lines[1:]]) if lines else ""
