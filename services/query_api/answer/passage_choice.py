"""Tells what a question needs of the documents that were chosen or found, and picks it. Pure."""

import re
from collections.abc import Sequence
from functools import reduce
from typing import Any, Final

import msgspec

from services.query_api.search.results import Expanded, joined
from shared.answers import Passage
from shared.answers.follow_up import LONGEST_QUESTION
from shared.answers.prompt import text_tokens
from shared.store import Filter, Ids, Match, Prefix
from shared.text.words import folded

MOST_FOUND: Final = 20  # passages for a model, if the request names no number
JOINED: Final = "chunkIds"  # metadata of a joined passage: those of its chunks
_USUAL: Final = 10  # of them whatever their scores; the others must be good answers: docs/search.md
_GOOD: Final = 0.2
_MOST_JOINED: Final = 3  # chunks: a citation still says where
_LONGEST_JOINED: Final = 1_000  # tokens: one fits into the half of a small model's context that passages have

_CHOOSING: Final = ("metadata.documentId", "metadata.path")
_OF_CHUNKS: Final = frozenset(
    f"metadata.{name}"
    for name in ("chunkId", "chunkOrder", "chunkType", "sectionTitle", "pageNumber", "pageEnd", "start", "end")
)
_OF_THE_WHOLE: Final = re.compile(
    r"\b(?:summari[sz]|summary of\b|^(?:\w++ )?summary(?:,? please)?\W*+$|"
    r"(?:give|write|make|provide|create|show|draft|need|want|like)(?: [\w'-]++){0,5}? summary\b|"  # ordered
    r"overview|outline|gist|(?:main|key) (?:topic|point(?!s? of contact)|idea|theme|takeaway)|takeaways|tl;?dr|"
    r"what (?:is|are) (?:this|these|it|the (?:document|text|file))(?: (?:document|text|file|page|report)s?)?"
    r"(?: all)?\W*+$|"
    r"what(?: is| are| was|['’]s) (?:this|these|it|they|each|both|the|my|our)"
    r"(?:(?: \w++(?<!ing)){0,2}|(?: \w++){0,2}? (?:document|text|file|page|report)s?(?: \w++){0,4}) about\W*+$|"
    r"(?: is| are|['’]s) about\W*+$|compare (?:(?:all|of|the|these|those|both|two|three) ){0,4}"
    r"(?:these|those|both|all|them|two|three|(?:document|file|text|page|report|paper|article|version|contract)s)"
    r"(?: (?:with|to) each other)?(?:,? please)?\W*+$|"
    r"what do(?:es)? (?:this|these|it|they|the)(?: (?:\w++ )?(?:document|text|file|page|report|paper|article|book)s?)? "
    r"(?:say|cover|contain|discuss|describe|explain|conclude|tell (?:me|us)|talk about|deal with)\W*+$|"
    r"(?:what|which) (?:topics|subjects|themes|sections|chapters|information|things) (?:(?:are|is|do|does|has|have) )?+"
    r"(?:(?:this|these|it|they|the|there)(?: (?:document|text|file|page|report|paper|article|book)s?)? )?+"
    r"(?:cover|contain|discuss|mention|includ|treat|address|describ|have)\w{0,3}"
    r"(?: (?:here|in (?:here|it|(?:this|the|these) (?:document|text|file|page|report|paper|article|book)s?)))?\W*+$|"
    r"(?:what(?: is|['’]s)(?: written| said)? in|describe|explain|tell me(?: more)? about|"
    r"what (?:can|should) (?:i|we) (?:learn from|know about)) "
    r"(?:this|these|the (?:document|text|file|page|report|paper|article|book)s?)"
    r"(?: (?:document|text|file|page|report|paper|article|book)s?)?(?:,? please)?\W*+$|"
    r"(?<!['’]s )(?:main|key|most important|central) (?:finding|fact|message|conclusion|argument|point|insight)s?"
    r"(?: (?:of|in|from) (?:it|"
    r"(?:this|these|the) (?:document|text|file|page|report|paper|article|book|study|survey)s?))?"
    r"\W*+$|in a nutshell|table of contents|^highlights\W*+$|"
    r"was (?:steht|sagt) (?:(?:in|da|hier) )?+(?:die(?:se[rms]?)?|de[rm]|das) (?:dokument|text|datei|bericht)|"
    r"(?:wichtigste|zentrale)n? (?:punkt|aussage|them|inhalt|erkenntnis)\w*+\W*+$|"
    r"points (?:clés|essentiels)|puntos clave|punti (?:chiave|principali)|"
    r"(?:que|qué|cosa|qu['’]est-ce que) (?:dit|contient|dice|contiene) (?:ce|cette|este|el|questo|il) "
    r"(?:document|texte|fichier|rapport|archivo|informe|testo|file)|"
    r"list (?:all |the |of |main |key )*(?:topics|sections|headings|chapters)|"
    r"vergleiche? (?:die |diese |beiden? |alle |zwei )*"
    r"(?:dokument|datei|text|bericht|vertr|version|fassung|(?:sie|beiden?|diese|alle)\W*+$)|"
    r"compar\w{1,3} (?:(?:ces|les|l?[oa]s|est[aeo]s|questi|i|due|deux|d[oe]s|dois|duas|tous|tod[oa]s) ){1,4}"
    r"(?:documen|fichier|text|archivo|arquivo|ficheiro|file|testi|contrat|version|rapport|inform)|"
    r"(?:fasse|fassen sie|^fass|^vat)\b.{1,60}\b(?:zusammen|samen)\b|sum (?:it|this|them|these) (?:all )?up\b|"
    r"zusammenfass|überblick|hauptthema|worum geht|wovon handelt|kernaussage|"
    r"résum|sujet principal|points principaux|"
    r"resum(?!e[ds]?\b|ing\b|pti)|resumes? (?:el|la|l?os?|las|est\w++|es[aeo]s?|ist?[so]|tod[oa]s?)\b|tema principal|"
    r"puntos principales|(?:de quoi|de qué|d[eo] que|di cosa) (?:\S++ ){0,3}(?:s['’]agit|parl|trai?t|habla|fala)|"
    r"riassum|riassunt|argomento principale|samenvat|hoofdonderwerp|waar gaat .{0,60} over\b|streść|podsumuj|streszcz|"
    r"o czym (?:jest|są|mówi)|główny temat|souhrn|shrň|o čem (?:je|jsou)\b|hlavní téma|кратк|резюм|"
    r"о ч[её]м (?:эт|документ|текст|файл|ид[её]т|говорит)|главная тема|özet|ana konu|"
    r"περίληψ|σ[υύ]ν[οό]ψ|κύριο θέμα|tóm tắt|porówn\w+ (?:te |oba |dwa |wszystkie )*(?:dokument|plik|tekst)|"
    r"porovn\w+ (?:tyto |oba |dva |všechny )*(?:dokument|soubor|text)|so sánh (?:\w+ ){0,2}(?:tài liệu|văn bản)|"
    r"сравни\w* (?:эти |оба |обе |два |две |все )*(?:документ|файл|текст|отч[её]т|верси|договор)|"
    r"(?:belge|dosya|metin|metn|rapor)\w* (?:\w+ )?karşılaştır|"
    r"σ[υύ]γκρ\w+ (?:αυτά |τα |δύο |όλα )*(?:έγγραφ|κείμεν|αρχεί))"
    r"|总结|摘要|概述|主题|比较(?:这|两|所有)\w{0,5}\W*+$|(?:文書|書類|ファイル|資料|ドキュメント)を?(?:互いに)?比較"
    r"|(?:문서|파일|자료|보고서)\w{0,2} (?:서로 )?비교|قارن (?:بين )?(?:\w+ )?(?:ال)?(?:وثيق|وثائق|مستند|ملف|نص)"
    r"|เปรียบเทียบ(?:เอกสาร|ไฟล์|ข้อความ)|(?:दस्तावेज़|दस्तावेज|फ़ाइल|फ़ाइल|पाठ)\S{0,3} की (?:\S+ )?तुलना"
    r"|要約|まとめ|概要|요약|주제|개요|لخص|ملخص|الموضوع|สรุป|หัวข้อหลัก|सारांश|मुख्य विषय",
    re.IGNORECASE,
)
_COMPARES: Final = re.compile(
    r"\b(?:compar\w+|contrast\w*|differ\w*|versus|vs|in common|vergleich\w*|unterschied\w*|différen\w*|diferenci\w*|"
    r"porówn\w+|porovn\w+|so sánh|сравн\w+|karşılaştır\w*|σ[υύ]γκρ\w+)\b|比较|比較|비교|قارن|เปรียบเทียบ|तुलना",
    re.IGNORECASE,
)
# Greetings and thanks, by the greeting that answers them where no language model does. Half of one (`evening`) is none.
_GREETINGS: Final = {
    greeting: re.compile(f" (?:{folded(said).replace(', ', '|')})(?= )")
    for greeting, said in {
        "Hello! What would you like to know about the documents?": "hello, hi, hey, greetings, thanks, thank you, thx, "
        "cheers, good (?:day, morning, evening, afternoon, night), bye, goodbye",
        "Guten Tag! Was möchten Sie aus den Dokumenten wissen?": "hallo, servus, moin, danke, vielen dank, tschüss, "
        "guten (?:tag, morgen, abend), schönen (?:tag, abend)",
        "Bonjour ! Que voulez-vous savoir des documents ?": "bonjour, bonsoir, salut, merci",
        "¡Hola! ¿Qué quiere saber de los documentos?": "hola, gracias, buenos días, buenas (?:tardes, noches), buenas",
        "Ciao! Che cosa vuole sapere dai documenti?": "ciao, buongiorno, buonasera, grazie",
        "Olá! O que quer saber dos documentos?": "olá, oi, obrigado, obrigada, bom dia, boa (?:tarde, noite)",
        "Hallo! Wat wilt u weten uit de documenten?": "bedankt, dankjewel, dank (?:je, u), goedemorgen, goedendag, "
        "goedenavond",
        "Dzień dobry! Czego chcesz się dowiedzieć z dokumentów?": "cześć, hej, dzięki, dziękuję, dzień dobry",
        "Dobrý den! Co chcete vědět z dokumentů?": "ahoj, děkuji, díky, dobrý den",
        "Здравствуйте! Что вы хотите узнать из документов?": "привет, здравствуйте, спасибо, добрый (?:день, вечер), "
        "доброе утро",
        "Merhaba! Belgelerden ne öğrenmek istersiniz?": "merhaba, selam, teşekkürler, günaydın",
        "Γεια σας! Τι θέλετε να μάθετε από τα έγγραφα;": "γεια, καλημέρα, καλησπέρα, χαίρετε, ευχαριστώ",
        "Xin chào! Bạn muốn biết gì từ các tài liệu?": "xin chào, chào, cảm ơn",
        "你好！您想从文档中了解什么？": "你好, 您好, 谢谢, 早上好",
        "こんにちは。文書について何をお知りになりたいですか。": "こんにちは, こんばんは, おはようございます, "
        "ありがとう, ありがとうございます",
        "안녕하세요! 문서에서 무엇을 알고 싶으신가요?": "안녕, 안녕하세요, 감사합니다, 고마워요",
        "مرحبا! ماذا تريد أن تعرف من المستندات؟": "مرحبا, شكرا, السلام عليكم, أهلا",
        "สวัสดี! คุณต้องการทราบอะไรจากเอกสาร": "(?:สวัสดี, ขอบคุณ)(?:ครับ, ค่ะ)?",
        "नमस्ते! आप दस्तावेज़ों से क्या जानना चाहते हैं?": "नमस्ते, नमस्कार, धन्यवाद, शुक्रिया",
    }.items()
}
_BESIDE: Final = frozenset(
    folded("""
there you very much so a lot again all everyone ok okay dir
that this it was helped helps helpful for your the great perfect nice many got now
ihnen sehr beaucoup muchas muito mille tante wel большое çok σου σας
πολύ bạn जी
""").split()
)
_BETWEEN: Final = re.compile(
    r"[\s!-/:-@\[-`{-~¡¿…’«»،؟।、。！？～]+"
)  # not `\W`: vowel signs of Thai and Hindi are no letters
_MOST_WORDS: Final = 6


def chooses(where: Filter) -> bool:
    """Return whether the filter names documents or paths, and narrows nothing within a document."""
    conditions = (*where.must, *where.must_not)
    if any(isinstance(each, Ids) or each.field in _OF_CHUNKS for each in conditions):
        return False
    return any(isinstance(each, Match | Prefix) and each.field in _CHOOSING for each in where.must)


def asks_of_the_whole(question: str) -> bool:
    """Return whether the question is about documents as wholes: a summary, the main topic, an overview."""
    return bool(_OF_THE_WHOLE.search(question, 0, LONGEST_QUESTION))


def compares(question: str) -> bool:
    """Return whether the question asks for a comparison."""
    return bool(_COMPARES.search(question, 0, LONGEST_QUESTION))


def greeting_for(message: str) -> str | None:
    """Return the greeting in the language of a message that is a greeting or thanks and nothing else."""
    parts = _BETWEEN.split(folded(message)) if len(message) < 100 else []
    said = [part for part in parts if any(map(str.isalnum, part))]
    left = text = f" {' '.join(said)} "
    for known in _GREETINGS.values():
        left = known.sub("", left)
    if len(said) > _MOST_WORDS or not _BESIDE.issuperset(left.split()):
        return None
    return next((greeting for greeting, known in _GREETINGS.items() if known.search(text)), None)


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


def supported(passages: Sequence[Passage]) -> list[Passage]:
    """Return the first ten passages, and the others whose scores say that they are good answers."""
    return [each for at, each in enumerate(passages) if at < _USUAL or each.score >= _GOOD]


def together(passages: Sequence[Passage]) -> tuple[Passage, ...]:
    """Return the passages with neighbours of one document joined, at the place of the best of them; numbered anew."""
    runs: list[list[int]] = []
    for at in sorted(range(len(passages)), key=lambda at: _place(passages[at])):
        fits = runs and sum(text_tokens(passages[each].text) for each in (*runs[-1], at)) <= _LONGEST_JOINED
        if fits and len(runs[-1]) < _MOST_JOINED and _follows(passages[runs[-1][-1]], passages[at]):
            runs[-1].append(at)
        else:
            runs.append([at])
    whole = (reduce(_joined, [passages[at] for at in run]) for run in sorted(runs, key=min))
    return tuple(msgspec.structs.replace(each, number=number) for number, each in enumerate(whole, start=1))


def _place(passage: Passage) -> tuple[Any, ...]:
    return passage.metadata["documentId"], passage.metadata["version"], passage.metadata["chunkOrder"]


def _follows(passage: Passage, other: Passage) -> bool:
    *version, order = _place(passage)
    copied = "copies" in passage.metadata or "copies" in other.metadata  # each has other places of its own
    return not copied and _place(other) == (*version, order + 1)


def _joined(passage: Passage, other: Passage) -> Passage:
    before, after = passage.metadata, other.metadata
    parts = [Expanded(each.text, each.metadata["start"], each.metadata["end"]) for each in (passage, other)]
    whole = joined(parts)
    metadata = {**before, "end": whole.end, JOINED: [*before.get(JOINED, [before["chunkId"]]), after["chunkId"]]}
    if page := after.get("pageNumber"):
        shift = len(whole.text) - len(other.text)
        starts = [[shift, page], *([shift + start, on] for start, on in after.get("pageStarts") or [])]
        metadata |= {
            "pageEnd": after.get("pageEnd") or page,
            "pageStarts": [*(before.get("pageStarts") or []), *starts],
        }
    score = max(passage.score, other.score)
    return msgspec.structs.replace(passage, text=whole.text, score=score, metadata=metadata)
