"""`POST /rag/query`: a question about chosen documents. The Tu2tor contract."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from litestar import Response
from litestar.params import JSONBody
from litestar.response import ServerSentEvent

from services.query_api.answer.answering import Answer, Answering, AnswerRequest, RagOptions, Sources, replied
from services.query_api.answer.citing import references
from services.query_api.answer.conversation_formats import ChatMessage, Wishes, turns_of
from services.query_api.answer.passage_choice import JOINED, compares
from services.query_api.documents.document_routes import DocumentViews
from services.query_api.http.problems import Problem, broken_off, invalid, unavailable
from services.query_api.http.request import ApiRequest, not_blank
from services.query_api.http.route_decorator import EVENT_STREAM, JSON, TEXTS, StreamEvent, post
from services.query_api.search.retrieval import TopK, of_documents
from shared.answers import Passage, Preferences, Turn
from shared.errors import Unavailable
from shared.store import Filter, Match

MOST_DOCUMENTS = 1000  # per query


class QueryBody(RagOptions, frozen=True, kw_only=True, rename="camel"):
    """A question about chosen documents."""

    question: str
    document_ids: list[str] | str | None = None
    subject_id: str | int | None = None
    conversation_history: list[ChatMessage] | None = None
    top_k: TopK | None = None  # None: as many as the scores and the context have room for
    model: str | None = None
    target: str | None = None
    preferences: Wishes | None = None
    compare: bool | None = None  # None: if the question asks for a comparison
    stream: bool = False


class QuerySource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A passage that the answer may cite."""

    doc_id: str
    title: str
    page_number: int | None
    chunk_id: str
    similarity: float


class QueryReply(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An answer with its sources."""

    success: bool
    answer: str
    sources: list[QuerySource]
    chunks_used: int
    model: str
    citations: list[dict[str, Any]]
    references: list[str]
    warnings: tuple[str, ...] = ()


@post(
    "/rag/query",
    role="query",
    line="ask chosen documents: question, documentIds",
    takes=TEXTS,
    refuses=(404, 409, 422),
    ok={JSON: QueryReply, EVENT_STREAM: StreamEvent},
)
async def rag_query(data: JSONBody[QueryBody], request: ApiRequest) -> Response[QueryReply] | ServerSentEvent:
    """Answer a question from chosen documents, with citations."""
    answering = request.part(Answering)
    question = not_blank(data.question, "question")
    ids = _ids(data)
    await _require_ready(request.part(DocumentViews), request.user.tenant, ids)
    where = of_documents(*ids)
    if data.subject_id is not None:
        where &= Filter(must=(Match("metadata.subjectId", _spellings(data.subject_id)),))
    compared = ids if len(ids) > 1 and (compares(question) if data.compare is None else data.compare) else ()
    retrieval = data.retrieval(where, data.top_k)
    history = turns_of(data.conversation_history, "conversationHistory")
    wanted = AnswerRequest(
        caller=request.user,
        turns=(*history, Turn(role="user", content=question)),
        retrieval=msgspec.structs.replace(retrieval, compared=tuple(compared)),
        model=data.model,
        target=data.target,
        preferences=data.preferences.preferences if data.preferences else Preferences(),
    )

    def sources(found: Sources) -> dict[str, Any]:
        return {"sources": _sources(found.passages), "model": found.model}

    return await replied(answering, wanted, request, _reply, sources=sources if data.stream else None, problem=_failed)


def _spellings(subject: str | int) -> tuple[str | int, ...]:
    """Return the subject as text and, if it is one, as a number: forms send both as text."""
    text = str(subject)
    return (text, int(text)) if text.isascii() and text.isdigit() and len(text) < 16 else (text,)


def _ids(data: QueryBody) -> Sequence[str]:
    """Return the distinct documents of the query, in their order."""
    ids = [data.document_ids] if isinstance(data.document_ids, str) else data.document_ids
    if not ids:
        raise Problem(
            400, "documentIds: name at least one document", code="NO_DOCUMENTS", details={"field": "documentIds"}
        )
    if len(ids) > MOST_DOCUMENTS:
        raise invalid("documentIds", f"names {len(ids)} documents, but at most {MOST_DOCUMENTS} are allowed")
    return list(dict.fromkeys(ids))


async def _require_ready(library: DocumentViews, tenant: str, ids: Sequence[str]) -> None:
    """Raise a 404 for an unknown document, or a 409 for one that has no searchable version yet."""
    for document in await asyncio.gather(*map(partial(library.view, tenant), ids)):
        if document.status == "accepted" and not document.chunk_count:
            raise Problem(
                409,
                f"the document {document.document_id} is still being processed",
                code="PROCESSING_INCOMPLETE",
                details={"documentId": document.document_id},
            )


def _failed(error: Exception) -> Problem:
    if not isinstance(error, Unavailable):
        return broken_off(error)
    return unavailable("the answer could not be generated", code="GENERATION_FAILED", reason=error.sentence)


def _reply(answer: Answer) -> QueryReply:
    return QueryReply(
        success=True,
        answer=answer.text,
        sources=_sources(answer.passages),
        chunks_used=sum(len(passage.metadata.get(JOINED, "1")) for passage in answer.passages),
        model=answer.model,
        citations=[citation.view() for citation in answer.citations],
        references=references(answer.citations),
        warnings=answer.warnings,
    )


def _sources(passages: Sequence[Passage]) -> list[QuerySource]:
    return [
        QuerySource(
            doc_id=passage.metadata["documentId"],
            title=passage.title,
            page_number=passage.metadata.get("pageNumber"),
            chunk_id=passage.metadata["chunkId"],
            similarity=passage.score,
        )
        for passage in passages
    ]
