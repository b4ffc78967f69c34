"""Makes the URLs at which readers find cited passages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import msgspec

from services.query_api.answer.answering import Answer
from services.query_api.http.problems import Problem
from services.query_api.http.request import ApiRequest
from shared.settings import Settings

_WORDS: Final = 6  # words of a passage's beginning, by which a browser finds it on a page
_WEB: Final = ("http://", "https://")
_NO_TEXT: Final = frozenset("#|`>*-_=~[]<")  # a line that begins with one of these looks different on the rendered page


class SourceLink(msgspec.Struct, frozen=True, kw_only=True):
    """A source that a reader can open: a passage with its URL. `start == end` if the answer doesn't cite it."""

    number: int  # n of the mark [n]
    url: str
    title: str
    start: int  # offset of its first mark in the answer, in characters
    end: int


@dataclass(frozen=True)
class Links:
    """Makes the URLs of sources."""

    base: str  # the URL at which readers reach this server

    def document(self, document_id: str) -> str:
        """Return the URL of the document's page in the console, where a reader may have to sign in."""
        return f"{self.base.rstrip('/')}/documents/{document_id}"

    def page(self, metadata: Mapping[str, Any]) -> str:
        """Return the document's own URL, or else that of its page on this server."""
        url = str(metadata.get("url") or "")
        return url if url.startswith(_WEB) else self.document(metadata["documentId"])

    def passage(self, metadata: Mapping[str, Any], text: str) -> str:
        """Return the passage's URL, based on the document's own URL, or else on its page on this server.

        Each passage has a URL of its own: clients merge sources with equal URLs, which would shift the numbers `[n]`.
        """
        url = str(metadata.get("url") or "")
        if not url.startswith(_WEB):
            return f"{self.document(metadata['documentId'])}?chunk={metadata['chunkId']}"
        page, _, fragment = url.partition("#")
        if number := metadata.get("pageNumber"):
            return f"{page}#page={number}&chunk={metadata.get('chunkOrder', 0)}"
        return f"{page}#{fragment}:~:text={quote(_beginning(text), safe='')}"

    def sources(self, answer: Answer) -> list[SourceLink]:
        """Return a link for each passage that the answer may cite, in the order of their numbers."""
        spans = {citation.number: citation.spans[0] for citation in answer.citations}
        pages = {each.number: {"pageNumber": each.page_numbers[0]} for each in answer.citations if each.page_numbers}
        nowhere = (len(answer.text), len(answer.text))
        return [
            SourceLink(
                number=passage.number,
                url=self.passage(passage.metadata | pages.get(passage.number, {}), passage.text),
                title=passage.title,
                start=spans.get(passage.number, nowhere)[0],
                end=spans.get(passage.number, nowhere)[1],
            )
            for passage in answer.passages
        ]


def links_of(request: ApiRequest) -> Links:
    """Return the URLs of a reply: below SLUICE_PUBLIC_URL, or else the address by which the caller reached us."""
    try:
        return Links(request.part(Settings).public_url or str(request.base_url))
    except ValueError:  # its port is no number, or too large
        host = request.headers.get("host", "")
        raise Problem(400, f"Host: {host[:100]!a} is not a name with a port", details={"field": "Host"}) from None


def source_list(links: Sequence[SourceLink]) -> str:
    """Return the cited sources as Markdown for the end of an answer; '' if it cites none."""
    lines = [
        f"{each.number}. [{each.title.translate(_BRACKETS)}]({each.url})" for each in links if each.start < each.end
    ]
    return "\n\n**Sources**\n\n" + "\n".join(lines) if lines else ""


_BRACKETS: Final = str.maketrans({"[": "(", "]": ")", "\n": " "})


def _beginning(text: str) -> str:
    lines = [line.strip() for line in text.splitlines()]
    plain = next((line for line in lines if line and line[0] not in _NO_TEXT), text)
    return " ".join(plain.split()[:_WORDS])
