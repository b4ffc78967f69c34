"""Answers without a language model: those sentences of the passages that say most of what was asked, with their [n]."""

import math
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import Final

import msgspec

from shared.answers import Conversation, Event, Finished, Passage, Prompted
from shared.answers.citations import cited
from shared.answers.sentences import Sentence, content_words, names, sentences, words

NO_PASSAGES: Final = "I found nothing about this in the documents."
NO_ANSWER: Final = "The passages I found do not answer this question."

_PASSAGES: Final = 20  # the best ones are enough, and the event loop is not to wait for a thousand
_SENTENCES: Final = 4
_CHARACTERS: Final = 800  # of the whole answer, by and large
_LONGEST: Final = 400  # of one sentence
# Chosen by reading answers over the sample library, not tuned on a data set.
_COVERED: Final = 0.28  # of the question's weight, below which a sentence is no answer
_UNKNOWN_NAME: Final = 3.0  # times a word's weight: a sentence about "capital" says nothing of "the capital of France"
_NEXT_BEST: Final = 0.6  # of the best sentence's score, below which nothing is added
_BY_HEADING: Final = 0.5  # what a word is worth that stands only above the sentence
_SHORT: Final = 3  # words, fewer of which are seldom a statement


class _Candidate(msgspec.Struct, frozen=True):
    """A sentence as a possible part of the answer."""

    score: float
    covered: float  # 0..1, of the question's weight
    rank: int  # of its passage
    position: int  # in its passage
    number: int  # of its passage, as cited
    text: str


class Extractive:
    """The answers of `extractive:`: deterministic, and never a word that no document says."""

    @property
    def name(self) -> str:
        """Return `extractive`, so that nobody takes this for a language model."""
        return "extractive"

    @property
    def needs_passages(self) -> bool:
        """Return True: it only quotes."""
        return True

    async def stream(self, conversation: Conversation) -> AsyncGenerator[Event, None]:
        """Yield one sentence with its citation at a time, or one sentence that says there is no answer.

        An answer that quotes nothing has read nothing: its `Prompted` is empty.
        """
        pieces = list(answer(conversation.question, conversation.passages))
        quotes = cited("".join(pieces), {passage.number for passage in conversation.passages})
        yield Prompted(conversation.passages if quotes else ())
        for piece in pieces:
            yield piece
        yield Finished()


def answer(question: str, passages: Sequence[Passage]) -> Iterator[str]:
    """Yield the answer's pieces; joined, they are the answer.

    A sentence's score is the part of the question's words that it or its heading holds, each by its rarity among the
    sentences (IDF), weighted by its passage's score. At most four: the best one, then the others in reading order.
    """
    if not passages:
        yield NO_PASSAGES
        return
    asked = set(content_words(question) or words(question))
    candidates = [c for c in _candidates(asked, names(question), passages[:_PASSAGES]) if c.covered >= _COVERED]
    chosen = _chosen(sorted(candidates, key=lambda c: (-c.score, c.rank, c.position)))
    if not chosen:
        yield NO_ANSWER
        return
    best, *others = chosen
    for candidate in (best, *sorted(others, key=lambda c: (c.rank, c.position))):
        yield f"{'' if candidate is best else ' '}{_shortened(candidate.text)} [{candidate.number}]"


def _candidates(asked: set[str], named: set[str], passages: Sequence[Passage]) -> Iterator[_Candidate]:
    quotable: list[tuple[int, int, Sentence, list[str], set[str]]] = []
    for rank, passage in enumerate(passages):
        for position, sentence in enumerate(sentences(passage.text)):
            above = set(words(f"{passage.title} {sentence.about}"))
            quotable.append((rank, position, sentence, words(sentence.text), above))

    frequency = Counter(word for *_, said, _ in quotable for word in asked.intersection(said))
    known = set(frequency).union(*(above for *_, above in quotable))
    weights = {
        word: math.log1p(len(quotable) / max(1, frequency[word]))
        * (_UNKNOWN_NAME if word in named and word not in known else 1.0)
        for word in asked
    }
    # fsum: a set has another order in every process, and a plain sum would differ in its last bit.
    total = math.fsum(weights.values()) or 1.0
    for rank, position, sentence, said, above in quotable:
        in_text = asked.intersection(said)
        covered = (
            math.fsum(weights[word] * (1 if word in in_text else _BY_HEADING) for word in asked & (in_text | above))
            / total
        )
        score = covered * (0.5 + 0.5 * passages[rank].score) * (0.7 if len(said) < _SHORT else 1.0)
        yield _Candidate(score, covered, rank, position, passages[rank].number, sentence.text)


def _chosen(candidates: Sequence[_Candidate]) -> list[_Candidate]:
    chosen: list[_Candidate] = []
    seen: set[tuple[str, ...]] = set()
    room = _CHARACTERS
    for candidate in candidates:
        if len(chosen) == _SENTENCES:
            break
        if chosen and (candidate.score < _NEXT_BEST * chosen[0].score or len(candidate.text) > room):
            break
        said = tuple(words(candidate.text))
        if said not in seen:  # versions of one text, quoted once
            seen.add(said)
            chosen.append(candidate)
            room -= len(candidate.text)
    return chosen


def _shortened(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    head = text[:_LONGEST]
    return f"{head.rsplit(' ', 1)[0] if ' ' in head else head} …"
