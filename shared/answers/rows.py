"""Finds the rows of a table that a question names, and the columns that it asks for. Pure."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final

import msgspec

from shared.answers.quotable_units import Unit, row_text
from shared.answers.sentences import content_words, words
from shared.answers.word_forms import NOUNS_OF, other_forms, with_forms
from shared.text.words import FUNCTION_WORDS

_LIKE_A_COLUMN: Final = 0.5  # least similarity; it found 16 columns of 25 that were asked for, and none of 15 others
_MEANT: Final = 2  # words of a question that a column's name may mean
_NAME: Final = 4  # words of a name
_LONG: Final = 5  # letters of a word of another language that is hardly a stop word
_WORD: Final = re.compile(r"\w+")
_INNER_CAPITAL: Final = re.compile(r"(?<=[a-z])(?=[A-Z])")  # of a JSON field: `startDate`
# Asks for a noun. One that is no column is another thing than the most similar column: profit, revenue.
_OF_A_NOUN: Final = re.compile(r"\W*(?:who|what) (?:is|are|was|were)\b", re.IGNORECASE)
_NOUN: Final = re.compile(r"(?:\b(?:the|its|their)|['’]s) (\w+)", re.IGNORECASE)
_WHO: Final = re.compile(r"who\b", re.IGNORECASE)
# Beside a column: `phone number` asks for the column `Phone`, and "how big is the deposit" for `Deposit`.
_BESIDE: Final = frozenset(words("number")).union(NOUNS_OF)
_POLITE: Final = frozenset(words("please show give find know look about information details entry everything"))


class Lookup(msgspec.Struct, frozen=True):
    """What a question asks of a row that it names."""

    row: Unit
    columns: tuple[str, ...]  # of the table, without the first
    named: tuple[str, ...]  # those that the question names; the row may lack them
    naming: tuple[tuple[str, str], ...]  # cells with the row's name, where the first column doesn't have it
    asks: str  # the question without the names of rows
    rest: frozenset[str]  # its words that stand neither in the rows' names nor in the row, nor in the columns it names
    of_a_noun: bool  # whether it asks for a noun

    @property
    def certain(self) -> bool:
        """Return whether the question asks for the columns that it names, or the row whole, and for nothing else."""
        return not self.rest and not (self.of_a_noun and not self.named)

    @property
    def unclear(self) -> bool:
        """Return whether the question asks for something in other words than the columns' names."""
        return bool(self.rest) and not self.named and len(self.columns) > 1

    @property
    def answer(self) -> Unit | None:
        """Return the row, with the columns asked for if nothing else is; None if it has none of them."""
        (label, _), *cells = self.row.cells
        kept = [cell for cell in cells if not self.named or cell[0] in self.named]
        if (self.named and not kept) or (self.unclear and self.of_a_noun):
            return None
        if not self.certain:
            return self.row
        shown = [cell for cell in cells if cell in kept or cell in self.naming]
        return msgspec.structs.replace(self.row, text=row_text(label, shown), cells=((label, ""), *shown))

    def by_meaning(self, near: Sequence[float]) -> "Lookup":
        """Return the same with the column whose name is like `asks`, if one is; `near` has a cosine of each.

        One that asks for more than a column's name can mean keeps its words.
        """
        best = max(range(len(near)), key=near.__getitem__)
        if near[best] < _LIKE_A_COLUMN or len(self.rest) > _MEANT:
            return self
        return msgspec.structs.replace(self, named=(self.columns[best],), rest=frozenset())


def lookups(question: str, rows: Sequence[Unit], title: str = "") -> list[Lookup]:
    """Return what the question asks of the rows of a table that it names.

    What names a row is what only that row has in the first column, or all that it has there, or a name that it has in
    another one: several words, or one with a capital in the question. A row with a part of another one's name isn't
    named by it. A column right before its value, as `reports to Sam`, names the rows with it, not Sam's own.
    """
    in_order = words(question)
    asked, whole = frozenset(in_order), f" {' '.join(in_order)} "
    capitals = {word for part in _WORD.findall(question)[1:] if part[0].isupper() for word in words(part)}
    naming: dict[tuple[tuple[str, str], ...], frozenset[str]] = {}  # words of the question
    values = {row.cells: {"": row.cells[0][0], **dict(row.cells[1:])} for row in rows}
    columns = tuple(dict.fromkeys(chain.from_iterable(values.values())))
    for column in [each for each in columns if each and asked.issuperset(words(each))]:
        for row, cells in values.items():
            both = words(f"{column} {cells.get(column, '')}")
            if len(both) > len(words(column)) and f" {' '.join(both)} " in whole:
                naming[row] = naming.get(row, frozenset()).union(both)
    free = asked.difference(*naming.values())  # words that may name a row
    for column in columns:
        held = {row: frozenset(content_words(cells[column])) for row, cells in values.items() if column in cells}
        common = Counter(chain.from_iterable(held.values()))
        for row, said in held.items():
            own = {word for word in said if common[word] == 1}
            is_name = any(map(str.isalpha, said)) and (len(said) > 1 or said <= capitals)
            # Most of a name, with a word that only it has: `floor lamp` of Floor lamp Arc.
            most = len(said) <= _NAME and 2 * len(said & free) > len(said) and any(map(str.isalpha, own & free))
            if is_name and (most or said <= free) if column else said and (own or said) <= free:
                naming[row] = naming.get(row, frozenset()) | asked & said
        if not column:  # `Sam` names his row, not those of whom he is the manager
            free = asked.difference(*naming.values())
    if len(values) < 2:
        return []
    best = [row for row, said in naming.items() if not any(said < other for other in naming.values())]
    names = frozenset[str]().union(*naming.values())
    return [_asked_of(row, columns[1:], question, names, title) for row in rows if row.cells in best]


def cells_with(said: AbstractSet[str], label: str, cells: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the cells of a row whose words a question has, unless it has those of its first one: they name the row."""
    named = [cell for cell in cells if (own := set(content_words(cell[1]))) and own <= said]
    return tuple(named) if said.isdisjoint(content_words(label)) else ()


def _asked_of(row: Unit, columns: tuple[str, ...], question: str, naming: frozenset[str], title: str) -> Lookup:
    content = frozenset(content_words(question)) - naming
    if _WHO.match(question):  # a date is nobody
        held = dict(row.cells[1:])
        columns = tuple(column for column in columns if any(map(str.isalpha, held.get(column, "blank"))))
    of_columns = {column: _with_forms_of(content, column) for column in columns}
    about = _with_forms_of(content, f"{title} {row.about}")
    hit = {column: content & there for column, there in of_columns.items()}
    named = _most({column: there - about for column, there in hit.items()} if content - about else hit)
    nouns = _NOUN.findall(question) if _OF_A_NOUN.match(question) else []
    english = not FUNCTION_WORDS.isdisjoint(question.casefold().split())
    (label, _), *cells = row.cells
    values = " ".join([label, *(value for _, value in cells)])
    stated = [_with_forms_of(content, values), *(of_columns[column] for column in named)]
    known = about.union(_POLITE, _BESIDE if named else (), *stated)
    return Lookup(
        row=row,
        columns=columns,
        named=named,
        naming=cells_with(naming, label, cells),
        asks=" ".join(word for word in _WORD.findall(question) if not naming.issuperset(words(word))),
        rest=frozenset(word for word in content - known if english or len(word) >= _LONG),
        of_a_noun=any(naming.isdisjoint(words(noun)) for noun in nouns),
    )


def _with_forms_of(asked: AbstractSet[str], text: str) -> frozenset[str]:
    """Return the words of the text, and those of the question of which it has another form."""
    there = frozenset(words(f"{text} {_INNER_CAPITAL.sub(' ', text)}"))
    return with_forms(there, other_forms(asked, there))


def _most(hit: Mapping[str, AbstractSet[str]]) -> tuple[str, ...]:
    """Return the columns that have most words, if any has one."""
    most = max(map(len, hit.values()), default=0)
    return tuple(column for column, found in hit.items() if most and len(found) == most)
