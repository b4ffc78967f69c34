"""Answers without a language model: quotes the passages themselves, with their [n].

Units (sentences, rows, short lists, code) are ranked by the embedding model's similarity to the question together with
the part of the question's words that they hold. The best ones are quoted with their neighbours
(docs/adr/0023-extractive-answers.md).
"""

import asyncio
import math
import re
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, pairwise
from typing import Final

import msgspec

from shared.answers import Conversation, Event, Finished, Passage, Prompted
from shared.answers.asked_form import FORMS, Form, asked_forms, has_asked_form
from shared.answers.citations import unmarked
from shared.answers.follow_up import LONGEST_QUESTION, spelled_out
from shared.answers.outline import outline
from shared.answers.prompt import CONTEXT
from shared.answers.quotable_units import FIELD_LABEL, Unit, row_text, units
from shared.answers.rows import Lookup, cells_with, lookups
from shared.answers.sentences import (
    codes,
    content_words,
    is_german,
    names,
    numbered,
    numbers,
    options,
    plain,
    versions,
    words,
)
from shared.answers.word_forms import NOUNS_OF, STEM, other_forms, with_forms
from shared.errors import PipelineError

Compare = Callable[[str, Sequence[str]], Awaitable[Sequence[float]]]  # cosines of a question and texts
Weigh = Callable[[str], float]  # the weight of a question's lower-case word; 0 for a stop word
Weigher = Callable[[str], tuple[Weigh, bool]]  # what a question's words weigh, and whether it is English

NO_PASSAGES: Final = "I found nothing about this in the documents."
NO_ANSWER: Final = "The documents that I searched do not answer this question."

MOST_COMPARED: Final = 32  # units embedded for one question; 64 answered no more of the questions
_PASSAGES: Final = 20  # the best ones are enough, and a thousand would block the event loop
MOST_QUOTED: Final = 3  # places in one answer
_LONGEST: Final = 400  # of one sentence
# Chosen on a set of 60 questions, confirmed on another one (docs/adr/0023-extractive-answers.md).
_BY_MEANING: Final = 0.75  # the similarity's share of a score; the rest is coverage
_BY_MEANING_KEYED: Final = 0.6  # the same for a form's line or a row, which have few words, mostly names of fields
_BY_PASSAGE: Final = 0.15  # how much the coverage of the whole passage adds
_BY_NEIGHBOUR: Final = 0.25  # how much the score of the better neighbour adds: an answer often follows its subject
_ALONE: Final = 0.8  # share of its own score that a unit without neighbours gets instead
_BY_KIND: Final = 0.08  # for a unit that looks like an answer: a date for when, a number for how many
_BY_NAME: Final = 0.2  # for a sentence that has the question's names itself, not only its document
_BY_RANK: Final = 0.1 / 12  # cost per better passage
_BY_HEADING: Final = 0.5  # weight of a word that occurs only in the headings above the unit
_NEXT_BEST: Final = 0.78  # of the best unit's score, below which no further place is quoted
_AROUND: Final = 500  # characters of the best place: the unit with its neighbours
_AROUND_OTHERS: Final = 300
_NEARLY: Final = 0.4  # of a unit's score, from which its neighbour is quoted with it
_LEAST: Final = 0.45  # confidence below which there is no answer
_LEAST_BY_WORDS: Final = 0.6  # the same without an embedding model
_LEAST_ELSE: Final = 0.4  # the same for a question that isn't English: its stop words count, and few are covered
_MAIN: Final = 0.4  # share of the question's weight that makes a word its main one
_LACKING: Final = 0.1  # what the confidence loses if neither the quotes nor their passage have the main word
_LEFT_OUT_BY_RANK: Final = 0.15  # of a word: cost per passage when there are too many units to compare
_ALIKE: Final = 0.7  # similarity at which a unit answers, however few words match
_UNLIKE: Final = 0.25  # similarity below which a unit only shares words with the question
_POOR: Final = 0.2  # a passage's score below which a unit must be close to the question, or hold its words
_COVERED: Final = 0.8
# The more there is to choose from, the likelier something looks like an answer and is none. Then the passage must be a
# good one, or the place hold all words of the question and be close to it, or the search and the model must agree: the
# best passage has nearly all words, and its most similar unit is the most similar of all.
_CROWD: Final = 16  # units
_GOOD: Final = 0.5  # a score above is good
_NEAR: Final = 0.55  # least similarity, in a good passage
_CLOSE: Final = 0.58  # the same in another one, and of a named row among few units
_SETTLES: Final = 0.6  # similarity and coverage at which a unit of the right kind is quoted alone
_SETTLES_COVERED: Final = 0.7
_COMPARED: Final = 400  # characters of a unit that the model reads
_MOST_OPTIONS: Final = 20  # of a question, each looked for in every unit
_MOST_FOCUSED: Final = 3  # most documents that a question's names may select
_KEYED: Final = ("field", "row")
_CERTAIN: Final = 0.998  # scores above are cut to this before odds are computed
_BY_ODDS: Final = 0.1 / 6
_WORDS: Final = re.compile(r"\w+")
_HOW: Final = re.compile(r"\bhow (\w+)", re.IGNORECASE)
_DATE: Final = re.compile(
    r"\b\d{1,4}[/.-]\d{1,2}[/.-]\d{1,4}\b|\b(?:1[5-9]|20)\d\d\b"
    r"|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]* \d|\b\d{1,2}:\d\d\b"
    r"|\b(?:(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)days?|morning|noon|afternoon|evening|midnight|o'clock)\b"
    r"|\bat (?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b"
)
_ANSWER_KINDS: Final = (
    (re.compile(r"^(?:when|since when|what (?:date|year)|in (?:which|what) year)\b", re.IGNORECASE), _DATE),
    (
        re.compile(
            r"\b(?:what|which) (?:\w+ )?(?:option|flag|exception|class|method|function|command|setting|parameter|"
            r"argument|decorator|object|hook|package|attribute|header|mode|policy)\b",
            re.IGNORECASE,
        ),
        re.compile(r"`[^`]+`|--\w|\w\(\)"),
    ),
    (re.compile(r"^who\b", re.IGNORECASE), re.compile(r"\b[A-Z][a-z]+ (?:[A-Z]\.? )?[A-Z][a-z]+")),
)

_OF_A_VERSION: Final = re.compile(r"\b(?:which|what) (?:[\w-]+ ){0,2}(?:version|release)\b", re.IGNORECASE)

# "How long" and "how far" may ask for a time or a way, which are written without the noun.
_AMBIGUOUS: Final = frozenset({"long", "far"})


def equal_weights(question: str) -> tuple[Weigh, bool]:
    """Return the same weight for every word of the question, and a guess whether it is English."""
    return lambda _: 1.0, question.isascii() and not is_german(question)


class Quotable(msgspec.Struct, frozen=True):
    """A unit with the properties that decide its score."""

    rank: int  # of its passage
    position: int  # in its passage
    unit: Unit
    terms: frozenset[str]  # in the unit itself
    above: frozenset[str]  # in its headings and its document's title
    context: str  # names of the question that are in its document but not in it
    lookup: Lookup | None = None  # of the one row of its table that the question names
    item: str = ""  # of a list: the only one that the question names, which is quoted alone
    exact: bool = False  # whether it has an option of the question, which asks for nothing else

    @property
    def compared(self) -> str:
        """Return the text that the model compares: the unit with its headings and its document's subject."""
        unit = self.unit
        return ": ".join(filter(None, (self.context, unit.about, unit.text)))[:_COMPARED]


class Wanted(msgspec.Struct, frozen=True):
    """The parts of a question, as words in the form that is compared."""

    words: frozenset[str]  # that a unit should have
    names: frozenset[str]  # that its document must have: names, years, numbers
    codes: frozenset[str]  # that its document should have, and some passage must
    kinds: tuple[Form, ...]  # patterns of an answer to when, who or how many


def wanted(question: str, passages: Sequence[Passage] = ()) -> Wanted:
    """Return the question's parts.

    A name that most documents of the passages have, such as the product's own, says nothing about what is asked.
    """
    coded = codes(question)
    capitals, explaining = (set[str](), set[str]()) if is_german(question) else names(question)
    common = _in_most(capitals - coded, passages)
    named = capitals - coded - common | numbers(question)
    asked = set(content_words(question) or words(question))
    return Wanted(
        words=frozenset(asked - named - explaining - common or asked),
        names=frozenset(named),
        codes=frozenset(coded - named | versions(question, asked=True)),
        kinds=asked_forms(question, (*_ANSWER_KINDS, *FORMS)),
    )


def _in_most(names: AbstractSet[str], passages: Sequence[Passage]) -> set[str]:
    """Return the names that most documents of the passages have, if that is more than a name may select."""
    there: dict[str, set[str]] = {}
    for passage in passages[:_PASSAGES]:
        said = f"{passage.title} {passage.shown}".casefold()
        there.setdefault(_document(passage), set()).update(re.findall(r"\w+", said))
    most = max(_MOST_FOCUSED, len(there) // 2)
    return {name for name in names if sum(_holds(each, name) for each in there.values()) > most}


class Extractive:
    """The answers of `extractive:`: deterministic, and only with words of the documents."""

    needs_passages = True
    name = "extractive"  # which shows that this isn't a language model

    def __init__(self, compare: Compare | None = None, weigher: Weigher = equal_weights) -> None:
        """Take the model's similarity and the words' weights. Without the model, or if it fails, words alone decide."""
        self._compare = compare
        self._weigher = weigher

    async def context(self) -> int:
        """Return what a language model takes by default; this one has no limit of its own."""
        return CONTEXT

    async def stream(self, conversation: Conversation) -> AsyncGenerator[Event, None]:
        """Yield the quoted passages, numbered in order of mention, then each quotation; or say that there is none.

        An answer that quotes nothing has read nothing: its `Prompted` is empty.
        """
        if conversation.whole:
            quoted, pieces = await asyncio.to_thread(outline, conversation.passages)
            yield Prompted(quoted)
            for piece in pieces or [NO_ANSWER]:
                yield piece
            yield Finished()
            return
        question = spelled_out(conversation.turns)
        found = await asyncio.to_thread(quotable, question, conversation.passages)
        last = [turn.content[:LONGEST_QUESTION] for turn in conversation.turns if turn.role == "user"][-1:]
        own = frozenset(content_words(last[0])) if last else frozenset[str]()
        if own and question != last[0]:
            # Of a row without what a follow-up asks for, the column that was asked for before would be quoted again.
            found = [each for each in found if each.unit.kind not in _KEYED or own & (each.terms | each.above)]
        found = [msgspec.structs.replace(each, item=_item(each, own)) for each in found]
        alike: Sequence[float] | None = None
        if found and self._compare:
            try:
                found = [await self._by_meaning(each, self._compare) for each in found]
                items = {at: f"{each.unit.about}: {each.item}" for at, each in enumerate(found) if each.item}
                near = await self._compare(question, [*(each.compared for each in found), *items.values()])
                of_items = dict(zip(items, near[len(found) :], strict=True))
                alike = [max(one, of_items.get(at, one)) for at, one in enumerate(near[: len(found)])]
            except PipelineError:
                alike = None
        telling = told_apart if conversation.compare else answer
        quoted, pieces = await asyncio.to_thread(telling, question, conversation.passages, found, alike, self._weigher)
        yield Prompted(quoted)
        for piece in pieces:
            yield piece
        yield Finished()

    @staticmethod
    async def _by_meaning(row: Quotable, compare: Compare) -> Quotable:
        """Return the unit; of a row of which something is asked in other words, the column that means it, if any."""
        if (looked := row.lookup) is None or not looked.unclear:
            return row
        return _narrowed(row, looked.by_meaning(await compare(looked.asks, looked.columns))) or row


def quotable(question: str, passages: Sequence[Passage]) -> list[Quotable]:
    """Return the units that may be quoted, at most `MOST_COMPARED`, those with most of the question's words first.

    Names, years and numbers of the question must be in the passage, or in its document's title, path or beginning: a
    passage about another company or year answers another question. A code such as `MQTT` must be somewhere.
    """
    asks = wanted(question, passages)
    best = passages[:_PASSAGES]
    held = _held(best)
    subjects = _held(best, whole=False)
    if not all(any(_holds(there, code) for there in held.values()) for code in asks.codes):
        return []
    forms = other_forms(asks.words, frozenset().union(*held.values()))
    named = [(word, names) for word in _WORDS.findall(question) if (names := asks.names & set(words(word)))]
    found: list[Quotable] = []
    for rank, passage in enumerate(best):
        there = held[_document(passage)]
        near = subjects[_document(passage)] | _all_words(passage)
        if not all(_holds(near, name) for name in asks.names):
            continue
        fits = all(_holds(there, code) for code in asks.codes)
        section = str(passage.metadata.get("sectionTitle") or "")
        for position, unit in enumerate(units(passage.shown, section)):
            terms = with_forms(frozenset(words(unit.text)), forms)
            if unit.kind in ("field", "row") and not fits:
                continue
            above = with_forms(frozenset(words(f"{passage.title} {unit.about}")), forms)
            context = " ".join(word for word, names in named if not names <= terms)
            found.append(Quotable(rank, position, unit, terms, above, context))
    found = _of_the_option(question, _of_the_number(question, _of_the_row(question, found, best)))
    if len(found) > MOST_COMPARED:
        found.sort(key=lambda each: _LEFT_OUT_BY_RANK * each.rank - len(asks.words & each.terms))
        found = sorted(found[:MOST_COMPARED], key=lambda each: (each.rank, each.position))
    return found


def _of_the_option(question: str, found: list[Quotable]) -> list[Quotable]:
    """Return the units that have an option or a variable of the question as it is written, such as `--keep-last`.

    If none has, none is returned where the question asks for nothing else, otherwise all are.
    """
    asked = sorted(options(question), key=len)[-_MOST_OPTIONS:]
    if not asked:
        return found
    alone = set(content_words(question)) <= set(words(" ".join(asked)))
    written = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, asked))})(?![\w-])", re.IGNORECASE)
    there = [each for each in found if written.search(f"{each.unit.about} {each.unit.text}")]
    if alone:
        return [msgspec.structs.replace(each, exact=True) for each in there]
    return there or found


def _of_the_number(question: str, found: list[Quotable]) -> list[Quotable]:
    """Return the units without those about another number of a thing, such as quay 2 where quay 5 is asked for.

    If none is about the number, all are returned.
    """
    asked = numbered(question)
    things = {thing for thing, _ in asked}
    about = [numbered(f"{each.unit.about} {each.unit.text}") for each in found] if asked else []
    if not any(asked & there for there in about):
        return found
    return [
        each
        for each, there in zip(found, about, strict=True)
        if asked & there or things.isdisjoint(thing for thing, _ in there)
    ]


def _of_the_row(question: str, found: list[Quotable], passages: Sequence[Passage]) -> list[Quotable]:
    """Return the units, but of a table of which the question names rows only these, with the columns asked for.

    A row whose cell is blank goes, too.
    """
    tables = defaultdict[tuple[str, str], list[Quotable]](list)
    for each in found:
        if each.unit.kind == "row" and each.unit.cells:
            tables[_document(passages[each.rank]), each.unit.about].append(each)
    looked: dict[int, Lookup] = {}
    others: set[int] = set()
    for rows in tables.values():
        named = lookups(question, [row.unit for row in rows], passages[rows[0].rank].title)
        looked |= {id(each.row): each for each in named}
        others |= {id(row.unit) for row in rows if named} - looked.keys()
    kept = [each for each in found if id(each.unit) not in others]
    return [row for each in kept if (row := _narrowed(each, looked.get(id(each.unit))))]


def _item(each: Quotable, asked: frozenset[str]) -> str:
    """Return the one item of a list of `name: value` of which the question has the name; '' if it has none or several.

    A name of the headings doesn't tell items apart, and where names have numbers, as steps, their order says something.
    """
    unit = each.unit
    lines = unit.text.removeprefix(unit.opening).strip().splitlines() if unit.kind == "list" else []
    items = [line.removeprefix("- ") for line in lines]
    names = [frozenset(content_words(item.partition(":")[0])) for item in items]
    if not all(map(FIELD_LABEL.match, items)) or not all(map(str.isalpha, chain.from_iterable(names))):
        return ""
    told = asked.union(*other_forms(asked, frozenset(chain.from_iterable(names))).values())
    above = each.above.union(words(unit.opening))
    asks = [(name, item) for name, item in zip(names, items, strict=True) if name <= told and name - above]
    # Where the weight of the bag is asked for, `Weight` isn't.
    named = [item for name, item in asks if not any(name < other for other, _ in asks)]
    return named[0] if len(named) == 1 else ""


def _narrowed(row: Quotable, looked: Lookup | None) -> Quotable | None:
    if looked is None:
        return row
    return msgspec.structs.replace(row, unit=looked.answer, lookup=looked) if looked.answer else None


def focus(question: str, passages: Sequence[Passage]) -> tuple[str, ...]:
    """Return the few documents that have every name and number of the question, if others lack one; else none.

    What is asked about them often stands in a passage that doesn't repeat the name, so they are searched once more.
    """
    asks = wanted(question, passages)
    held = _held(passages[:_PASSAGES])
    fitting = [document for document, there in held.items() if all(_holds(there, name) for name in asks.names)]
    return tuple(fitting) if asks.names and 0 < len(fitting) <= min(_MOST_FOCUSED, len(held) - 1) else ()


def answer(
    question: str,
    passages: Sequence[Passage],
    found: Sequence[Quotable] | None = None,
    alike: Sequence[float] | None = None,
    weigher: Weigher = equal_weights,
    *,
    among: int | None = None,
) -> tuple[tuple[Passage, ...], list[str]]:
    """Return the passages quoted, numbered in order of mention, and the answer's pieces; joined, they are the answer.

    `alike` has one cosine for each unit of `found`, which were found `among` so many, by default only these. The best
    unit comes first, together with its neighbours that are about the question, too; then other places that are nearly
    as good, in reading order. If the best place is not close enough to the question, or has not the form that is asked
    for, the answer says that there is none.
    """
    if not passages:
        return (), [NO_PASSAGES]
    if found is None:
        found = quotable(question, passages)
    if not found:
        return (), [NO_ANSWER]
    looked_up = {each.unit.text: each for each in reversed(found) if each.lookup and each.lookup.certain}
    tables = {(_document(passages[each.rank]), each.unit.about) for each in looked_up.values()}
    if len(looked_up) <= MOST_QUOTED and (len(looked_up) == 1 or len(tables) == 1):
        rows = list(reversed(looked_up.items()))
        return _cited(passages, [(row.rank, _shortened(text)) for text, row in rows])
    asks = wanted(question, passages)
    weigh, english = weigher(question)
    few = (among or len(found)) < _CROWD
    matching = _Matching(asks, _weights(question, asks, weigh), passages, found, few=few, english=english)
    near = [matching.covered(each.terms) for each in found] if alike is None else alike
    places = _places(found, *matching.scores(near), asks)
    if matching.settles(places[0].best, near):
        unit = found[places[0].best]
        places = [_Place(places[0].best, unit.terms, _quoted(unit, asks))]
    least = _LEAST if alike is not None else _LEAST_BY_WORDS if english else _LEAST_ELSE
    believed = alike is None or not english or matching.trusted(places[0].best, alike)
    if matching.confidence(places, near) < least or not believed or not has_asked_form(question, places[0].text):
        return (), [NO_ANSWER]
    quoted = [(found[place.best].rank, place.text) for place in places]
    if _OF_A_VERSION.search(question) and not versions(places[0].text):  # a list of changes has it in a heading
        best = found[places[0].best]
        section = str(passages[best.rank].metadata.get("sectionTitle") or "")
        above = [best.unit.about, *map(plain, reversed(section.split(" > ")))]
        heading = next((f"{each}: " for each in above if " > " not in each and versions(each)), "")
        quoted[0] = (best.rank, f"{heading}{places[0].text}")
    return _cited(passages, quoted)


def _cited(passages: Sequence[Passage], places: Sequence[tuple[int, str]]) -> tuple[tuple[Passage, ...], list[str]]:
    """Return the passages that are quoted, numbered in order, and the pieces; places have their passage's position."""
    ranks = list(dict.fromkeys(rank for rank, _ in places))
    quoted = tuple(msgspec.structs.replace(passages[rank], number=number) for number, rank in enumerate(ranks, start=1))
    return quoted, list(_pieces([(ranks.index(rank) + 1, text) for rank, text in places]))


def told_apart(
    question: str,
    passages: Sequence[Passage],
    found: Sequence[Quotable],
    alike: Sequence[float] | None,
    weigher: Weigher = equal_weights,
) -> tuple[tuple[Passage, ...], list[str]]:
    """Return the same as `answer`, with a titled paragraph per document; documents without an answer are left out."""
    quoted: list[Passage] = []
    pieces: list[str] = []
    for document in dict.fromkeys(map(_document, passages)):
        of_it = [at for at, each in enumerate(found) if _document(passages[each.rank]) == document]
        chosen = [found[at] for at in of_it]
        near = [alike[at] for at in of_it] if alike is not None else None
        read, parts = answer(question, passages, chosen, near, weigher, among=len(found)) if chosen else ((), [])
        if not read:
            continue
        text = "".join(parts)
        for passage in reversed(read):  # from the highest number down, so that none is renumbered twice
            text = text.replace(f"[{passage.number}]", f"[{passage.number + len(quoted)}]")
        quoted += [msgspec.structs.replace(each, number=each.number + len(quoted)) for each in read]
        gap = "\n\n" if pieces else ""
        pieces.append(f"{gap}**{unmarked(read[0].title)}**: {text}")
    return (tuple(quoted), pieces) if pieces else ((), [NO_ANSWER])


def _pieces(places: Sequence[tuple[int, str]]) -> Iterator[str]:
    """Yield the quoted places with their citations; lists and code stand on lines of their own."""
    before = ""
    for number, text in places:
        gap = "" if not before else "\n\n" if "\n" in text or "\n" in before else " "
        mark = f"\n[{number}]" if text.endswith("```") else f" [{number}]"
        yield f"{gap}{text}{mark}"
        before = text


def _weights(question: str, asks: Wanted, weigh: Weigh) -> dict[str, float]:
    """Return the weight of each word that an answer should have."""
    weights: dict[str, float] = {}
    for token in _WORDS.findall(question):
        for word in asks.words.intersection(words(token)):
            weights[word] = max(weights.get(word, 0.0), weigh(token.lower()))
    how = {word for token in _HOW.findall(question) for word in words(token)}
    measured = (how & NOUNS_OF.keys()) - _AMBIGUOUS
    heaviest = max(weights.values(), default=1.0)
    return {word: heaviest if word in measured else weights.get(word, 1.0) for word in sorted(asks.words)}


class _Place(msgspec.Struct, frozen=True):
    """A unit with the neighbours that are quoted with it."""

    best: int  # the unit's position in the list of what can be quoted
    terms: frozenset[str]
    text: str


class _Matching:
    """Scores how well each unit fits the question."""

    def __init__(
        self,
        asks: Wanted,
        weights: Mapping[str, float],
        passages: Sequence[Passage],
        found: Sequence[Quotable],
        *,
        few: bool,
        english: bool,
    ) -> None:
        self._asks = asks
        self._weights = weights
        # fsum, because a set's order differs between processes, and a plain sum would differ in its last bit.
        self._total = math.fsum(weights.values()) or 1.0
        self._passages = passages
        self._found = found
        self._few = few  # units to choose from
        self._english = english  # else the model's similarity says little
        own = {rank: _all_words(passages[rank]) for rank in {each.rank for each in found}}
        forms = other_forms(asks.words, frozenset().union(*own.values()))
        self._terms = {rank: with_forms(terms, forms) for rank, terms in own.items()}
        self._whole = {rank: self.covered(terms) for rank, terms in self._terms.items()}
        # The word that the question is about, if one outweighs the others.
        self._main = next((word for word, weight in weights.items() if weight >= _MAIN * self._total), None)

    def covered(self, terms: AbstractSet[str]) -> float:
        """Return the share of the question's weight that the words have, 0..1."""
        return math.fsum(weight for word, weight in self._weights.items() if word in terms) / self._total

    def scores(self, near: Sequence[float]) -> tuple[list[float], list[float]]:
        """Return the score of each unit, alone, and with the part of its neighbours."""
        alone = [self._score(at, near) for at in range(len(self._found))]
        at = _at(self._found)
        around = [
            [alone[at[key]] for step in (-1, 1) if (key := (each.rank, each.position + step)) in at]
            for each in self._found
        ]
        return alone, [
            own + _BY_NEIGHBOUR * max(beside, default=_ALONE * own) for own, beside in zip(alone, around, strict=True)
        ]

    def _score(self, at: int, near: Sequence[float]) -> float:
        each, asks = self._found[at], self._asks
        unit = each.unit
        covered = self.covered(each.terms)
        covered += _BY_HEADING * (self.covered(each.terms | each.above) - covered)
        meaning = _BY_MEANING_KEYED if unit.kind in _KEYED else _BY_MEANING
        score = meaning * near[at] + (1 - meaning) * covered + _BY_PASSAGE * self._whole[each.rank]
        score += _BY_KIND * any(pattern.search(unit.text) for pattern in asks.kinds) - _BY_RANK * each.rank
        if unit.kind not in _KEYED and asks.names:
            score += _BY_NAME * len(asks.names & each.terms) / len(asks.names)
        return score

    def settles(self, at: int, near: Sequence[float]) -> bool:
        """Return whether the unit alone is the answer: of the right kind, and about the question's subject."""
        each = self._found[at]
        named = frozenset[str]().union(*(other.terms for other in self._found if other.unit.kind not in _KEYED))
        own = each.terms | each.above
        fits = _has_form(self._asks, each.unit.text) and not self._asks.names & named - own
        return fits and near[at] >= _SETTLES and self.covered(own) >= _SETTLES_COVERED

    def trusted(self, at: int, near: Sequence[float]) -> bool:
        """Return whether the unit more than shares words with the question, and does so by more than chance."""
        each = self._found[at]
        if each.exact:
            return True
        covered = self.covered(each.terms | each.above)
        if near[at] < _UNLIKE or self._few:
            poor = self._passages[each.rank].score < _POOR and each.lookup is None
            return near[at] >= (_SETTLES if poor and covered < _COVERED else _UNLIKE)
        agreed = each.rank == 0 and near[at] == max(near) and self._whole[0] >= _COVERED
        if (agreed or near[at] >= _ALIKE) and each.unit.kind not in _KEYED:  # those are alike by the names of fields
            return True
        if self._passages[each.rank].score > _GOOD:
            return near[at] >= _NEAR
        return near[at] >= _CLOSE and covered == 1.0

    def confidence(self, places: Sequence[_Place], near: Sequence[float]) -> float:
        """Return the confidence that the places answer the question: from meaning, words, and the passage's score."""
        best = places[0].best
        each = self._found[best]
        terms = frozenset[str]().union(each.above, *(place.terms for place in places))
        if self._english and near[best] >= (_CLOSE if self._few and each.lookup and not self._asks.kinds else _ALIKE):
            return 1.0
        score = min(_CERTAIN, max(1 - _CERTAIN, self._passages[each.rank].score))
        odds = math.log(score / (1 - score))
        lacking = _LACKING * (self._main is not None and self._main not in terms | self._terms[each.rank])
        return 0.4 * near[best] + 0.4 * self.covered(terms) + 0.2 * self._whole[each.rank] + _BY_ODDS * odds - lacking


def _all_words(passage: Passage) -> frozenset[str]:
    return frozenset(words(f"{passage.title} {passage.metadata.get('sectionTitle') or ''} {passage.shown}"))


def _at(found: Sequence[Quotable]) -> dict[tuple[int, int], int]:
    """Return the index of each unit by its passage and its position there."""
    return {(each.rank, each.position): index for index, each in enumerate(found)}


def _places(found: Sequence[Quotable], alone: Sequence[float], beside: Sequence[float], asks: Wanted) -> list[_Place]:
    """Return the best place, then others nearly as good in reading order, none of them twice."""
    order = sorted(range(len(found)), key=lambda at: -beside[at])
    taken: set[int] = set()
    chosen: list[_Place] = []
    seen: list[list[str]] = []
    for at in order:
        if chosen and (len(chosen) == MOST_QUOTED or beside[at] < _NEXT_BEST * beside[order[0]]):
            break
        if at in taken or any(_same(words(found[at].unit.text), other) for other in seen):
            continue  # versions of one text are quoted once
        around = _around(at, found, alone, taken, _AROUND_OTHERS if chosen else _AROUND)
        text = _joined([_quoted(found[each], asks) for each in around])
        taken.update(around)
        seen += [words(found[each].unit.text) for each in around]
        chosen.append(_Place(at, frozenset().union(*(found[each].terms for each in around)), text))
    best, *others = chosen
    return [best, *sorted(others, key=lambda place: (found[place.best].rank, found[place.best].position))]


def _around(
    at: int, found: Sequence[Quotable], scores: Sequence[float], taken: AbstractSet[int], longest: int
) -> list[int]:
    """Return the unit and its neighbours under the same heading, the better ones first, up to `longest` characters."""
    places = _at(found)
    chosen = [at]
    unit = found[at].unit
    length = len(unit.text)
    while unit.kind not in _KEYED and not found[at].item:
        first, last = found[chosen[0]], found[chosen[-1]]
        before, behind = places.get((first.rank, first.position - 1)), places.get((last.rank, last.position + 1))
        options = [
            (scores[each], each)
            for each in (before, behind)
            if each is not None
            and each not in taken
            and scores[each] >= _NEARLY * scores[at]
            and length + len(found[each].unit.text) <= longest
            and found[each].unit.kind not in _KEYED
            and (found[each].unit.about == unit.about or found[each].unit.kind == "code")
            and not _said(found[each].unit, [found[other].unit for other in chosen])
            and not (each == before and found[each].unit.kind == "code" and not found[each].unit.opening)
        ]
        if not options:
            break
        _, better = max(options)
        length += len(found[better].unit.text)
        chosen = [*chosen, better] if better == behind else [better, *chosen]
    return chosen


def _joined(texts: Sequence[str]) -> str:
    """Return the texts joined: sentences on one line, lists and code on lines of their own."""
    joined = texts[0]
    for before, text in pairwise(texts):
        joined += ("\n\n" if "\n" in before or "\n" in text else " ") + text
    return joined


def _same(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether two texts say the same in nearly the same words."""
    few, many = sorted((set(one), set(other)), key=len)
    return bool(few) and len(few & many) >= 0.8 * len(few)


def _said(unit: Unit, others: Sequence[Unit]) -> bool:
    """Return whether one of the other units says what the unit says. Longer code isn't said by its beginning."""
    own = words(unit.text)
    return any(
        _same(own, there) and (unit.kind != "code" or set(own) <= set(there))
        for there in (words(other.text) for other in others)
    )


def _quoted(each: Quotable, asks: Wanted) -> str:
    """Return the quotation of the unit; of a row, only the columns that the question names, if it names any.

    A column whose value the question has tells which row is asked for.
    """
    unit = each.unit
    if unit.kind in ("list", "code"):
        return each.item or unit.text
    if unit.cells:
        (row, _), *cells = unit.cells
        said = asks.words | asks.names | asks.codes
        fit = {
            name: 0
            if said.issuperset(words(value))
            else len(said & set(words(name))) + (_has_form(asks, value) and not _has_form(asks, row))
            for name, value in cells
        }
        most = max(fit.values(), default=0)
        naming = cells_with(said, row, cells)
        if most and len(named := [cell for cell in cells if fit[cell[0]] == most or cell in naming]) < len(cells):
            return _shortened(row_text(row, named))
    return _shortened(unit.text)


def _has_form(asks: Wanted, text: str) -> bool:
    """Return whether the text looks like an answer to the question, if it asks for a time, a number or a person."""
    return bool(asks.kinds) and all(pattern.search(text) for pattern in asks.kinds)


def _document(passage: Passage) -> str:
    return str(passage.metadata.get("documentId") or passage.number)


def _held(passages: Sequence[Passage], *, whole: bool = True) -> dict[str, set[str]]:
    """Return the words of each document that its passages, title and path show; not `whole`: only its beginning."""
    held: dict[str, set[str]] = {}
    for passage in passages:
        metadata = passage.metadata
        read = whole or not metadata.get("chunkOrder")
        above = " ".join(str(metadata.get(name) or "") for name in ("path", "url", *(["sectionTitle"] if read else [])))
        text = f"{passage.title} {above} {passage.shown if read else ''}"
        held.setdefault(_document(passage), set()).update(words(text), versions(text))
    return held


def _holds(there: set[str], name: str) -> bool:
    """Return whether the words contain the name, or a longer or shorter form of it (rabbit, RabbitMQ)."""
    return name in there or (
        not name.isdigit()
        and any(
            min(len(word), len(name)) >= STEM and (word.startswith(name) or name.startswith(word)) for word in there
        )
    )


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    head = text[:_LONGEST]
    return f"{head.rsplit(' ', 1)[0] if ' ' in head else head} …"
