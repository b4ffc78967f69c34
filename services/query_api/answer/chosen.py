"""Tells what a question needs of documents that the caller has chosen, and picks it. Pure."""

import re
from collections.abc import Sequence
from typing import Final

from shared.store import Filter, Ids, Match, Prefix

_CHOOSING: Final = ("metadata.documentId", "metadata.path")
_OF_CHUNKS: Final = frozenset(
    f"metadata.{name}"
    for name in ("chunkId", "chunkOrder", "chunkType", "section", "pageNumber", "pageEnd", "start", "end")
)
_OF_THE_WHOLE: Final = re.compile(
    r"\b(?:summar|overview|outline|gist|main (?:topic|point|idea|theme)|key (?:point|takeaway)|takeaways|tl;?dr|"
    r"what (?:is|are|does) (?:this|these|it|the document|the text|the file)|about\?$|"
    r"zusammenfass|überblick|hauptthema|worum geht|wovon handelt|kernaussage|"
    r"résum|sujet principal|de quoi|points principaux|resum|tema principal|de qué|puntos principales|do que|"
    r"riassum|riassunt|argomento principale|di cosa|samenvat|hoofdonderwerp|waar gaat|streść|podsumuj|streszcz|"
    r"o czym|główny temat|souhrn|shrň|o čem|hlavní téma|кратк|резюм|о чём|о чем|главная тема|özet|ana konu)"
    r"|总结|摘要|概述|主题|要約|まとめ|概要|요약|주제|개요|لخص|ملخص|الموضوع",
    re.IGNORECASE,
)
_GREETINGS: Final = """
hello hi hey greetings thanks thank thx hallo servus moin danke dank bonjour bonsoir salut merci hola buenas gracias
ciao buongiorno buonasera grazie olá ola oi obrigado obrigada bedankt dankjewel cześć hej dzięki dziękuję ahoj děkuji
привет здравствуйте спасибо merhaba selam teşekkürler 你好 谢谢 こんにちは ありがとう ありがとうございます
안녕하세요 díky 감사합니다 مرحبا شكرا morning evening afternoon morgen abend tag días tardes noches dia tarde noite
"""
_BESIDES: Final = """
there good you very much so a lot again all everyone guten gute schönen vielen dir ihnen sehr beaucoup buenos muchas bom
boa muito mille tante je u wel dobry dzień dobrý den день добрый большое çok
"""
_GREETING, _BESIDE = frozenset(_GREETINGS.split()), frozenset(_BESIDES.split())
_WORD: Final = re.compile(r"\w++")
_MOST_WORDS: Final = 6


def chooses(where: Filter) -> bool:
    """Return whether the filter names documents or paths, and narrows nothing within a document."""
    conditions = (*where.must, *where.must_not)
    if any(isinstance(each, Ids) or each.field in _OF_CHUNKS for each in conditions):
        return False
    return any(isinstance(each, Match | Prefix) and each.field in _CHOOSING for each in where.must)


def asks_of_the_whole(question: str) -> bool:
    """Return whether the question is about documents as wholes: a summary, the main topic, an overview."""
    return bool(_OF_THE_WHOLE.search(question))


def greets(message: str) -> bool:
    """Return whether the message is a greeting or thanks and nothing else."""
    said = _WORD.findall(message.casefold()) if len(message) < 100 else []
    return 0 < len(said) <= _MOST_WORDS and not _GREETING.isdisjoint(said) and set(said) <= _GREETING | _BESIDE


def spread(sections: Sequence[object], count: int) -> list[int]:
    """Return the positions of at most `count` chunks in reading order: the first of each section, then evenly spread.

    `sections` has the section of each chunk. More sections than `count` are evenly spread.
    """
    first = [at for at, section in enumerate(sections) if not at or section != sections[at - 1]]
    if len(first) >= count:
        return _evenly(first, count)
    others = sorted(set(range(len(sections))) - set(first))
    return sorted([*first, *_evenly(others, count - len(first))])


def _evenly(positions: Sequence[int], count: int) -> list[int]:
    if len(positions) <= count:
        return list(positions)
    return [positions[number * len(positions) // count] for number in range(count)]
