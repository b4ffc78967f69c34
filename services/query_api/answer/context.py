"""`POST /rag/context`: the passages for a question, formatted as for a model's prompt."""

from typing import Any

import msgspec
from litestar.params import JSONBody

from services.query_api.answer.answering import Answering, RagOptions
from services.query_api.http.reply_warnings import warn
from services.query_api.http.request import ApiRequest, not_blank
from services.query_api.http.route_decorator import FILTERS, post
from services.query_api.search.retrieval import TopK
from services.query_api.search.search import filters_of
from shared.answers import Conversation, Passage, Turn
from shared.answers.prompt import CONTEXT_END, CONTEXT_START, messages, shown


class ContextBody(RagOptions, frozen=True, kw_only=True, rename="camel"):
    """The question, and how its passages are chosen."""

    query: str
    top_k: TopK | None = None  # None: as many as the scores and the context have room for
    filters: dict[str, Any] | str | None = None


class ContextReply(msgspec.Struct, frozen=True, kw_only=True):
    """The context; null if no passage is relevant enough."""

    context: str | None
    documents: tuple[Passage, ...]


@post("/rag/context", role="query", takes=FILTERS, refuses=(422,))
async def rag_context(data: JSONBody[ContextBody], request: ApiRequest) -> ContextReply:
    """Return the passages that a model would get with the question, for callers that use their own model."""
    retrieval = data.retrieval(filters_of(data.filters), data.top_k)
    question = not_blank(data.query, "query")
    found, warnings = await request.part(Answering).passages(request.user.tenant, question, retrieval)
    for warning in warnings:
        warn(request, warning, "filters")
    passages = tuple(shown(found))
    return ContextReply(context=_context(question, passages) if passages else None, documents=passages)


def _context(question: str, passages: tuple[Passage, ...]) -> str:
    """Return the part of the prompt from the opening to the closing mark, which no passage can forge."""
    conversation = Conversation(turns=(Turn(role="user", content=question),), passages=passages)
    prompt = messages(conversation, history=0)[-1].content
    return prompt[prompt.index(CONTEXT_START) : prompt.index(CONTEXT_END) + len(CONTEXT_END)]
