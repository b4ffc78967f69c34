"""Answers without a language model: what the passages themselves say, quoted, with its [n].

Units (sentences, rows, short lists, code) are ranked by the embedding model's similarity to the question together with
the part of the question's words that they hold.
"""

import math
import re
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from itertools import groupby
from typing import Final

import msgspec

from shared.answers import Conversation, Event, Finished, Passage, Prompted
from shared.answers.citations import unmarked
from shared.answers.follow_up import spelled_out
from shared.answers.sentences import codes, content_words, is_german, names, numbers, words
from shared.answers.units import Unit, furniture, row_text, units
from shared.errors import PipelineError

Compare = Callable[[str, Sequence[str]], Awaitable[Sequence[float]]]  # cosines of a question and texts

NO_PASSAGES: Final = "I found nothing about this in the documents."
NO_ANSWER: Final = "The documents that I searched do not answer this question."

MOST_COMPARED: Final = 64  # units embedded for one question
_PASSAGES: Final = 20  # the best ones are enough, and the event loop is not to wait for a thousand
MOST_QUOTED: Final = 3  # units in one answer
_CHARACTERS: Final = 900  # of the whole answer, by and large
_LONGEST: Final = 400  # of one sentence
# Chosen on the odd questions of three sets of questions; the even ones confirmed them (ADR 0067).
_BY_MEANING: Final = 0.6  # the similarity's part of a score; the rest is coverage
_BY_MEANING_KEYED: Final = 0.4  # the same for a form's line or a row: their words are names of fields, and few
_BY_PASSAGE: Final = 0.15  # how much the passage's own score adds
_LEAST: Final = 0.42  # score below which a unit is no answer
_LEAST_ALIKE: Final = 0.30  # similarity below which it is none, however many words it shares
_ALIKE: Final = 0.62  # similarity above which it is one, however few words it shares
_COVERED: Final = 0.28  # coverage below which it is none, where there is no model to ask
_NEXT_BEST: Final = 0.85  # of the best unit's score, below which nothing is added
_BY_HEADING: Final = 0.5  # what a word is worth that stands only above the unit
_BY_KIND: Final = 0.12  # for a unit that looks like an answer: a date for when, a number for how many
_UNFIT: Final = 0.9  # for a unit whose document doesn't hold a code of the question
_BARE_CODE: Final = 0.75  # for code that no sentence opens
_OTHER_ROW: Final = 0.8  # for a table's row without the name that the question asks about
_TOGETHER: Final = 320  # characters of a sentence and the next one of its paragraph that are quoted together
_NEARLY: Final = 0.75  # of the best sentence's similarity, from which the next one belongs to it
_BY_RANK: Final = 0.15  # of a word of the question, that a later passage costs when units are too many to compare
_COMPARED: Final = 400  # characters of a unit that the model reads
_COMPARED_CODE: Final = 120
_RAREST: Final = 3  # units that hold a word; a rarer one weighs no more
_MOST_FOCUSED: Final = 3  # documents that a question's names leave over, to be searched alone
_STEM: Final = 5  # characters that two forms of a name share at least
_SHORT: Final = 3  # words, fewer of which are seldom a statement
# A sentence that begins so is understood only after the one before it.
_WORDS: Final = re.compile(r"\w+")
_DATE: Final = re.compile(
    r"\b\d{1,4}[/.-]\d{1,2}[/.-]\d{1,4}\b|\b(?:1[5-9]|20)\d\d\b"
    r"|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]* \d|\b\d{1,2}:\d\d\b"
)
_ANSWER_KINDS: Final = (
    (re.compile(r"^(?:when|since when|what (?:date|year)|in (?:which|what) year)\b", re.IGNORECASE), _DATE),
    (re.compile(r"\bhow (?:many|much|old|long|far|high|fast|often)\b", re.IGNORECASE), re.compile(r"\d")),
    (re.compile(r"^who\b", re.IGNORECASE), re.compile(r"\b[A-Z][a-z]+ (?:[A-Z]\.? )?[A-Z][a-z]+")),
)
_LEANS: Final = re.compile(
    r"(?:This|That|These|Those|It|They|He|She|Otherwise|However|Therefore|Thus|Then|Instead|In this case|So|But|You'll|"
    r"You can also|Also|Dies|Dadurch|Sonst|Es|Ceci|Cela|Il|Elle|Esto)\b"
)


class _Candidate(msgspec.Struct, frozen=True):
    """A unit as a possible part of the answer."""

    score: float
    rank: int  # of its passage
    position: int  # in its passage
    unit: Unit
    text: str  # as it is quoted


class Quotable(msgspec.Struct, frozen=True):
    """A unit with what decides its score."""

    rank: int  # of its passage
    position: int  # in its passage
    unit: Unit
    said: frozenset[str]
    above: frozenset[str]  # in its headings and its document's title
    context: str  # names of the question that its document holds and it doesn't
    fits: bool  # its document holds every code of the question

    @property
    def compared(self) -> str:
        """Return the text by which the model compares the unit: with its headings and what its document is about."""
        unit = self.unit
        text = f"{unit.opening} {unit.text[len(unit.opening) :][:_COMPARED_CODE]}" if unit.kind == "code" else unit.text
        return ": ".join(filter(None, (self.context, unit.about, text)))[:_COMPARED]


class Wanted(msgspec.Struct, frozen=True):
    """What a question asks for, in words as they are compared."""

    words: frozenset[str]  # that a unit should hold
    names: frozenset[str]  # that its document must hold: names, years, numbers
    codes: frozenset[str]  # that its document should hold, and some passage must
    kinds: tuple[re.Pattern[str], ...]  # what an answer to when, who or how many looks like


def wanted(question: str) -> Wanted:
    """Return what the question asks for."""
    coded = codes(question)
    capitals, explaining = (set(), set()) if is_german(question) else names(question)
    named = capitals - coded | numbers(question)
    asked = set(content_words(question) or words(question))
    return Wanted(
        words=frozenset(asked - named - explaining or asked),
        names=frozenset(named),
        codes=frozenset(coded - named),
        kinds=tuple(pattern for asks, pattern in _ANSWER_KINDS if asks.search(question)),
    )


class Extractive:
    """The answers of `extractive:`: deterministic, and never a word that no document says."""

    def __init__(self, compare: Compare | None = None) -> None:
        """Take the model's similarity; without it, or while it fails, words alone decide."""
        self._compare = compare

    @property
    def name(self) -> str:
        """Return `extractive`, so that nobody takes this for a language model."""
        return "extractive"

    @property
    def needs_passages(self) -> bool:
        """Return True: it only quotes."""
        return True

    async def stream(self, conversation: Conversation) -> AsyncGenerator[Event, None]:
        """Yield the quoted passages, numbered in order of mention, and one quotation at a time; or say there is none.

        An answer that quotes nothing has read nothing: its `Prompted` is empty.
        """
        question = spelled_out(conversation.turns)
        found = quotable(question, conversation.passages)
        alike: Sequence[float] | None = None
        if found and self._compare:
            try:
                alike = await self._compare(question, [each.compared for each in found])
            except PipelineError:
                alike = None
        telling = told_apart if conversation.compare else answer
        quoted, pieces = telling(question, conversation.passages, found, alike)
        yield Prompted(quoted)
        for piece in pieces:
            yield piece
        yield Finished()


def quotable(question: str, passages: Sequence[Passage]) -> list[Quotable]:
    """Return what may be quoted, at most `MOST_COMPARED` units, those with most of the question's words first.

    Names, years and numbers of the question must be in the passage's document, as far as its passages show it: a
    passage about another company or year answers another question. A code such as `MQTT` must be somewhere.
    """
    asks = wanted(question)
    best = passages[:_PASSAGES]
    held = _held(best)
    if not all(any(_holds(there, code) for there in held.values()) for code in asks.codes):
        return []
    noise = _noise(best)
    found: list[Quotable] = []
    for rank, passage in enumerate(best):
        there = held[_document(passage)]
        if not all(_holds(there, name) for name in asks.names):
            continue
        fits = all(_holds(there, code) for code in asks.codes)
        section = str(passage.metadata.get("sectionTitle") or "")
        for position, unit in enumerate(units(passage.text, section, noise[_document(passage)])):
            said = frozenset(words(unit.text))
            if unit.kind in ("field", "row") and not fits:
                continue
            above = frozenset(words(f"{passage.title} {unit.about}"))
            context = " ".join(word for word in _WORDS.findall(question) if asks.names & (set(words(word)) - said))
            found.append(Quotable(rank, position, unit, said, above, context, fits))
    if len(found) > MOST_COMPARED:
        likely = {id(each): len(asks.words & each.said) - _BY_RANK * each.rank for each in found}
        found.sort(key=lambda each: (-likely[id(each)], each.rank, each.position))
        found = sorted(found[:MOST_COMPARED], key=lambda each: (each.rank, each.position))
    return found


def focus(question: str, passages: Sequence[Passage]) -> tuple[str, ...]:
    """Return the few documents that hold every name and number of the question, when others don't; else none.

    What is asked about them often stands in a passage that doesn't repeat the name, so they are searched once more.
    """
    asks = wanted(question)
    held = _held(passages[:_PASSAGES])
    fitting = [document for document, there in held.items() if all(_holds(there, name) for name in asks.names)]
    return tuple(fitting) if asks.names and 0 < len(fitting) <= min(_MOST_FOCUSED, len(held) - 1) else ()


def answer(
    question: str,
    passages: Sequence[Passage],
    found: Sequence[Quotable] | None = None,
    alike: Sequence[float] | None = None,
) -> tuple[tuple[Passage, ...], list[str]]:
    """Return the passages quoted, numbered in order of mention, and the answer's pieces; joined, they are the answer.

    A unit's score is its similarity (`alike`, one cosine a unit of `found`) and its coverage: the part of the
    question's words that it or its heading holds, each by its rarity among the units (IDF). The best unit comes first
    with what completes it, then others that are nearly as good, in reading order.
    """
    if not passages:
        return (), [NO_PASSAGES]
    if found is None:
        found = quotable(question, passages)
    candidates = _candidates(question, passages, found, alike)
    chosen = _chosen(
        sorted(candidates, key=lambda each: (-each.score, each.rank, each.position)), found, passages, alike
    )
    if not chosen:
        return (), [NO_ANSWER]
    ranks = list(dict.fromkeys(each.rank for each in chosen))
    quoted = tuple(msgspec.structs.replace(passages[rank], number=number) for number, rank in enumerate(ranks, start=1))
    return quoted, list(_pieces(chosen, {rank: number for number, rank in enumerate(ranks, start=1)}))


def told_apart(
    question: str, passages: Sequence[Passage], found: Sequence[Quotable], alike: Sequence[float] | None
) -> tuple[tuple[Passage, ...], list[str]]:
    """Return what `answer` does, one paragraph a document under its title; documents that say nothing are left out."""
    quoted: list[Passage] = []
    pieces: list[str] = []
    for document in dict.fromkeys(map(_document, passages)):
        of_it = [at for at, each in enumerate(found) if _document(passages[each.rank]) == document]
        chosen = [found[at] for at in of_it]
        near = [alike[at] for at in of_it] if alike is not None else None
        read, said = answer(question, passages, chosen, near) if chosen else ((), [])
        if not read:
            continue
        text = "".join(said)
        for passage in reversed(read):  # from the highest number, so that none is renumbered twice
            text = text.replace(f"[{passage.number}]", f"[{passage.number + len(quoted)}]")
        quoted += [msgspec.structs.replace(each, number=each.number + len(quoted)) for each in read]
        gap = "\n\n" if pieces else ""
        pieces.append(f"{gap}**{unmarked(read[0].title)}**: {text}")
    return (tuple(quoted), pieces) if pieces else ((), [NO_ANSWER])


def _pieces(chosen: Sequence[_Candidate], numbers_of: dict[int, int]) -> Iterator[str]:
    """Yield the quotations; each run of sentences from one passage has one citation, lists and code their own lines."""
    before: _Candidate | None = None
    for _, run in groupby(chosen, key=lambda each: (each.rank, "\n" in each.text, each.unit.kind == "field")):
        quotes = list(run)
        number = numbers_of[quotes[0].rank]
        text = " ".join(each.text for each in quotes)
        block = "\n" in text
        gap = "" if before is None else "\n\n" if block or "\n" in before.text else " "
        mark = f"\n[{number}]" if text.endswith("```") else f" [{number}]"
        yield f"{gap}{text}{mark}"
        before = quotes[-1]


def _candidates(
    question: str, passages: Sequence[Passage], found: Sequence[Quotable], alike: Sequence[float] | None
) -> list[_Candidate]:
    asks = wanted(question)
    frequency = Counter(word for each in found for word in asks.words & each.said)
    # A word that no unit has says little about which of them answers.
    weights = {word: math.log1p(len(found) / max(_RAREST, frequency[word])) for word in asks.words}
    # fsum: a set has another order in every process, and a plain sum would differ in its last bit.
    total = math.fsum(weights.values()) or 1.0
    candidates = []
    for at, each in enumerate(found):
        heard = asks.words & (each.said | each.above)
        covered = math.fsum(weights[word] * (1 if word in each.said else _BY_HEADING) for word in heard) / total
        factor = (0.7 if len(each.said) < _SHORT else 1.0) * (1.0 if each.fits else _UNFIT)
        if each.unit.kind == "code" and not each.unit.opening:
            factor *= _BARE_CODE
        if each.unit.kind == "row" and asks.names - each.said:
            factor *= _OTHER_ROW
        passage_score = passages[each.rank].score
        if alike is None:
            score = covered * (0.5 + 0.5 * passage_score) * factor
            enough = covered >= _COVERED
        else:
            near = float(alike[at])
            kind = _BY_KIND if any(pattern.search(each.unit.text) for pattern in asks.kinds) else 0.0
            meaning = _BY_MEANING_KEYED if each.unit.kind in ("field", "row") else _BY_MEANING
            score = (meaning * near + (1 - meaning) * covered + _BY_PASSAGE * passage_score + kind) * factor
            # The context makes every unit of its document alike: something else must speak for one of them.
            own = covered or kind or not each.context
            enough = bool(own) and (near >= _ALIKE or (near >= _LEAST_ALIKE and score >= _LEAST))
        if enough:
            text = _quoted(each.unit, set(asks.words))
            candidates.append(_Candidate(score, each.rank, each.position, each.unit, text))
    return candidates


def _chosen(
    candidates: Sequence[_Candidate],
    found: Sequence[Quotable],
    passages: Sequence[Passage],
    alike: Sequence[float] | None,
) -> list[_Candidate]:
    """Return the best candidate with what belongs to it, and others nearly as good, none of them twice."""
    if not candidates:
        return []
    best, *others = candidates
    chosen = _with_neighbours(best, found, passages, alike)
    said = [tuple(words(each.text)) for each in chosen]
    room = _CHARACTERS - sum(len(each.text) for each in chosen)
    more: list[_Candidate] = []
    for candidate in others:
        if len(chosen) + len(more) >= MOST_QUOTED or candidate.score < _NEXT_BEST * best.score:
            break
        spoken = tuple(words(candidate.text))
        if len(candidate.text) > room or any(_same(spoken, other) for other in said):
            continue  # versions of one text, quoted once
        said.append(spoken)
        more.append(candidate)
        room -= len(candidate.text)
    return [*chosen, *sorted(more, key=lambda each: (each.rank, each.position))]


def _with_neighbours(
    best: _Candidate, found: Sequence[Quotable], passages: Sequence[Passage], alike: Sequence[float] | None
) -> list[_Candidate]:
    """Return the best sentence, behind the one that it leans on, before the one that goes on from it."""
    at = {(each.rank, each.position): index for index, each in enumerate(found)}
    here = at[best.rank, best.position]
    chosen = [best]
    before = at.get((best.rank, best.position - 1))
    unit_before = found[before].unit if before is not None else _last_before(best, passages, found)
    if unit_before and _leans(best.unit, unit_before):
        chosen.insert(0, _Candidate(best.score, best.rank, best.position - 1, unit_before, unit_before.text))
    following = at.get((best.rank, best.position + 1))
    if following is None:
        return chosen
    after = found[following].unit
    goes_on = best.unit.kind == "sentence" == after.kind and after.block == best.unit.block
    belongs = _LEANS.match(after.text) or (alike and alike[following] >= _NEARLY * alike[here])
    fits = sum(len(each.text) for each in chosen) + len(after.text) <= _TOGETHER
    if goes_on and belongs and fits and not _same(words(best.text), words(after.text)):
        chosen.append(_Candidate(best.score, best.rank, best.position + 1, after, after.text))
    return chosen


def _last_before(best: _Candidate, passages: Sequence[Passage], found: Sequence[Quotable]) -> Unit | None:
    """Return the last unit of the chunk before the best one's, where that begins its chunk and the other was found."""
    order = passages[best.rank].metadata.get("chunkOrder")
    if best.position or not isinstance(order, int):
        return None
    document = _document(passages[best.rank])
    units_before = [
        each.unit
        for each in found
        if _document(passages[each.rank]) == document and passages[each.rank].metadata.get("chunkOrder") == order - 1
    ]
    return units_before[-1] if units_before else None


def _leans(unit: Unit, before: Unit) -> bool:
    """Return whether the unit is understood only after the one before it."""
    return unit.kind == "sentence" == before.kind and unit.about == before.about and bool(_LEANS.match(unit.text))


def _same(one: Sequence[str], other: Sequence[str]) -> bool:
    """Return whether two texts say the same in nearly the same words."""
    few, many = sorted((set(one), set(other)), key=len)
    return bool(few) and len(few & many) >= 0.8 * len(few)


def _quoted(unit: Unit, asked: set[str]) -> str:
    """Return the unit as it is quoted: of a row, the cells whose columns the question names, if it names any."""
    if unit.kind in ("list", "code"):
        return unit.text
    if unit.cells:
        (row, _), *cells = unit.cells
        fit = {name: len(asked.intersection(words(name))) for name, _ in cells}
        most = max(fit.values(), default=0)
        if most and len(named := [cell for cell in cells if fit[cell[0]] == most]) < len(cells):
            return _shortened(row_text(row, named))
    return _shortened(unit.text)


def _document(passage: Passage) -> str:
    return str(passage.metadata.get("documentId") or passage.number)


def _noise(passages: Sequence[Passage]) -> dict[str, frozenset[str]]:
    texts: dict[str, list[str]] = {}
    for passage in passages:
        texts.setdefault(_document(passage), []).append(passage.text)
    return {document: furniture(each) for document, each in texts.items()}


def _held(passages: Sequence[Passage]) -> dict[str, set[str]]:
    """Return the words of each document, as far as its passages, title and path show them."""
    held: dict[str, set[str]] = {}
    for passage in passages:
        metadata = passage.metadata
        above = " ".join(str(metadata.get(name) or "") for name in ("path", "sectionTitle", "url"))
        held.setdefault(_document(passage), set()).update(words(f"{passage.title} {above} {passage.text}"))
    return held


def _holds(there: set[str], name: str) -> bool:
    """Return whether the name is among the words, or they hold it in a longer or shorter form (rabbit, RabbitMQ)."""
    return name in there or (
        not name.isdigit()
        and any(
            min(len(word), len(name)) >= _STEM and (word.startswith(name) or name.startswith(word)) for word in there
        )
    )


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    head = text[:_LONGEST]
    return f"{head.rsplit(' ', 1)[0] if ' ' in head else head} …"
