"""Completes a follow-up question with words of the questions before it, without a model."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from shared.answers import Turn
from shared.answers.sentences import codes, content_words, is_german, names, words

_WORD: Final = re.compile(r"[^\W_]+(?:['’.-][^\W_]+)*")
# "And over NATS?": repeats the question before, with one part replaced.
_INSTEAD: Final = re.compile(
    r"\s*(?:and|but|what about|how about|what of|und|aber|was ist mit|et|mais|qu'en est-il de|y|pero|qué tal|e|ma)\b",
    re.IGNORECASE,
)
_REFERS: Final = re.compile(
    r"(?:it|its|they|them|their|that|this|those|these|there|he|she|his|her|one|ones|"
    r"er|sie|es|dies\w*|das|dort|davon|dabei|ihn|ihm|il|elle|cela|ça|là|ello|eso|esto|allí)",
    re.IGNORECASE,
)
_SIMPLE_WORD: Final = re.compile(r"[^\W_]+")  # "it's" and "coûte-t-il" are several
_DEFINITE: Final = re.compile(r"\bthe\b", re.IGNORECASE)
_BE: Final = frozenset({"is", "are", "was", "were"})
_CHOOSING: Final = frozenset({"which", "the", "this", "that", "each", "other"})
# "And who is the miller?": a whole question by its words, though short.
_ASKING: Final = frozenset({"who", "what", "where", "when", "why", "how", "which"})
# "Tell me about the miller" opens a subject; what it asks for stands behind these words.
_REQUESTS: Final = "tell explain describe define erzähl erzähle erkläre beschreibe parle explique háblame explica"
_REQUESTING: Final = frozenset(_REQUESTS.split())
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
        if question is not questions[-1] and _states(question) and not _refers(question):
            # Whole by itself, and perhaps about something else: a later question means a name from before, at most.
            whole = " ".join(term for term in _terms(whole, named) if not named.isdisjoint(words(term)))
        whole = _with_terms(question, whole, named)
    return whole[:LONGEST_QUESTION]


def readings(turns: tuple[Turn, ...], *, quotes: bool) -> list[tuple[Turn, ...]]:
    """Return the conversations to answer in turn: as it is, and the last question alone if it may be whole by itself.

    "And who is the miller?" after "Who is the harbour master?" isn't about the harbour. A question isn't whole if it
    refers to what was said, says too little, or continues one with a name: better no answer than a false one. A model
    that quotes (`quotes`) takes it alone first, because what is carried over would be quoted, too, but for a name.
    """
    questions = [turn.content[:LONGEST_QUESTION] for turn in turns if turn.role == "user"][-_EARLIER - 1 :]
    if not questions or (completed := spelled_out(turns)) == questions[-1] or _refers(question := questions[-1]):
        return [turns]
    alone = (Turn(role="user", content=question),)
    says = _states(question) or sum(len(word) >= _LONG for word in content_words(question)) > _SHORT
    if named := not set[str]().union(*map(_named, questions[:-1])).isdisjoint(words(completed.removesuffix(question))):
        enough = len(content_words(question)) >= _SHORT or _opens(question)
        says = says and _INSTEAD.match(question) is None and enough
    if not says:
        return [turns]
    return [alone, turns] if quotes and not named else [turns, alone]


def _states(question: str) -> bool:
    """Return whether it is a whole question by its words, as "Who winds the clock?" or "Is there a lift?"."""
    said, own = [word.casefold() for word in _WORD.findall(question)], content_words(question)
    asks, states = not _ASKING.isdisjoint(said), not _STATING.isdisjoint(said)
    return bool(own) and (said[0] in _STATING or (asks and (states or len(own) >= _SHORT)) or _opens(question))


def _opens(question: str) -> bool:
    """Return whether it is a request that names its subject, as "Tell me about the miller"."""
    first, *others = [word.casefold() for word in _SIMPLE_WORD.findall(question)] or [""]
    return first in _REQUESTING and any(map(content_words, others))


def _refers(question: str) -> bool:
    """Return whether it has a word for something said before.

    The same words refer to nothing in "one winding", "is there a lift", "the key that opens it" and "das Haus".
    """
    said, own = _SIMPLE_WORD.findall(question), len(content_words(question))
    if own > _SHORT_INSTEAD:
        return False  # it says enough
    german = is_german(question)
    for before, word, after in zip(["", *said], said, [*said[1:], ""], strict=False):
        if not _REFERS.fullmatch(word):
            continue
        match word.casefold():
            case "one":
                idle = before.casefold() not in _CHOOSING and bool(content_words(after))
            case "that":
                idle = bool(after and content_words(before))
            case "there":
                exists = before.casefold() in _BE or after.casefold() in _BE
                idle = exists and (bool(after) or own >= _SHORT)
            case "das":
                idle = after[:1].isupper()
            case "es":  # Spanish for "is"
                idle = not german
            case _:
                idle = False
        if not idle:
            return True
    return False


def _with_terms(question: str, before: str, named: set[str]) -> str:
    own = content_words(question)
    if not own:
        return f"{before} {question}".strip()
    carried = _terms(before, named)
    instead = _INSTEAD.match(question) is not None and len(own) <= _SHORT_INSTEAD
    if not (instead or len(own) <= _SHORT or _refers(question)):
        if _named(question) or not _DEFINITE.search(question):
            return question
        # "How many hours did the pilot have?": the pilot of the accident that was named.
        carried = [term for term in carried if not named.isdisjoint(words(term))]
    if instead:
        carried = _without_replaced(carried, question, named)
    known = set(own)
    kept = [term for term in carried if not known.issuperset(words(term))]
    kept = kept[-_MOST:]
    # A capital says nothing of the first word: with another one in front, a name that is carried stays a name.
    first = ["about"] if kept and kept[0].title() == kept[0] and not named.isdisjoint(words(kept[0])) else []
    # A full stop, so that the question's first word is no name.
    return f"{' '.join([*first, *kept])}. {question}" if kept else question


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
    if not by_name and _refers(question) and named.isdisjoint(words(" ".join(terms))):
        return list(terms)
    last = terms[-1] if len(terms) > 1 else ""
    replaced = next((term for term in reversed(terms) if named.isdisjoint(words(term)) != by_name), last)
    return [term for term in terms if term != replaced]


def _named(question: str) -> set[str]:
    if is_german(question):  # every noun has a capital
        return codes(question)
    capitals, explaining = names(question)
    return capitals | explaining | codes(question)
