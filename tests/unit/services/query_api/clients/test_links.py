"""Links to sources: each passage has one of its own, and [n] is the n-th."""

from typing import Any

import pytest

from services.query_api.answer.answering import Answer
from services.query_api.answer.citing import citations
from services.query_api.clients.links import Links, source_list
from shared.answers import Passage


def a_passage(number: int = 1, text: str = "The lantern is lit at six.", **metadata: Any) -> Passage:
    fields = {"documentId": "d", "chunkId": f"c{number}", "chunkOrder": number, **metadata}
    return Passage(number=number, text=text, title=f"Title [{number}]", score=0.5, metadata=fields)


def an_answer(text: str, *passages: Passage) -> Answer:
    return Answer(text=text, model="m", passages=passages, citations=citations(text, passages))


LINKS = Links("https://kb.example/")


@pytest.mark.parametrize(
    ("metadata", "link"),
    [
        ({}, "https://kb.example/documents/d?chunk=c1"),
        ({"url": "file:///a"}, "https://kb.example/documents/d?chunk=c1"),
        ({"url": "https://a.example/x.pdf", "pageNumber": 3}, "https://a.example/x.pdf#page=3&chunk=1"),
        (
            {"url": "https://a.example/x?y=1#part"},
            "https://a.example/x?y=1#part:~:text=The%20lantern%20is%20lit%20at%20six.",
        ),
    ],
)
def test_a_passage_s_link_leads_as_near_to_it_as_possible(metadata: dict[str, Any], link: str) -> None:
    passage = a_passage(**metadata)

    assert LINKS.passage(passage.metadata, passage.text) == link


def test_a_page_s_link_names_words_that_a_reader_sees_there() -> None:
    passage = a_passage(text="# Lantern\n\n| a | b |\n\nIt burns whale oil, all night long.", url="https://a.example/")

    assert LINKS.passage(passage.metadata, passage.text).endswith(":~:text=It%20burns%20whale%20oil%2C%20all%20night")


def test_every_passage_is_a_source_in_the_order_of_the_numbers_and_one_that_is_not_cited_has_no_span() -> None:
    answer = an_answer("At six [2], at noon [2].", a_passage(1), a_passage(2), a_passage(3))

    sources = LINKS.sources(answer)

    assert [each.number for each in sources] == [1, 2, 3]
    assert [answer.text[each.start : each.end] for each in sources] == ["", "[2]", ""]
    assert len({each.url for each in sources}) == 3


def test_the_list_of_sources_has_the_cited_ones_only() -> None:
    sources = LINKS.sources(an_answer("At six [2].", a_passage(1), a_passage(2)))

    assert source_list(sources) == ("\n\n**Sources**\n\n2. [Title (2)](https://kb.example/documents/d?chunk=c2)")
    assert source_list([]) == ""
