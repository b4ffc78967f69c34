from collections.abc import Callable

import msgspec
import pytest

from services.query_api.answer.passage_choice import (
    asks_of_the_whole,
    chooses,
    compares,
    greeting_for,
    spread,
    supported,
    together,
)
from shared.answers import Passage
from shared.store import Filter, Match, Prefix
from tests.loop_holds import least_cpu_s


def test_a_filter_chooses_documents_by_id_or_path_but_not_within_one() -> None:
    by_id, by_folder = Match("metadata.documentId", ("a",)), Prefix("metadata.path", "guides/")

    assert chooses(Filter(must=(by_id,)))
    assert chooses(Filter(must=(by_folder, Match("metadata.tags", ("x",)))))
    assert not chooses(Filter(must=(Match("metadata.tags", ("x",)),)))
    assert not chooses(Filter(must=(by_id, Match("metadata.pageNumber", (3,)))))
    assert not chooses(Filter(must_not=(by_id,)))


@pytest.mark.parametrize(
    "question",
    [
        "Summarize this document",
        "What is the main topic?",
        "Worum geht es in dem Dokument?",
        "Résume ce document",
        "Resume este documento",
        "Riassumi il testo",
        "O czym jest ten dokument?",
        "总结这份文件",
        "이 문서를 요약해 줘",
        "What is this document about?",
        "What is the report on harbours about?",
        "What are the documents in this folder about?",
        "What does the annual report talk about?",
        "Tell me what it's about.",
        "De quoi parle ce document ?",
        "¿De qué trata este documento?",
        "Waar gaat dit document over?",
        "О чём этот документ?",
        "Vergleiche beide Dokumente.",
        "比较这两份文件",
        "What does it say?",
        "Compare these documents",
        "List the main points.",
        "List all key topics",
        "Please compare all of them.",
        "Compare these two files with each other",
        "Vergleiche die beiden Dokumente",
        "Comparez ces deux fichiers",
        "Compare os dois documentos",
        "Give me a short summary",
        "I'd like a summary, please",
        "Executive summary, please",
        "A summary of the minutes",
        "¿Me resumes el texto?",
        "Un resumen, por favor",
        "Do que trata este texto?",
        "สรุปเอกสารนี้",
        "इस दस्तावेज़ का सारांश",
        "Κάνε μια περίληψη",
        "この文書を要約して",
        "Fasse das Dokument bitte zusammen",
        "Vat dit document samen",
        "Can you sum it up?",
        "Σύνοψε αυτό το έγγραφο",
        "二つの文書を比較して",
        "เปรียบเทียบเอกสารสองฉบับ",
        "قارن بين الوثيقتين",
        "दोनों दस्तावेज़ों की तुलना करें",
        "Сравни эти документы",
        "Bu iki belgeyi karşılaştır",
        "Σύγκρινε τα δύο έγγραφα",
        "두 문서를 비교해 줘",
        "比较两份文件",
        "Porównaj oba dokumenty",
        "Porovnej tyto dokumenty",
        "So sánh hai tài liệu",
        "What does this report conclude?",
        "Which topics are covered here?",
        "What's in this file?",
        "Tell me about this document",
        "What are the key findings of the study?",
        "Was steht in diesem Dokument?",
        "Quels sont les points clés ?",
        "¿Qué dice este documento?",
    ],
)
def test_questions_about_a_whole_document_are_known(question: str) -> None:
    assert asks_of_the_whole(question)


@pytest.mark.parametrize(
    "question",
    [
        "When is the lantern lit?",
        "What does it cost?",
        "What does section 3 say?",
        "What are the key facts about otters?",
        "Tell me more about it",
        "What does it mean?",
        "What is the train's central point?",
        "Highlights of the 2019 tour?",
        "What should I know about the harbour?",
        "Which sections have a fence?",
        "What is in the box?",
        "What is it made of?",
        "How do queued jobs get retried?",
        "How do I resume a paused upload?",
        "When were talks resumed after the resumption of flights?",
        "Who wrote the executive summary?",
        "List the main suppliers and their prices",
        "List all key contacts",
        "Who is the main point of contact?",
        "Compare all prices of the premium plan",
        "How does A compare as B?",
        "Vergleiche die Preise der Tarife",
        "Comparez les prix des billets",
        "What did they complain about?",
        "What is the keeper complaining about?",
        "Compare both lamps: what is the brightness of the lamp?",
        "Vergleiche beide Lampen: Wie hell sind sie?",
        "比较这两盏灯:哪一盏更亮?",
        "De quoi est fait le toit ?",
        "¿De qué color es la puerta?",
        "Custa mais do que cinco?",
        "Waar gaat de boot heen?",
        "Wie viel fasst das Fass zusammen mit dem Eimer?",
        "Wat zit er in het vat samen met de emmer?",
        "Do the fares sum up to 100?",
        "Сравни цены на билеты",
        "두 배의 속도를 비교해 줘",
        "二つのランプを比較して",
    ],
)
def test_questions_about_a_part_are_searched(question: str) -> None:
    assert not asks_of_the_whole(question)


@pytest.mark.parametrize(
    ("message", "greeting"),
    [
        ("Hello!", "Hello!"),
        ("Hi 👋", "Hello!"),
        ("good morning", "Hello!"),
        ("Thank you very much.", "Hello!"),
        ("Danke", "Guten Tag!"),
        ("hi there, good evening all", "Hello!"),
        ("Ok, thanks", "Hello!"),
        ("Thank you very much, that helped", "Hello!"),
        ("ok thanks bye", "Hello!"),
        ("Cheers, great", "Hello!"),
        ("Tschüss", "Guten Tag!"),
        ("Vielen Dank!", "Guten Tag!"),
        ("Buenas noches", "¡Hola!"),
        ("Muchas gracias", "¡Hola!"),
        ("Boa tarde", "Olá!"),
        ("Dobrý den", "Dobrý den!"),
        ("Доброе утро", "Здравствуйте!"),
        ("Guten Tag", "Guten Tag!"),
        ("Merci beaucoup", "Bonjour"),
        ("Buenos días", "¡Hola!"),
        ("Dzień dobry", "Dzień dobry!"),
        ("Добрый день", "Здравствуйте!"),
        ("Γεια", "Γεια"),
        ("Ευχαριστώ πολύ", "Γεια"),
        ("Xin chào", "Xin chào!"),
        ("Cảm ơn bạn", "Xin chào!"),
        ("สวัสดี", "สวัสดี!"),
        ("ขอบคุณค่ะ", "สวัสดี!"),
        ("नमस्ते!", "नमस्ते!"),
        ("धन्यवाद।", "नमस्ते!"),
        ("你好！", "你好！"),
        ("السلام عليكم", "مرحبا!"),
    ],
)
def test_a_greeting_alone_gets_one_in_its_language(message: str, greeting: str) -> None:
    assert (greeting_for(message) or "").startswith(greeting)
    assert greeting_for(f"{message} When is the lantern lit?") is None


HALVES = (
    "evening",
    "Morning",
    "afternoon",
    "tag",
    "Abend",
    "Morgen",
    "Dank",
    "den",
    "tarde",
    "noite",
    "dia",
    "días",
    "dzień",
    "день",
    "вечер",
    "all evening",
    "good",
    "great",
    "help",
    "that was it",
    "السلام",
)


@pytest.mark.parametrize(
    "message", ["good", "you", "Hello, what is a quay?", "Is the quay good?", "?!", "", "Tag 5", "day", "ok", *HALVES]
)
def test_what_is_no_greeting_gets_none(message: str) -> None:
    assert greeting_for(message) is None


@pytest.mark.parametrize("asked", [asks_of_the_whole, compares, greeting_for])
def test_of_a_question_as_long_as_a_book_the_beginning_is_looked_at(asked: Callable[[str], object]) -> None:
    assert least_cpu_s(lambda: asked("ab," * 1_000_000), 0.05) <= 0.05


def test_a_long_document_is_read_by_its_headings_and_evenly() -> None:
    sections = ["a"] * 50 + ["b"] * 2 + ["c"] * 48

    chosen = spread(sections, 13)

    assert {0, 50, 52} <= set(chosen)
    assert chosen == sorted(chosen)
    assert len(chosen) == 13
    assert max(chosen) > 85
    assert spread(list(range(100)), 4) == [0, 25, 50, 75]
    assert spread(["a", "a"], 9) == [0, 1]


def a_passage(number: int, document: str, order: int, score: float = 0.5, **metadata: object) -> Passage:
    text = f"Part {order} of {document}."
    place = {"documentId": document, "version": 1, "chunkId": f"{document}{order}", "chunkOrder": order}
    return Passage(
        number=number,
        text=text,
        title=document,
        score=score,
        metadata={**place, "start": 100 * order, "end": 100 * order + len(text), **metadata},
    )


def test_the_first_passages_are_read_and_others_only_if_they_are_good() -> None:
    scores = [0.03] * 12 + [0.3, 0.1]
    found = [a_passage(number, "a", 2 * number, score) for number, score in enumerate(scores)]

    assert supported(found) == [*found[:10], found[12]]


def test_neighbours_are_one_passage_at_the_place_of_the_best() -> None:
    found = [
        a_passage(1, "b", 7),
        a_passage(2, "a", 3, 0.4, pageNumber=2, pageEnd=3, pageStarts=[[5, 3]]),
        a_passage(3, "b", 1),
        a_passage(4, "a", 2, 0.2, pageNumber=1),
        a_passage(5, "a", 9, version=2),
    ]

    first, second, *rest = together(found)

    assert (first.number, first.text, first.metadata) == (1, found[0].text, found[0].metadata)
    assert (second.number, second.text, second.score) == (2, "Part 2 of a.\n\nPart 3 of a.", 0.4)
    assert second.metadata["chunkIds"] == ["a2", "a3"]
    assert (second.metadata["start"], second.metadata["end"]) == (200, 312)
    assert (second.metadata["pageEnd"], second.metadata["pageStarts"]) == (3, [[14, 2], [19, 3]])
    assert [(each.number, each.text) for each in rest] == [(3, found[2].text), (4, found[4].text)]


def test_long_runs_other_versions_and_copies_stay_apart() -> None:
    run = [a_passage(number, "a", number) for number in range(7)]
    copied = [a_passage(1, "a", 1, copies=[{"path": "b"}]), a_passage(2, "a", 2)]
    versions = [a_passage(1, "a", 1), a_passage(2, "a", 2, version=2)]

    assert [len(each.metadata.get("chunkIds", "1")) for each in together(run)] == [3, 3, 1]
    assert together(copied) == tuple(copied)
    assert together(versions) == tuple(versions)


def test_neighbours_that_a_small_context_could_not_take_together_stay_apart() -> None:
    long = [msgspec.structs.replace(a_passage(number, "a", number), text="word " * 400) for number in range(3)]

    assert [each.metadata.get("chunkIds") for each in together(long)] == [["a0", "a1"], None]
