import pytest

from services.query_api.answer.chosen import asks_of_the_whole, chooses, greets, spread
from shared.store import Filter, Match, Prefix


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
        "この文書を要約して",
    ],
)
def test_questions_about_a_whole_document_are_known(question: str) -> None:
    assert asks_of_the_whole(question)
    assert not asks_of_the_whole("When is the lantern lit?")


@pytest.mark.parametrize(
    "message", ["Hello!", "good morning", "Thank you very much.", "Danke", "Merci beaucoup", "你好"]
)
def test_a_greeting_alone_is_one(message: str) -> None:
    assert greets(message)
    assert not greets(f"{message} When is the lantern lit?")
    assert not greets("good")


def test_a_long_document_is_read_by_its_headings_and_evenly() -> None:
    sections = ["a"] * 50 + ["b"] * 2 + ["c"] * 48

    chosen = spread(sections, 13)

    assert {0, 50, 52} <= set(chosen)
    assert chosen == sorted(chosen)
    assert len(chosen) == 13
    assert max(chosen) > 85
    assert spread(list(range(100)), 4) == [0, 25, 50, 75]
    assert spread(["a", "a"], 9) == [0, 1]
