"""`POST /chat`: answers a message from relevant passages. The AgentX V3 contract."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final
from uuid import uuid4

import msgspec
from litestar import Response
from litestar.params import JSONBody
from litestar.response import ServerSentEvent

from services.query_api.answer import conversation_formats
from services.query_api.answer.answering import Answer, Answering, AnswerRequest, RagBody, Sources, replied
from services.query_api.answer.citing import excerpt, references
from services.query_api.answer.conversation_formats import ChatMessage, Content, Options, Wishes, image_addresses
from services.query_api.http.problems import invalid
from services.query_api.http.reply_warnings import warn
from services.query_api.http.request import ApiRequest, not_blank
from services.query_api.http.route_decorator import EVENT_STREAM, JSON, WHOLE, StreamEvent, post
from shared.answers import Passage, Preferences, Turn, Usage
from shared.times import iso, now_ms

UNASKED: Final = "answered without documents: useRag is missing, and SLUICE_CHAT_RAG doesn't say that it is meant"


class ChatBody(RagBody, frozen=True, kw_only=True, rename="camel"):
    """A message, or a conversation that ends with one. Without `useRag`, SLUICE_CHAT_RAG decides, or it is false."""

    message: Content | None = None
    images: list[str] | None = None  # of the message
    messages: list[ChatMessage] | None = None
    conversation_history: list[ChatMessage] | None = None
    conversation_id: str | None = None
    system: str | None = None
    model: str | None = None
    target: str | None = None
    preferences: Wishes | None = None
    temperature: float | None = None
    options: Options | None = None
    tools: Any = None
    stream: bool = False


class RagSource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A passage that was found."""

    document_id: str
    chunk_id: str
    score: float
    metadata: dict[str, Any]


class ChatSource(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The same passage, as the chatbot's older client reads it."""

    document: str
    chunk: str
    score: float
    document_id: str
    chunk_id: str


class ChatReply(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """An answer; `data` is the object of Ollama's /api/chat."""

    status: str
    data: dict[str, Any]
    conversation_id: str
    rag_used: bool
    rag_sources: list[RagSource]
    response: str
    sources: list[ChatSource]
    citations: list[dict[str, Any]]
    references: list[str]
    general_knowledge: bool = False
    warnings: tuple[str, ...] = ()


@post(
    "/chat",
    role="query",
    line="chat: message, useRag",
    takes=WHOLE,
    refuses=(422, 501),
    ok={JSON: ChatReply, EVENT_STREAM: StreamEvent},
)
async def chat(data: JSONBody[ChatBody], request: ApiRequest) -> Response[ChatReply] | ServerSentEvent:
    """Answer a message; with `useRag`, from the indexed documents."""
    answering = request.part(Answering)
    turns = _turns(data)
    asked = next(turn for turn in reversed(turns) if turn.role == "user")
    unasked = answering.settings.chat_rag
    searches = unasked == "on" if data.use_rag is None else data.use_rag
    if data.use_rag is None and not unasked and data.message is not None:
        warn(request, UNASKED, "useRag")
    if searches or not asked.images:
        not_blank(asked.content, "message")
    sampling = (data.options or Options()).sampling
    if data.temperature is not None:
        sampling["temperature"] = data.temperature
    wanted = AnswerRequest(
        caller=request.user,
        turns=turns,
        retrieval=data.searched if searches else None,
        model=data.model,
        target=data.target,
        system=data.system,
        preferences=data.preferences.preferences if data.preferences else Preferences(),
        sampling=sampling,
        tools=tuple(conversation_formats.objects(data.tools, "tools")),
    )
    id_ = data.conversation_id or str(uuid4())

    def sources(found: Sources) -> dict[str, Any]:
        return {"conversationId": id_, "ragSources": rag_sources(found.passages)}

    done = partial(_reply, id_=id_)
    return await replied(answering, wanted, request, done, sources=sources if data.stream else None)


def _turns(data: ChatBody) -> tuple[Turn, ...]:
    """Return the conversation; it ends with the user's question, or with the results of tools for it."""
    turns = [
        *conversation_formats.turns_of(data.conversation_history, "conversationHistory"),
        *conversation_formats.turns_of(data.messages, "messages"),
    ]
    if data.message is not None:
        text, images = conversation_formats.content_of(data.message, "message")
        turns.append(Turn(role="user", content=text, images=(*images, *image_addresses(data.images))))
    if not turns or turns[-1].role not in ("user", "tool") or all(turn.role != "user" for turn in turns):
        raise invalid("message", "is required: send message, or messages that end with the user's")
    return tuple(turns)


def _reply(answer: Answer, id_: str) -> ChatReply:
    calls = {"tool_calls": [call.in_ollama for call in answer.tool_calls]} if answer.tool_calls else {}
    message = {"role": "assistant", "content": answer.text, **calls}
    return ChatReply(
        status="success",
        data=ollama_end(answer.model, {"message": message}, answer.finish_reason, answer.usage),
        conversation_id=id_,
        rag_used=answer.rag_used,
        rag_sources=rag_sources(answer.passages),
        response=answer.text,
        sources=[
            ChatSource(
                document=passage.title,
                chunk=excerpt(passage.shown),
                score=passage.score,
                document_id=passage.metadata["documentId"],
                chunk_id=passage.metadata["chunkId"],
            )
            for passage in answer.passages
        ],
        citations=[citation.view() for citation in answer.citations],
        references=references(answer.citations),
        general_knowledge=answer.general,
        warnings=answer.warnings,
    )


def ollama_end(model: str, said: Mapping[str, Any], reason: str, usage: Usage) -> dict[str, Any]:
    """Return the object that ends an answer in Ollama's form; durations are in nanoseconds, absent if unknown."""
    figures = {
        "total_duration": usage.total_ns,
        "load_duration": usage.load_ns,
        "prompt_eval_count": usage.prompt_tokens,
        "prompt_eval_duration": usage.prompt_ns,
        "eval_count": usage.answer_tokens,
        "eval_duration": usage.answer_ns,
    }
    known = {name: count for name, count in figures.items() if count is not None}
    return {"model": model, "created_at": iso(now_ms()), **said, "done": True, "done_reason": reason, **known}


def rag_sources(passages: Sequence[Passage]) -> list[RagSource]:
    """Return the passages as replies show them."""
    return [
        RagSource(
            document_id=passage.metadata["documentId"],
            chunk_id=passage.metadata["chunkId"],
            score=passage.score,
            metadata={**passage.metadata, "title": passage.title},
        )
        for passage in passages
    ]
