"""Finds the citations in an answer: the passages cited, where in the text, and how a reader finds them."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from shared.answers import Passage
from shared.answers.citations import marks

EXCERPT = 300  # characters of a passage


class Citation(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that the answer cites."""

    number: int  # n of the mark [n]
    passage: Passage
    spans: tuple[tuple[int, int], ...]  # start and end of its marks in the answer, in characters

    @property
    def document_id(self) -> str:
        """Return the document's id."""
        return str(self.passage.metadata["documentId"])

    @property
    def excerpt(self) -> str:
        """Return the beginning of the passage."""
        return excerpt(self.passage.shown)

    @property
    def pages(self) -> str | None:
        """Return the passage's page as a reference shows it, such as `p.5`."""
        return page_label(pages_of(self.passage))

    def view(self) -> dict[str, Any]:
        """Return the citation as JSON replies show it. `start` and `end` locate the passage in its document's text."""
        metadata = self.passage.metadata
        return {
            "number": self.number,
            "documentId": self.document_id,
            "docId": self.document_id,
            "document": self.passage.title,
            "title": self.passage.title,
            "chunkId": metadata["chunkId"],
            "pageNumber": metadata.get("pageNumber"),
            "pages": self.pages,
            "excerpt": self.excerpt,
            "start": metadata.get("start"),
            "end": metadata.get("end"),
            "score": self.passage.score,
            "similarity": self.passage.score,
            "spans": [list(span) for span in self.spans],
        }


def citations(answer: str, passages: Sequence[Passage]) -> tuple[Citation, ...]:
    """Return the passages that the answer cites, each once, in the order of their first mention."""
    known = {passage.number: passage for passage in passages}
    spans: dict[int, list[tuple[int, int]]] = {}
    for start, end, numbers in marks(answer):
        for number in dict.fromkeys(numbers):
            if number in known:
                spans.setdefault(number, []).append((start, end))
    return tuple(Citation(number=number, passage=known[number], spans=tuple(each)) for number, each in spans.items())


def references(cited: Iterable[Citation]) -> list[str]:
    """Return a line per cited document, in order of first mention: its title and pages, such as `Notes, p.2, 12-14`."""
    pages: dict[str, set[int]] = {}
    titles: dict[str, str] = {}
    for citation in cited:
        titles.setdefault(citation.document_id, citation.passage.title)
        pages.setdefault(citation.document_id, set()).update(pages_of(citation.passage))
    return [
        ", ".join(filter(None, (title, page_label(sorted(pages[document_id])))))
        for document_id, title in titles.items()
    ]


def page_label(pages: Sequence[int]) -> str | None:
    """Return ascending page numbers as `p.2, 12-14`; None if there are none."""
    if not pages:
        return None
    breaks = [0, *(at for at, (page, after) in enumerate(pairwise(pages), start=1) if after != page + 1), len(pages)]
    runs = [pages[start:end] for start, end in pairwise(breaks)]
    return "p." + ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def pages_of(passage: Passage) -> list[int]:
    """Return the pages that the passage is on, ascending; empty if its document has no pages."""
    first = passage.metadata.get("pageNumber")
    last = passage.metadata.get("pageEnd", first)
    return list(range(first, last + 1)) if isinstance(first, int) and isinstance(last, int) else []


def excerpt(text: str) -> str:
    """Return the beginning of a passage, truncated after a word."""
    if len(text) <= EXCERPT:
        return text
    head = text[:EXCERPT]
    return f"{head.rsplit(None, 1)[0]} …"
