"""Completes a follow-up question with words of the questions before it, without a model."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from shared.answers import Turn
from shared.answers.sentences import codes, content_words, names, words

_WORD: Final = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
# "And over NATS?": repeats the question before, with one part replaced.
_INSTEAD: Final = re.compile(
    r"\s*(?:and|but|what about|how about|what of|und|aber|was ist mit|et|mais|qu'en est-il de|y|pero|qué tal|e|ma)\b",
    re.IGNORECASE,
)
_REFERS: Final = re.compile(
    r"\b(?:it|its|they|them|their|that|this|those|these|there|he|she|his|her|one|ones|"
    r"er|sie|es|dies\w*|das|dort|davon|dabei|ihn|ihm|il|elle|cela|ça|là|ello|eso|esto|allí)\b",
    re.IGNORECASE,
)
# "And who is the miller?": a whole question by its words, though short.
_ASKING: Final = frozenset({"who", "what", "where", "when", "why", "how", "which"})
_VERBS: Final = "is are was were do does did has have had can could will must"
_STATING: Final = frozenset(_VERBS.split())
_LONG: Final = 4  # characters of a word that is no stop word of another language
_SHORT: Final = 2  # content words; a question with fewer needs the earlier ones
_SHORT_INSTEAD: Final = 4
_MOST: Final = 12  # words carried over
_EARLIER: Final = 4  # questions before this one that are read
LONGEST_QUESTION: Final = 4_000  # characters that are read; a search's legs use less than that of natural text


def spelled_out(turns: Sequence[Turn]) -> str:
    """Return the last question, with terms of the earlier ones if it can't be understood alone.

    A question that says enough is returned as it is. "And over NATS?" after "How does RPC work over RabbitMQ?" keeps
    `RPC` and `work` and drops the name that it replaces. Of each question, the first `LONGEST_QUESTION` characters are
    read: comparing the words of a book would hold up everybody else's questions.
    """
    questions = [turn.content[:LONGEST_QUESTION] for turn in turns if turn.role == "user"][-_EARLIER - 1 :]
    if not questions:
        return ""
    whole, named = questions[0], set[str]()
    for before, question in pairwise(questions):
        named |= _named(before)  # what was carried may stand first, where a capital says nothing
        if question is not questions[-1] and _states(question) and not _REFERS.search(question):
            # Whole by itself, and perhaps about something else: a later question means a name from before, at most.
            whole = " ".join(term for term in _terms(whole, named) if not named.isdisjoint(words(term)))
        whole = _with_terms(question, whole, named)
    return whole[:LONGEST_QUESTION]


def as_asked(turns: Sequence[Turn]) -> str | None:
    """Return the last question, if `spelled_out` completes it but it may be understood alone, too.

    "And who is the miller?" after "Who is the harbour master?" isn't about the harbour. None if it refers to what was
    said, says too little, or would be about another name than the one carried: better no answer than a false one.
    """
    questions = [turn.content[:LONGEST_QUESTION] for turn in turns if turn.role == "user"][-_EARLIER - 1 :]
    if not questions or (whole := spelled_out(turns)) == questions[-1] or _REFERS.search(questions[-1]):
        return None
    question, carried = questions[-1], whole.removesuffix(questions[-1])
    named = set[str]().union(*map(_named, questions[:-1]))
    says = _states(question) or sum(len(word) >= _LONG for word in content_words(question)) > _SHORT
    return question if says and named.isdisjoint(words(carried)) else None


def _states(question: str) -> bool:
    """Return whether it is a whole question by its words."""
    said = frozenset(_WORD.findall(question.casefold()))
    return bool(content_words(question)) and not said.isdisjoint(_ASKING) and not said.isdisjoint(_STATING)


def _with_terms(question: str, before: str, named: set[str]) -> str:
    own = content_words(question)
    instead = _INSTEAD.match(question) is not None and len(own) <= _SHORT_INSTEAD
    if not own or not (instead or len(own) <= _SHORT or (_REFERS.search(question) and len(own) <= _SHORT_INSTEAD)):
        return question if own else f"{before} {question}".strip()
    carried = _terms(before, named)
    if instead:
        carried = _without_replaced(carried, question, named)
    known = set(own)
    kept = [term for term in carried if not known.issuperset(words(term))]
    return " ".join([*kept[-_MOST:], question])


def _terms(question: str, named: set[str]) -> list[str]:
    """Return the question's content words as written, each once; a name of several words is one of them."""
    found: list[str] = []
    end = len(question)  # of the name before
    for match in _WORD.finditer(question):
        if not content_words(match[0]):
            continue
        is_name = not named.isdisjoint(words(match[0]))
        joined = is_name and question[end : match.start()] == " "
        found.append(f"{found.pop()} {match[0]}" if joined else match[0])
        end = match.end() if is_name else len(question)
    return list(dict.fromkeys(found))


def _without_replaced(terms: Sequence[str], question: str, named: set[str]) -> list[str]:
    """Return the terms without the one that the question replaces.

    A name replaces the last name. Other words ask something else of what is named: "And pub/sub?" after "How do I
    publish to a Redis list?" replaces `list`. Nothing is replaced where "it" or "there" may refer to any of the terms.
    """
    by_name = bool(_named(question))
    if not by_name and _REFERS.search(question) and named.isdisjoint(words(" ".join(terms))):
        return list(terms)
    last = terms[-1] if len(terms) > 1 else ""
    replaced = next((term for term in reversed(terms) if named.isdisjoint(words(term)) != by_name), last)
    return [term for term in terms if term != replaced]


def _named(question: str) -> set[str]:
    capitals, explaining = names(question)
    return capitals | explaining | codes(question)
