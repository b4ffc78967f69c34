"""Chat: a question, the passages that bear on it, an answer. The AgentX V3 contract, and `/rag/query`."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, Literal
from uuid import uuid4

import msgspec
import structlog
from litestar import Response, post
from litestar.di import NamedDependency
from litestar.params import JSONBody
from litestar.response import ServerSentEvent, ServerSentEventMessage

from services.query_api.auth import needs
from services.query_api.documents import Library
from services.query_api.problems import Problem, body, invalid, of_pipeline, unavailable
from services.query_api.request import ApiRequest
from services.query_api.search import Retriever, TopK, filters_of, question_of
from shared.answers import Answers, Conversation, Passage, Turn
from shared.answers.citations import cited
from shared.errors import PipelineError, Unavailable
from shared.store import Filter, Match

NOTHING_FOUND = "I found nothing in the documents that answers this question."
TRIES = 2  # a model that failed before its first word is asked once more
MOST_DOCUMENTS = 1000  # of one query
SHOWN = 300  # characters of a passage in a citation

log = structlog.get_logger(__name__)


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """One message of a conversation, as clients send it; other fields are ignored."""

    role: Literal["system", "user", "assistant"]
    content: str


class ChatBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A message, or a conversation that ends with one."""

    message: str | None = None
    messages: list[Message] | None = None
    conversation_history: list[Message] | None = None
    conversation_id: str | None = None
    use_rag: bool = False
    rag_top_k: TopK = 5
    rag_filters: dict[str, Any] | str | None = None
    system: str | None = None
    model: str | None = None
    target: str | None = None
    stream: bool = False


class QueryBody(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A question to chosen documents."""

    question: str
    document_ids: list[str] | str | None = None
    subject_id: str | int | None = None
    conversation_history: list[Message] | None = None


class Answered(msgspec.Struct, frozen=True):
    """An answer and the passages it may cite; none of them when it drew on none."""

    text: str
    passages: tuple[Passage, ...]


class Chat:
    """Answers questions from one index."""

    def __init__(self, retriever: Retriever, answers: Answers, *, min_score: float) -> None:
        self._retriever = retriever
        self._answers = answers
        self._min_score = min_score

    @property
    def model(self) -> str:
        """Return the name of what answers."""
        return self._answers.name

    async def about(self, tenant: str, question: str, *, top_k: int, where: Filter) -> tuple[Passage, ...]:
        """Return the passages that bear on the question, best first, none below the least score."""
        found = await self._retriever.search(tenant, question, top_k=top_k, where=where)
        return tuple(
            Passage(
                number=number,
                text=hit.text,
                title=hit.metadata.get("title") or hit.metadata["path"],
                score=hit.score,
                metadata=hit.metadata,
            )
            for number, hit in enumerate((hit for hit in found.hits if hit.score >= self._min_score), start=1)
        )

    async def pieces(self, conversation: Conversation) -> AsyncIterator[str]:
        """Yield the answer piece by piece.

        Raises:
            Unavailable: the model failed twice before its first word, or once after it.
        """
        if self._answers.needs_passages and not conversation.passages:
            yield NOTHING_FOUND
            return
        for left in reversed(range(TRIES)):
            said = False
            try:
                # Closed here, so that a client that goes away stops the model.
                stream = self._answers.stream(conversation)
                async with aclosing(stream) as pieces:  # type: ignore[type-var]  # adapters are generators
                    async for piece in pieces:
                        said = True
                        yield piece
            except Unavailable as error:
                if said or not left:
                    raise
                log.warning("answer_retried", model=self.model, reason=error.sentence)
            else:
                return

    async def answer(self, conversation: Conversation) -> Answered:
        """Return the whole answer. Raises Unavailable as `pieces`."""
        return self.judged(conversation, [piece async for piece in self.pieces(conversation)])

    def judged(self, conversation: Conversation, pieces: Sequence[str]) -> Answered:
        """Return the finished answer; one made of quotations that quotes nothing has no sources."""
        text = "".join(pieces)
        used = cited(text, _numbers(conversation.passages)) or not self._answers.needs_passages
        return Answered(text, conversation.passages if used else ())

    def require_model(self) -> None:
        """Raise the 503 of plain chat where nothing can answer without passages."""
        if self._answers.needs_passages:
            raise unavailable(
                f"plain chat needs a language model, and {self.model} only quotes documents: "
                "set SLUICE_CHAT to a model, or send useRag: true",
                code="NO_MODEL",
            )


@post("/chat", operation_id="chat", guards=[needs("query")], status_code=200)
async def chat(
    data: JSONBody[ChatBody], request: ApiRequest, chat: NamedDependency[Chat]
) -> Response[dict[str, Any]] | ServerSentEvent:
    """Answer a message, from the indexed documents when `useRag` is true."""
    turns = _turns(data)
    question = question_of(turns[-1].content, "message")
    if data.target is not None and data.target not in ("", chat.model):
        raise invalid("target", f"{data.target!r} is no configured server; {chat.model!r} is")
    where = filters_of(data.rag_filters, "ragFilters")
    passages: tuple[Passage, ...] = ()
    if data.use_rag:
        passages = await chat.about(request.user.tenant, question, top_k=data.rag_top_k, where=where)
    else:
        chat.require_model()
    conversation = Conversation(turns=turns, passages=passages, system=data.system, model=data.model)
    id_ = data.conversation_id or str(uuid4())
    if data.stream:
        return ServerSentEvent(_events(chat, conversation, id_, request))
    return Response(_reply(chat, await chat.answer(conversation), id_))


@post("/rag/query", operation_id="rag_query", guards=[needs("query")], status_code=200)
async def rag_query(
    data: JSONBody[QueryBody], request: ApiRequest, chat: NamedDependency[Chat], library: NamedDependency[Library]
) -> dict[str, Any]:
    """Answer a question from chosen documents, with citations."""
    question = question_of(data.question, "question")
    ids = [data.document_ids] if isinstance(data.document_ids, str) else data.document_ids
    if not ids:
        raise Problem(
            400, "documentIds: name at least one document", code="NO_DOCUMENTS", details={"field": "documentIds"}
        )
    if len(ids) > MOST_DOCUMENTS:
        raise invalid("documentIds", f"names {len(ids)} documents, at most {MOST_DOCUMENTS} are possible")
    tenant = request.user.tenant
    for document in await asyncio.gather(*(library.view(tenant, id_) for id_ in dict.fromkeys(ids))):
        if document.status == "accepted" and not document.chunk_count:
            raise Problem(
                409,
                f"the document {document.document_id} is still being processed",
                code="PROCESSING_INCOMPLETE",
                details={"documentId": document.document_id},
            )
    must = [Match("metadata.documentId", tuple(ids))]
    if data.subject_id is not None:
        must.append(Match("metadata.subjectId", (data.subject_id,)))
    passages = await chat.about(tenant, question, top_k=5, where=Filter(must=tuple(must)))
    if passages:
        turns = (*_history(data.conversation_history), Turn(role="user", content=question))
        try:
            answered = await chat.answer(Conversation(turns=turns, passages=passages))
        except PipelineError as error:
            raise unavailable(
                "the answer could not be generated", code="GENERATION_FAILED", reason=error.sentence
            ) from error
    else:  # a model without passages would answer from elsewhere
        answered = Answered(NOTHING_FOUND, ())
    numbers = cited(answered.text, _numbers(answered.passages))
    return {
        "success": True,
        "answer": answered.text,
        "sources": [_source(passage) for passage in answered.passages],
        "chunksUsed": len(answered.passages),
        "model": chat.model,
        "citations": [
            {"number": passage.number, **_source(passage)} for passage in answered.passages if passage.number in numbers
        ],
    }


def _turns(data: ChatBody) -> tuple[Turn, ...]:
    """Return the conversation; it ends with the user's question."""
    turns = [*_history(data.conversation_history), *_history(data.messages)]
    if data.message is not None:
        turns.append(Turn(role="user", content=data.message))
    if not turns or turns[-1].role != "user":
        raise invalid("message", "is required: send message, or messages that end with the user's")
    return tuple(turns)


def _history(messages: Sequence[Message] | None) -> list[Turn]:
    return [Turn(role=message.role, content=message.content) for message in messages or ()]


async def _events(
    chat: Chat, conversation: Conversation, id_: str, request: ApiRequest
) -> AsyncIterator[ServerSentEventMessage]:
    """Yield `sources` (what may be cited), `token`s, and `done` with the whole reply, or `error`."""
    yield _event("sources", {"conversationId": id_, "ragSources": _rag_sources(conversation.passages)})
    pieces: list[str] = []
    try:
        async with aclosing(chat.pieces(conversation)) as stream:  # type: ignore[type-var]  # it is a generator
            async for piece in stream:
                pieces.append(piece)
                yield _event("token", {"content": piece})
    except PipelineError as error:
        yield _event("error", body(of_pipeline(error), request.scope["path"]))
    except Exception:  # the status line is long gone: the event is all there is to tell it by
        log.exception("chat_stream_failed")
        yield _event("error", body(Problem(500, "the answer broke off", code="BUG"), request.scope["path"]))
    else:
        yield _event("done", _reply(chat, chat.judged(conversation, pieces), id_))


def _event(name: str, data: Mapping[str, Any]) -> ServerSentEventMessage:
    return ServerSentEventMessage(event=name, data=msgspec.json.encode(data))


def _reply(chat: Chat, answered: Answered, id_: str) -> dict[str, Any]:
    created = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "status": "success",
        "data": {
            "model": chat.model,
            "created_at": created,
            "message": {"role": "assistant", "content": answered.text},
            "done": True,
        },
        "conversationId": id_,
        "ragUsed": bool(answered.passages),
        "ragSources": _rag_sources(answered.passages),
        "response": answered.text,
        "sources": [
            {
                "document": passage.title,
                "chunk": passage.text[:SHOWN],
                "score": passage.score,
                "documentId": passage.metadata["documentId"],
                "chunkId": passage.metadata["chunkId"],
            }
            for passage in answered.passages
        ],
    }


def _rag_sources(passages: Sequence[Passage]) -> list[dict[str, Any]]:
    return [
        {
            "documentId": passage.metadata["documentId"],
            "chunkId": passage.metadata["chunkId"],
            "score": passage.score,
            "metadata": {**passage.metadata, "title": passage.title},
        }
        for passage in passages
    ]


def _numbers(passages: Sequence[Passage]) -> set[int]:
    return {passage.number for passage in passages}


def _source(passage: Passage) -> dict[str, Any]:
    return {
        "docId": passage.metadata["documentId"],
        "title": passage.title,
        "pageNumber": passage.metadata.get("pageNumber"),
        "chunkId": passage.metadata["chunkId"],
        "similarity": passage.score,
    }
