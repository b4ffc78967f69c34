"""Finds a table's header by looking at the rows below it. Pure.

A row is a header when its cells differ from what stands below them. Where that can't be told, there is no header: a
value that is taken for a column's name would make a false statement of each row.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from importlib.resources import files
from itertools import chain, groupby, pairwise, zip_longest
from operator import itemgetter
from statistics import median
from typing import Final, NamedTuple

LOOK_AHEAD: Final = 200  # rows that decide about a header
_CANDIDATES: Final = 10  # rows among which the header is looked for
_LONGEST: Final = 60  # characters of a name of a column
_FIGURE: Final = re.compile(r"(?=\D*+\d)[\d\s.,:/%$€£¥'+()-]++|#(?:N/A|[A-Z\d/_]{2,18}[!?])")  # or a formula's error
_UNIT: Final = re.compile(
    r"\[[^\]]{1,12}\]|\([^)]{1,12}\)|[\[(]?[%°€$£][\])]?"
    r"|(?:(?:[kcdmµμnMGh]?(?:m[²³23]?|g|[lL]|Wh?|V|A|Pa|J|N|Hz|mol|bar|s|t|B)|min|h|°[CF]|K|Nm|ppm|dB)(?:/(?=\w)|$)){1,2}"
)
_MARKS: Final = frozenset("xX✓✔✗✘●•×")
_ANSWER: Final = re.compile(r"[\[(] *+[xX]? *+[\])]")
_DIGITS: Final = re.compile(r"\d++")
_WORDS: Final = re.compile(r"[^\W\d_]++")
# Looks of dates, times and percentages, which may count
_COUNTED: Final = frozenset("9-9-9 9-9 9/9/9 9/9 9.9.9 9.9. 9:9 9:9:9 9% 9.9% 9,9%".split())  # noqa: SIM905 - a list has a line for each
_YEARS: Final = range(1900, 2101)
# What people call columns, in the languages that answers are given in. Only a table of words alone needs them: nothing
# else tells its header from its first row.
_NAMES: Final = frozenset(files(__package__).joinpath("column_names.txt").read_text("utf-8").split())

# Days and months. One alone may be a word of another meaning, or a value.
_CALENDAR: Final = frozenset(files(__package__).joinpath("calendar_names.txt").read_text("utf-8").split())


class Header(NamedTuple):
    """The header of a table: the names of its columns, and where it stands among the rows."""

    at: int  # number of rows above it
    rows: int  # one to four
    names: list[str]  # '' for a column without a name


class Covered(str):
    """The value of a merged cell, repeated in another cell that it covers."""

    __slots__ = ()


class Figure(str):
    """A number with the unit or words that its cell shows."""

    __slots__ = ()


class Name(str):
    """A cell of a row that the file marks as the names of the columns."""

    __slots__ = ()


def own(cells: Iterable[str]) -> list[str]:
    """Return the cells that are neither blank nor repeated from a merged cell."""
    return [cell for cell in cells if cell and not isinstance(cell, Covered)]


def is_marked(cells: Sequence[str]) -> bool:
    """Return whether the file marks the row as the names of columns; not a title, a form or sums that it marks, too."""
    labels = {_is_label(cell) for cell in own(cells)}
    named = len(own(cells)) > 1 and any(isinstance(cell, Name) for cell in cells)
    return named and len(labels) == 1 and not any(map(is_value, cells))


def is_figure(cell: str) -> bool:
    """Return whether the cell is a number, date, time, amount, percentage or error."""
    return isinstance(cell, Figure) or _FIGURE.fullmatch(cell) is not None


def is_value(cell: str) -> bool:
    """Return whether the cell is a figure that isn't a year."""
    return is_figure(cell) and not (len(cell.strip(" *()")) == 4 and cell.strip(" *()")[:2] in ("19", "20"))


def find_header(rows: Sequence[Sequence[str]]) -> Header | None:
    """Return the header of the table at the start of `rows`, none of which is blank; None if none is likely.

    Rows above it have fewer cells, or are a form: a title, a date, a list of properties.
    """
    if _is_list_of_properties(rows) or _has_form_beside(rows):
        return None
    seen, marked = _seen_header(rows), _marked_header(rows)
    # A menu or the upper row of a header may be marked: the mark decides only against what is seen above it.
    below = seen is not None and (marked is None or seen.at + seen.rows >= marked.at + marked.rows)
    header = seen if below else marked
    return header and _with_names_of_rows(header, rows)


def _with_names_of_rows(header: Header, rows: Sequence[Sequence[str]]) -> Header:
    """Return the header with the row below it if that has but the names which its first columns lack, as in a pivot."""
    at, deep, names = header
    below, *others = rows[at + deep :]
    count = len(own(below))
    lacking = 1 < count < len(names) and not any(names[: count - 1]) and all(names[count:])
    found = Header(at, deep + 1, [*below[:count], *names[count:]])
    return found if lacking and others and all(below[:count]) else header


def _seen_header(rows: Sequence[Sequence[str]]) -> Header | None:
    widest, form = 0, False
    for at, cells in enumerate(rows[: min(_CANDIDATES, len(rows) - 1)]):
        width = len(own(cells))
        form = _begins_with_form(rows[at : at + 2]) or (form and any(map(_is_label, own(cells)[:1])))
        if form:
            continue
        if width >= 2 and width > widest:
            for deep in (2, 3):  # the fewest that tell the columns apart
                names = of_rows(rows[at : at + deep])
                if names is not None and len(rows) > at + deep and _likely(names, rows[at + deep :]):
                    return Header(at, deep, names)
            if _likely(cells, rows[at + 1 :]):
                return Header(at, 1, list(cells))
        if width > 2 and not (len(rows[at + 1]) > width and _is_complete(rows[at + 1])):  # the table has begun
            return None
        widest = max(widest, width)
    return None


def _marked_header(rows: Sequence[Sequence[str]]) -> Header | None:
    at = next((at for at, cells in enumerate(rows[: min(_CANDIDATES, len(rows) - 1)]) if is_marked(cells)), None)
    if at is None:
        return None
    width = len(own(rows[at]))
    below = [cell for cell, name in zip(rows[at + 1], rows[at], strict=False) if isinstance(cell, Covered) and name]
    last = at + 1 if set(below) & set(rows[at]) and len(rows) > at + 2 else at  # names go down into a second row
    for deep in (2, 3):
        names = of_rows(rows[last + 1 - deep : last + 1]) if deep <= last + 1 else None
        if names is not None:
            return Header(last + 1 - deep, deep, names)
    # Where a row nearly as wide stands above, the mark takes in the first values, or is of a list beside the table.
    narrower = all(len(own(cells)) < width and len(own(cells)) <= max(2, width // 2) for cells in rows[:at])
    return Header(at, 1, list(rows[at])) if narrower else None


def _likely(names: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """Return whether the names differ from the values below them, more than they resemble them."""
    figures = [cell for cell in names if is_figure(cell)]
    corner = next((at for at, name in enumerate(names) if name), 0)  # columns of names of rows, without one themselves
    blank = corner > 0 and all(any(row[:corner]) for row in below)
    words = len(figures) < len(own(names)) or (
        blank and not any(map(is_figure, chain(*(row[:corner] for row in below))))
    )
    counted = words and _counts(figures) and not _mostly_count(below, _shape(figures[0]))
    filled = len(own(names)) + (blank and (counted or _is_complete(names[corner:])))
    first = len(below[0]) if _is_complete(below[0]) else 0
    if len(below) > 2 and filled < 0.75 * max(first, median(len(own(row)) for row in below)):
        return False  # a line above the table
    if not counted and is_value(names[0]):
        return False  # a date or a number in the corner, as on a receipt
    columns = [
        (name, [row[at] for row in below if at < len(row) and row[at]])
        for at, name in enumerate(names)
        if name and not isinstance(name, Covered)
    ]
    kinds = {name for name in names if name.endswith("?")}, {name for name in names if _is_date(name)}
    told = {name for kind in kinds for name in kind if len(kind) > 1}
    votes = [_vote(name, values, counted=counted, pair=len(names) == 2, told=name in told) for name, values in columns]
    some = sum(bool(values) for _, values in columns)
    voters = some if some >= 2 and _is_complete(names) else len(votes)
    return len(votes) >= 2 and sum(votes) >= voters / 4


def _is_complete(cells: Sequence[str]) -> bool:
    """Return whether each cell has words of its own, as in exports of programs, most columns of which have no value."""
    return len(set(cells)) == len(own(cells)) == len(cells) and not any(map(is_figure, cells))


def _vote(name: str, values: list[str], *, counted: bool, pair: bool, told: bool) -> float:
    """Return how much speaks for it that `name` is above `values`, not one of them; negative for against.

    In a table of two columns, a `pair`, a short value may stand above long ones. A name is `told` if it
    is one of several questions, days or months.
    """
    if not values:
        return 0.0
    shape, share = _commonest(values)
    figures = sum(1 for value in values if is_figure(value)) / len(values)
    if is_figure(name):
        differs = share >= 0.8 and _shape(name) != shape and (counted or not figures)
        counts = counted and (differs or not name.endswith("%"))  # a row of rising percentages may be one of values
        return (0.5 if differs else -1.0) + (1.5 if counts else 0.0)
    if figures >= 0.25:
        return 2 * figures
    vote = 0.0
    first, *others = name.casefold().split() or [""]
    alike = sum(value.casefold().split()[:1] == [first] for value in values)
    if name.casefold() in {value.casefold() for value in values} or (others and 2 * alike > len(values)):
        vote -= 2.0
    answered = name[-1] != "?" or "?" not in map(itemgetter(-1), values)
    if (told and answered) or (len(name) <= _LONGEST and is_name(name)):
        vote += 1.5
    elif len(name) > _LONGEST:
        vote -= 1.0
    if len(values) >= 2 and share >= 0.75:
        vote += 0.5 if _shape(name) != shape else -0.25
        vote += 0.5 * (not _DIGITS.search(name) and all(map(_DIGITS.search, values)))  # codes
    marked = len(values) >= 2 and _MARKS.issuperset(values)
    if marked or (len(values) >= 6 and len(set(values)) <= len(values) / 2):  # few values, which come again and again
        vote += 1.0
    if not pair and (length := sum(map(len, values)) / len(values)) > 20 and length > 3 * len(name):
        vote += 1.0
    return vote


def _is_date(cell: str) -> bool:
    return cell.casefold().rstrip(".") in _CALENDAR


def is_name(cell: str) -> bool:
    """Return whether people call columns so."""
    words = _WORDS.findall(cell.casefold())
    telling = sum(len(word) > 2 for word in words)
    return len(words) <= 6 and telling <= 3 and 2 * sum(map(_NAMES.__contains__, words)) >= max(telling, 1)


def begins_with_data(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row is one like those below it, or a property with its value: no names of columns.

    A blank corner makes it a header.
    """
    some = [row for row in rows[:LOOK_AHEAD] if own(row)]
    if some and is_form(some):
        return True
    corner = bool(some) and not some[0][0].strip() and any(row[0].strip() for row in some[1:])
    if corner or len(some) < 3 or len(own(some[0])) < 2 or find_header(some) is not None:
        return False
    pairs = all(len(own(row)) == 2 for row in some)
    return all(
        _is_alike(cell, [row[at] for row in some[1:] if at < len(row) and row[at]], any_shape=pairs)
        for at, cell in enumerate(some[0])
        if cell
    )


def _is_alike(cell: str, values: Sequence[str], *, any_shape: bool) -> bool:
    shape, share = _commonest(values) if values else ("", 0.0)
    once = cell in values or len(set(values)) == len(values)  # else the values are of a few kinds, and it is none
    return once and (any_shape or (shape == _shape(cell) and share >= 0.5)) and not is_name(cell)


def is_form(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the rows are names with their values beside them, so that none is the header of the others.

    Of a list without colons, this shows from three rows on; one that begins with a blank cell is none.
    """
    listed = len(rows) > 2 and bool("".join(rows[0][:1]).strip())
    return _begins_with_form(rows) or (listed and _is_list_of_properties(rows))


def _begins_with_form(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row has names with a colon and values for them, and the second begins with one, too."""
    labels = [_is_label(cell) for cell in own(rows[0])]
    below = own(rows[1]) if len(rows) > 1 else []
    some = sum(labels) > 1 or len(labels) == len(below) == 2
    return some and labels[0] and not all(labels) and bool(below) and _is_label(below[0])


def _is_label(cell: str) -> bool:
    return cell.rstrip().endswith((":", "："))


def _is_list_of_properties(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the rows have a name and its value each, so that none is the header of the others."""
    pairs = [cells for cells in map(own, rows) if len(cells) > 1]  # without the titles above and among them
    if sum(len(pair) == 2 for pair in pairs) > 2:  # an amount may have its currency beside it
        pairs = [pair[:2] if len(pair) == 3 and is_figure(pair[1]) and pair[2].isupper() else pair for pair in pairs]
    if not pairs or any(len(pair) != 2 for pair in pairs):
        return is_form_of_pairs(rows)
    if all(_is_label(name) and not _is_label(value) for name, value in pairs):
        return True
    names, values = sum(is_name(name) for name, _ in pairs), [value for _, value in pairs[1:]]
    if names == len(pairs) or len(pairs) < 3 or is_name(pairs[0][1]):
        return names == len(pairs)
    # A column has values of one kind, a form's properties have any.
    mixed = 0 < 4 * sum(map(is_figure, values)) <= 3 * len(values) and _commonest(values)[1] < 0.5
    return mixed or 2 * names > len(pairs)


def _has_form_beside(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the rows below the first have usual names in its last column, with values beside them.

    So an invoice begins: with an address, a title to the right of it, and a date and a number below that.
    """
    place = max((at for at, cell in enumerate(rows[0]) if cell), default=0)
    beside = [own(cells[place:]) for cells in rows[1:] if own(cells[place:])] if place else []
    return len(beside) > 1 and all(len(cells) == 2 and (is_name(cells[0]) or _is_label(cells[0])) for cells in beside)


def is_form_of_pairs(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the rows have several names, each with its value beside it, in the same columns."""
    places = [[at for at, cell in enumerate(cells) if cell] for cells in rows]
    widest = max(places, key=len)
    if len(rows) < 2 or len(widest) < 4 or any(len(at) % 2 or at != widest[: len(at)] for at in places):
        return False
    names = [cells[at] for cells in rows for at in widest[::2] if at < len(cells) and cells[at]]
    first, *below = [[cells[at] for at in widest[1::2] if at < len(cells)] for cells in rows]
    if any(map(is_figure, names)) or any(map(is_name, first)) or not any(first):
        return False
    mixed = any(len(set(map(_kind, filter(None, values)))) > 1 for values in zip_longest(*below))
    known = sum(map(is_name, names))
    # A column's name hardly has a digit. Where all are usual names, a table would be one of fields: in small letters.
    words = known == len(names) and not any(map(is_figure, chain(*below))) and not any(map(str.islower, names))
    told = mixed or words or any(map(str.isdigit, "".join(first)))
    return told and 2 * known > len(set(names)) == len(names)


def _kind(cell: str) -> str:
    shape = _shape(cell) if is_figure(cell) else "words"
    return shape if shape in ("words", *_COUNTED) else "number"


def is_preamble(rows: Sequence[Sequence[str]], following: Sequence[Sequence[str]]) -> bool:
    """Return whether the rows are what an export says of the wider table that follows: no header, but properties.

    A property below the first has a usual name, too.
    """
    if any(map(is_marked, rows[:_CANDIDATES])):
        return False
    width = max(map(len, map(own, rows)))
    values = [own(cells)[1] for cells in rows if len(own(cells)) > 1]
    wider = bool(following) and width <= 3 < len(own(following[0])) and len(rows) <= _CANDIDATES
    named = len(rows) == 1 or any(is_name(own(cells)[0]) or _is_label(own(cells)[0]) for cells in rows[1:])
    return (
        wider and named and bool(values) and not is_name(values[0]) and 2 * sum(map(is_figure, values)) <= len(values)
    )


def _commonest(values: Sequence[str]) -> tuple[str, float]:
    shape, count = Counter(map(_shape, values)).most_common(1)[0]
    return shape, count / len(values)


def _shape(cell: str) -> str:
    """Return what the cell looks like: digits as 9, words by their case, so that values of one kind are alike."""
    if is_figure(cell):
        return _DIGITS.sub("9", cell.replace(" ", ""))
    if "@" in cell or "://" in cell:
        return "@"
    return " ".join(map(_case, cell.split()[:4]))


def _case(word: str) -> str:
    case = "a" if word.islower() else "X" if word.isupper() and len(word) > 1 else "A"
    return case + "9" if any(map(str.isdigit, word)) else case


def _counts(figures: Sequence[str]) -> bool:
    """Return whether the figures count something: years, dates, times, percentages, or numbers from 0 or 1 on."""
    if len(figures) < 2 or len({_shape(figure) for figure in figures}) != 1:
        return False
    keys = [tuple(map(int, _DIGITS.findall(figure)[:6])) for figure in figures if len(figure) <= 32]
    if len(keys) != len(figures):
        return False
    rising, falling = all(a < b for a, b in pairwise(keys)), all(a > b for a, b in pairwise(keys))
    if not rising and not falling:
        return False
    if _shape(figures[0]) != "9":
        return _shape(figures[0]) in _COUNTED
    numbers = [key[0] for key in keys]
    even = len({after - before for before, after in pairwise(numbers)}) == 1
    if all(number in _YEARS for number in numbers):
        return even
    return even and len(numbers) > 2 and numbers[0] in (0, 1)


def _mostly_count(rows: Sequence[Sequence[str]], shape: str) -> bool:
    counting = sum(
        _counts([cell for cell in row if cell and is_figure(cell) and _shape(cell) == shape]) for row in rows
    )
    return 2 * counting > len(rows)


def of_rows(rows: Sequence[Sequence[str]]) -> list[str] | None:
    """Return the joined names of a header of rows, each of which groups the names below it; None if it isn't one."""
    *above, names = rows
    for cells in reversed(above):
        joined = _of_two_rows(cells, names)
        if joined is None:
            return None
        names = joined
    return list(names)


def _of_two_rows(cells: Sequence[str], following: Sequence[str]) -> list[str] | None:
    below = own(following)
    if len(below) < 2 or any(map(is_value, below)):
        return None
    width = max(len(cells), len(following))
    above, under = ([*row, *[""] * (width - len(row))] for row in (cells, following))
    if (
        all(map(_UNIT.fullmatch, below))
        and not all(map(_ANSWER.fullmatch, below))
        and any(len(unit) > 1 or not unit.isalpha() for unit in below)
        and (len(set(below)) > 1 or not following[0])
    ):
        return [" ".join(filter(None, both)) for both in zip(above, under, strict=True)]
    groups = list(above)
    if not any(isinstance(cell, Covered) for cell in cells):
        if len(set(below)) == len(below):
            return None
        # A group extends to the right up to the next one, so that it distinguishes repeated names.
        for at in range(1, width):
            if not groups[at] and under[at] and under[at - 1]:
                groups[at] = groups[at - 1]
        runs = [len([*run]) for _, run in groupby(own(above))]
        if groups == above and (len(runs) > len(set(own(above))) or sum(run > 1 for run in runs) < 2):
            return None  # nor does a group stand in each of its columns
    if len(set(filter(None, groups))) < 2:  # the upper row is the table's title
        return None
    names = [" ".join(dict.fromkeys(filter(None, both))) for both in zip(groups, under, strict=True)]
    filled = list(filter(None, names))
    return names if len(set(filled)) == len(filled) else None
