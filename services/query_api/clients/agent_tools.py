"""The tools for agents: search, read a document, ask a question. All are read-only. Agents read their docstrings.

Each raises Problem if the caller is at fault, and Unavailable if a part is away.
"""

from typing import Annotated, Any, Final

import msgspec

from services.query_api.answer.answering import Answering, AnswerRequest, Retrieval
from services.query_api.clients.links import links_of
from services.query_api.documents.document_routes import DocumentViews
from services.query_api.http.problems import invalid
from services.query_api.http.request import ApiRequest
from services.query_api.search.filters import filter_of
from services.query_api.search.retrieval import Retriever
from services.query_api.search.search import question_of
from shared.answers import Turn
from shared.store import Filter

LONGEST_TEXT: Final = 50_000  # characters of one reply: agents pay for each
MOST_RESULTS: Final = 50

TopK = Annotated[int, msgspec.Meta(ge=1, le=MOST_RESULTS, description="How many passages to look at.")]
Query = Annotated[str, msgspec.Meta(description="What to find: a question or key words, in any language.")]
Source = Annotated[str | None, msgspec.Meta(description="Only documents of this source.")]
Tags = Annotated[list[str] | None, msgspec.Meta(description="Only documents with one of these tags.")]


class SearchArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `search`."""

    query: Query
    top_k: TopK = 10
    source: Source = None
    tags: Tags = None


class FetchArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `fetch`."""

    id: Annotated[str, msgspec.Meta(description="A document's id, as search gives it.")]
    offset: Annotated[
        int, msgspec.Meta(ge=0, description="The character to start at: `nextOffset` of the previous reply.")
    ] = 0


class AskArguments(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of `ask`."""

    question: Annotated[str, msgspec.Meta(description="A complete question that makes sense without other messages.")]
    top_k: TopK | None = None
    source: Source = None
    tags: Tags = None


class AgentResult(msgspec.Struct, frozen=True, kw_only=True):
    """A document that matches a query, with its best passage."""

    id: str
    title: str
    url: str
    text: str
    score: float


class AgentResults(msgspec.Struct, frozen=True, kw_only=True):
    """Documents, best first."""

    results: list[AgentResult]


class AgentDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The text of a document, or a part of it."""

    id: str
    title: str
    text: str
    url: str
    metadata: dict[str, Any]


class AgentSource(msgspec.Struct, frozen=True, kw_only=True):
    """A passage that an answer may cite."""

    number: int
    id: str
    title: str
    url: str
    text: str


class AgentAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer. A mark `[n]` in it refers to the source of that number."""

    answer: str
    sources: list[AgentSource]
    model: str


async def search(request: ApiRequest, asked: SearchArguments) -> AgentResults:
    """Find documents by meaning and by words. Gives each one's id, title, url and best passage, best first."""
    links = links_of(request)
    found = await request.part(Retriever).search(
        request.user.tenant,
        question_of(asked.query, "query"),
        top_k=asked.top_k,
        where=_where(asked.source, asked.tags),
    )
    results: dict[str, AgentResult] = {}
    for hit in found.hits:
        id_ = hit.metadata["documentId"]
        if id_ not in results:
            results[id_] = AgentResult(
                id=id_,
                title=hit.metadata.get("title") or hit.metadata["path"],
                url=links.page(hit.metadata),
                text=hit.shown,
                score=hit.score,
            )
    return AgentResults(results=list(results.values()))


async def fetch(request: ApiRequest, asked: FetchArguments) -> AgentDocument:
    """Read a document's text by its id. If metadata has nextOffset, there is more: fetch again with it."""
    views, tenant = request.part(DocumentViews), request.user.tenant
    view = await views.view(tenant, asked.id)
    text, text_format = await views.text(tenant, asked.id)
    end = asked.offset + LONGEST_TEXT
    if asked.offset > len(text):
        raise invalid("offset", f"is {asked.offset}; the text has {len(text)} characters")
    more = {"nextOffset": end} if end < len(text) else {}
    metadata = {
        "source": view.source,
        "path": view.path,
        "tags": list(view.tags),
        "format": text_format,
        "updatedAt": view.updated_at,
        "characters": len(text),
    }
    return AgentDocument(
        id=asked.id,
        title=view.title or view.path,
        text=text[asked.offset : end],
        url=links_of(request).page({"documentId": asked.id, "url": view.url}),
        metadata={**metadata, **more},
    )


async def ask(request: ApiRequest, asked: AskArguments) -> AgentAnswer:
    """Get an answer that is made from the documents alone, with numbered sources."""
    links, question = links_of(request), question_of(asked.question, "question")
    retrieval = Retrieval(top_k=asked.top_k, where=_where(asked.source, asked.tags))
    turns = (Turn(role="user", content=question),)
    wanted = AnswerRequest(caller=request.user, turns=turns, retrieval=retrieval)
    answer = await request.part(Answering).answer(wanted)
    sources = [
        AgentSource(
            number=passage.number,
            id=passage.metadata["documentId"],
            title=passage.title,
            url=links.passage(passage.metadata, passage.text),
            text=passage.shown,
        )
        for passage in answer.passages
    ]
    return AgentAnswer(answer=answer.text, sources=sources, model=answer.model)


def _where(source: str | None, tags: list[str] | None) -> Filter:
    given = {"source": source, "tags": tags}
    return filter_of({name: value for name, value in given.items() if value is not None})
