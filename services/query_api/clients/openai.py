"""OpenAI's API, as far as its clients need it: models, chat completions, embeddings, vector-store search.

Fields that have no meaning here (user, store …) are ignored, as other compatible servers do.
"""

import base64
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NotRequired, TypedDict
from uuid import uuid4

import msgspec
import numpy as np
from litestar import Response
from litestar.params import FromPath, JSONBody
from litestar.response import Stream

from services.query_api.answer.answering import Answer, AnswerRequest, RagBody
from services.query_api.answer.conversation_formats import ChatMessage, objects, sampling, turns_of
from services.query_api.clients.asking import AnswerSources, ClientReply
from services.query_api.clients.embedding import texts_of, token_count, vectors_of
from services.query_api.clients.json_formats import openai_format
from services.query_api.clients.links import SourceLink
from services.query_api.clients.models import Models
from services.query_api.http.problems import Problem, invalid, openai_error
from services.query_api.http.request import ApiRequest
from services.query_api.http.route_decorator import CHUNKS, EVENT_STREAM, JSON, StreamEvent, answers, get, post

_DONE: Final = b"data: [DONE]\n\n"


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a stream is sent."""

    include_usage: bool | None = None


class CompletionBody(RagBody, frozen=True, kw_only=True):
    """The request of a chat completion."""

    model: str
    messages: list[ChatMessage]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    stop: Any = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    top_k: int | None = None  # this and the next are of other servers of this protocol
    min_p: float | None = None
    tools: Any = None
    tool_choice: str | dict[str, Any] | None = None
    response_format: Any = None


class PromptBody(CompletionBody, frozen=True, kw_only=True):
    """The request of a completion."""

    prompt: Any
    messages: list[ChatMessage] = msgspec.field(default_factory=list)  # the prompt's


class EmbeddingsBody(msgspec.Struct, frozen=True, kw_only=True):
    """Texts to embed. `input_type`, known from other servers of this protocol, tells queries from documents."""

    model: str
    input: Any
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None
    input_type: Literal["query", "document", "search_query", "search_document", "passage"] | None = None


class OpenAIModel(msgspec.Struct, frozen=True, kw_only=True, tag_field="object", tag="model"):
    """A model, as OpenAI's API shows it. No model here has a date of its own; a fixed one keeps lists the same."""

    id: str
    created: int = 0
    owned_by: str = "sluice"
    context_length: int | None  # tokens of a conversation and its answer, or of a text to embed


class OpenAIModels(msgspec.Struct, frozen=True, kw_only=True, tag_field="object", tag="list"):
    """OpenAI's list of models."""

    data: list[OpenAIModel]


@get(
    "/v1/models",
    role="query",
    line="OpenAI's API, with /v1/chat/completions and /v1/embeddings",
    needs_parts=False,
)
async def openai_models(request: ApiRequest) -> OpenAIModels:
    """List the models."""
    lengths = await request.part(Models).contexts()
    return OpenAIModels(data=[OpenAIModel(id=name, context_length=length) for name, length in lengths.items()])


@get("/v1/models/{name:path}", role="query", needs_parts=False)
async def openai_model(name: FromPath[str], request: ApiRequest) -> OpenAIModel:
    """Show a model."""
    wanted = name.removeprefix("/")
    return OpenAIModel(id=wanted, context_length=await request.part(Models).context(wanted))


class CompletionMessage(TypedDict):
    """The answer."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None  # instead of `content`, where JSON is wanted and nothing was found
    annotations: list[dict[str, Any]]  # `url_citation`s
    tool_calls: NotRequired[list[dict[str, Any]]]


class CompletionChoice(TypedDict):
    """The one choice."""

    index: int
    finish_reason: str
    logprobs: None
    message: CompletionMessage


class CompletionUsage(TypedDict):
    """Tokens, counted or estimated."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class _CompletionFields(AnswerSources):
    id: str
    created: int
    model: str
    usage: CompletionUsage


class ChatCompletion(_CompletionFields):
    """OpenAI's chat completion, with fields of ours."""

    object: Literal["chat.completion"]
    choices: list[CompletionChoice]


class TextCompletion(_CompletionFields):
    """OpenAI's completion of a prompt, with fields of ours."""

    object: Literal["text_completion"]
    choices: list[dict[str, Any]]


@answers("/v1/chat/completions", ok={JSON: ChatCompletion, EVENT_STREAM: StreamEvent})
async def openai_chat_completions(
    data: JSONBody[CompletionBody], request: ApiRequest
) -> Response[dict[str, Any]] | Stream:
    """Answer a conversation, whole or as a stream."""
    return await _completed(data, request, _Completion)


@answers("/v1/completions", ok={JSON: TextCompletion, EVENT_STREAM: StreamEvent})
async def openai_completions(data: JSONBody[PromptBody], request: ApiRequest) -> Response[dict[str, Any]] | Stream:
    """Answer a prompt, as older clients ask."""
    prompt, *more = data.prompt if isinstance(data.prompt, list) and data.prompt else [data.prompt]
    if more or not isinstance(prompt, str):
        raise invalid("prompt", "must be one text")
    asked = msgspec.structs.replace(data, messages=[ChatMessage(role="user", content=prompt)])
    return await _completed(asked, request, _TextCompletion)


async def _completed(
    data: CompletionBody, request: ApiRequest, form: type["_Completion"]
) -> Response[dict[str, Any]] | Stream:
    if data.n is not None and data.n != 1:
        raise invalid("n", f"is {data.n}; this server gives one answer to a question")
    completion = form(request, data)
    asked = AnswerRequest(
        caller=request.user,
        turns=tuple(turns_of(data.messages)),
        retrieval=data.searched,
        sampling=sampling(data, data.max_completion_tokens or data.max_tokens),
        tools=() if data.tool_choice == "none" else tuple(objects(data.tools, "tools")),
        tool_choice=data.tool_choice,
        json_format=openai_format(data.response_format, completion.choice, "response_format"),
    )
    return await completion.reply(asked, stream=bool(data.stream))


class _Completion(ClientReply):
    """A completion in the forms of a reply: whole, or as the events of a stream."""

    kind = "chat.completion"
    kind_of_event = "chat.completion.chunk"

    def __init__(self, request: ApiRequest, data: CompletionBody) -> None:
        super().__init__(request, data.model, rag=data.use_rag)
        self._id = f"chatcmpl-{uuid4().hex}"
        self._created = int(time.time())
        self._with_usage = bool(data.stream_options and data.stream_options.include_usage)
        self._unused: dict[str, None] = {"usage": None} if self._with_usage else {}  # of each event but the last

    @property
    def _text(self) -> str:
        """Return the name of the field that has the text."""
        return "refusal" if self._prepared.refuses_json else "content"

    def whole(self, answer: Answer, sources: list[SourceLink]) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None,
            "refusal": None,
            self._text: (answer.text + self._tail(sources)) or (None if answer.tool_calls else ""),
            "annotations": annotations(sources),
        }
        if answer.tool_calls:
            message["tool_calls"] = [call.in_openai for call in answer.tool_calls]
        return {
            **self._head(self.kind),
            "choices": [self._choice("message", message, answer.finish_reason)],
            "usage": self._usage(answer),
            **self._sources(answer, sources),
        }

    def start(self) -> Iterator[bytes]:
        yield self._chunk({"role": "assistant", self._text: ""})

    def delta(self, piece: str) -> bytes:
        return self._chunk({self._text: piece})

    def end(self, answer: Answer, sources: list[SourceLink]) -> Iterator[bytes]:
        if answer.tool_calls:
            calls = [
                {"index": number, **call} for number, call in enumerate(each.in_openai for each in answer.tool_calls)
            ]
            yield self._chunk({"tool_calls": calls})
        last = {"annotations": annotations(sources)} if sources else {}  # where clients look for them
        yield self._chunk(last, answer.finish_reason, **self._sources(answer, sources))
        if self._with_usage:
            yield self._event({"choices": [], "usage": self._usage(answer)})
        yield _DONE

    def broken(self, problem: Problem) -> Iterator[bytes]:
        yield _event(openai_error(problem))
        yield _DONE

    def _usage(self, answer: Answer) -> dict[str, int]:
        asked, answered = self._tokens(answer)
        return {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._model}

    def _event(self, data: Mapping[str, Any]) -> bytes:
        return _event({**self._head(self.kind_of_event), **data})

    def _chunk(self, delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> bytes:
        return self._event({"choices": [self._choice("delta", delta, finish)], **self._unused, **more})

    def _choice(self, name: str, said: Mapping[str, Any], finish: str | None) -> dict[str, Any]:
        return {"index": 0, name: said, "logprobs": None, "finish_reason": finish}


class _TextCompletion(_Completion):
    """A prompt's completion, whose choices have a text instead of a message."""

    kind = kind_of_event = "text_completion"

    def start(self) -> Iterator[bytes]:
        yield from ()

    def _choice(self, name: str, said: Mapping[str, Any], finish: str | None) -> dict[str, Any]:  # noqa: ARG002
        return {"index": 0, "text": said.get(self._text) or "", "logprobs": None, "finish_reason": finish}


def annotations(sources: Sequence[SourceLink]) -> list[dict[str, Any]]:
    """Return the sources as OpenAI's annotations in the order of their numbers, so that `[n]` is the n-th."""
    return [
        {
            "type": "url_citation",
            "url_citation": {"url": each.url, "title": each.title, "start_index": each.start, "end_index": each.end},
        }
        for each in sources
    ]


def _event(data: Mapping[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


class EmbeddingItem(msgspec.Struct, frozen=True, kw_only=True, tag_field="object", tag="embedding"):
    """A text's vector: numbers, or base64 of 32-bit floats."""

    index: int
    embedding: list[float] | str


class EmbeddingUsage(msgspec.Struct, frozen=True):
    """Tokens."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(msgspec.Struct, frozen=True, kw_only=True, tag_field="object", tag="list"):
    """OpenAI's list of embeddings."""

    model: str
    data: list[EmbeddingItem]
    usage: EmbeddingUsage


@post("/v1/embeddings", role="query", takes=CHUNKS, refuses=(404,))
async def openai_embeddings(data: JSONBody[EmbeddingsBody], request: ApiRequest) -> EmbeddingList:
    """Embed texts with the model of the index."""
    embedder = request.part(Models).embedder(data.model, data.dimensions)
    texts = texts_of(data.input)
    vectors = await vectors_of(request, embedder, texts, queries=data.input_type in ("query", "search_query"))
    used = await token_count(embedder, texts)
    shown: list[Any] = [
        base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()
        if data.encoding_format == "base64"
        else vector.tolist()
        for vector in vectors
    ]
    items = [EmbeddingItem(index=index, embedding=each) for index, each in enumerate(shown)]
    return EmbeddingList(model=data.model, data=items, usage=EmbeddingUsage(used, used))
