import pytest

from services.query_api.answer.citing import EXCERPT, citations, excerpt, page_label, references
from shared.answers import Passage


def a_passage(number: int, document: str, page: int | None = None, text: str = "It is so.") -> Passage:
    metadata = {"documentId": document, "chunkId": f"c{number}", "pageNumber": page, "start": 5, "end": 14}
    return Passage(number=number, text=text, title=document.title(), score=0.5, metadata=metadata)


@pytest.mark.feature(185)
def test_a_citation_has_its_passage_and_its_places_in_the_answer() -> None:
    passages = (a_passage(1, "notes", 5), a_passage(2, "guide"))

    first, second = citations("So it is [2], and so [1, 2].", passages)

    assert (first.number, first.spans, first.page_numbers) == (2, ((9, 12), (21, 27)), ())
    assert (second.number, second.spans, second.page_numbers) == (1, ((21, 27),), (5,))
    view = second.view()
    assert (view["document"], view["excerpt"], view["start"], view["end"], view["score"]) == (
        "Notes",
        "It is so.",
        5,
        14,
        0.5,
    )


def test_a_citation_names_the_page_of_its_quote() -> None:
    slides = ("Who is here? Ann Holm.", "Who is the owner? Ines Petry of Hull.", "What does it cost? Nine euros.")
    text = "\n\n".join(slides)
    passage = a_passage(1, "deck", 4, text)
    passage.metadata["pageStarts"] = [[text.index(slides[1]), 5], [text.index(slides[2]), 7]]

    def pages(answer: str) -> tuple[int, ...]:
        return citations(answer, (passage,))[0].page_numbers

    assert pages("Ines Petry of Hull. [1]") == (5,)
    assert pages("Ines Petry of Hull. [1] Nine euros. [1]") == (5, 7)
    assert pages("Petry of Hull.\n\nWhat does it cost? [1]") == (5, 7)
    assert pages("Nothing of the kind. [1]") == (4, 5, 7)


def test_a_number_without_a_passage_is_no_citation() -> None:
    assert citations("So [3].", (a_passage(1, "notes"),)) == ()


@pytest.mark.feature(188)
def test_references_name_each_document_once_with_its_pages_as_ranges() -> None:
    passages = tuple(a_passage(number, "notes", page) for number, page in enumerate((13, 2, 12, 14), start=1))

    lines = references(citations("[1] [2] [3] [4] [5]", (*passages, a_passage(5, "guide"))))

    assert lines == ["Notes, p.2, 12-14", "Guide"]


@pytest.mark.parametrize(
    ("pages", "label"), [([], None), ([5], "p.5"), ([1, 2, 3], "p.1-3"), ([1, 3, 4, 9], "p.1, 3-4, 9")]
)
def test_pages_are_shown_as_ranges(pages: list[int], label: str | None) -> None:
    assert page_label(pages) == label


def test_an_excerpt_ends_at_a_word() -> None:
    text = "lantern " * 100

    assert excerpt("short") == "short"
    assert len(excerpt(text)) <= EXCERPT + 2
    assert excerpt(text).endswith("lantern …")
