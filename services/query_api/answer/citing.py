"""Finds the citations in an answer: the passages cited, where in the text, and how a reader finds them."""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from shared.answers import Passage
from shared.answers.citations import marks

EXCERPT = 300  # characters of a passage
_STATEMENT = 2_000  # characters before a mark that may be what it proves
_RUN = 4  # words in a row that tell where a statement stands
_WORD = re.compile(r"\w++")


class Citation(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that the answer cites."""

    number: int  # n of the mark [n]
    passage: Passage
    spans: tuple[tuple[int, int], ...]  # start and end of its marks in the answer, in characters
    page_numbers: tuple[int, ...] = ()  # where the passage says what is cited, ascending

    @property
    def document_id(self) -> str:
        """Return the document's id."""
        return str(self.passage.metadata["documentId"])

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
            "pageNumber": next(iter(self.page_numbers), None),
            "pages": page_label(self.page_numbers),
            "excerpt": excerpt(self.passage.shown),
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
    pages: dict[int, set[int]] = {}
    stated = before = 0  # where the statement begins, and where the last mark ended
    for start, end, numbers in marks(answer):
        if answer[before:start].strip():  # several marks may follow one statement
            stated = before
        before = end
        for number in dict.fromkeys(numbers):
            if number in known:
                spans.setdefault(number, []).append((start, end))
                pages.setdefault(number, set()).update(_pages(answer[stated:start], known[number]))
    return tuple(
        Citation(number=number, passage=known[number], spans=tuple(each), page_numbers=tuple(sorted(pages[number])))
        for number, each in spans.items()
    )


def references(cited: Iterable[Citation]) -> list[str]:
    """Return a line per cited document, in order of first mention: its title and pages, such as `Notes, p.2, 12-14`."""
    pages: dict[str, set[int]] = {}
    titles: dict[str, str] = {}
    for citation in cited:
        titles.setdefault(citation.document_id, citation.passage.title)
        pages.setdefault(citation.document_id, set()).update(citation.page_numbers)
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


def _pages(statement: str, passage: Passage) -> list[int]:
    """Return the pages on which the passage has the statement's words, all of its pages if it has none of them."""
    first = passage.metadata.get("pageNumber")
    starts = passage.metadata.get("pageStarts") or []
    if not isinstance(first, int) or not starts:
        return [first] if isinstance(first, int) else []
    said = [word[0].casefold() for word in _WORD.finditer(statement, max(0, len(statement) - _STATEMENT))]
    width = min(_RUN, len(said))
    runs = {tuple(said[at : at + width]) for at in range(len(said) - width + 1)} if said else set()
    words = [(word[0].casefold(), word.start()) for word in _WORD.finditer(passage.text)]
    offsets, numbers = [0, *(start for start, _ in starts)], [first, *(page for _, page in starts)]
    found = Counter(
        numbers[bisect_right(offsets, words[at][1]) - 1]
        for at in range(len(words) - width + 1)
        if tuple(word for word, _ in words[at : at + width]) in runs
    )
    most = max(found.values(), default=0)
    return [page for page, count in found.items() if 4 * count >= most] or numbers


def excerpt(text: str) -> str:
    """Return the beginning of a passage, truncated after a word."""
    if len(text) <= EXCERPT:
        return text
    head = text[:EXCERPT]
    return f"{head.rsplit(None, 1)[0]} …"
