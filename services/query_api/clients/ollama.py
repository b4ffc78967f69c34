"""Ollama's API, as far as its clients need it. It is served only under /api, where they look for it.

`/api/chat` is also a route of AgentX. A body with any field of AgentX's own is AgentX's; a body with a model and only
fields of Ollama is Ollama's (`speaks_ollama`).
"""

import hashlib
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NotRequired, TypedDict

import msgspec
from litestar import Response
from litestar.params import JSONBody
from litestar.response import ServerSentEvent, Stream
from msgspec import UNSET, UnsetType

from services.query_api.answer.answering import Answer, AnswerRequest, RagOptions
from services.query_api.answer.chat import ChatBody, ChatReply, chat, ollama_end
from services.query_api.answer.conversation_formats import ChatMessage, Options, image_addresses, objects, turns_of
from services.query_api.clients.asking import ClientReply, figures
from services.query_api.clients.embedding import texts_of, token_count, vectors_of
from services.query_api.clients.json_formats import ollama_format
from services.query_api.clients.links import SourceLink
from services.query_api.clients.models import Models
from services.query_api.http.problems import Problem, invalid
from services.query_api.http.reply_warnings import fields_of, warn_of_unknown
from services.query_api.http.request import ApiRequest, body_of
from services.query_api.http.route_decorator import (
    CHUNKS,
    EVENT_STREAM,
    JSON,
    NDJSON,
    TEXTS,
    StreamEvent,
    answers,
    get,
    post,
)
from shared.answers import Turn, Usage
from shared.times import iso, now_ms

API_VERSION: Final = "0.17.4"  # of Ollama; clients ask for it to find out what they may send
_AGENTX: Final = frozenset({"message", "useRag", "target", "system", "conversationId", "conversationHistory"})


def speaks_ollama(body: Any) -> bool:
    """Return whether a body sent to /api/chat is Ollama's. ADR 0025; a null field counts as not given."""
    if not isinstance(body, Mapping) or body.get("model") is None:
        return False
    given = {name for name, value in body.items() if value is not None}
    return not given & _AGENTX and not any(name.startswith("rag") for name in given)


_STARTED: Final = iso(now_ms())  # shown as the models' date, because they have none


class OllamaChatBody(RagOptions, frozen=True, kw_only=True):
    """A chat; without messages it only loads the model."""

    model: str
    messages: list[ChatMessage] | None = None
    stream: bool | None = None
    options: Options | None = None
    tools: Any = None
    format: Any = None


class GenerateBody(RagOptions, frozen=True, kw_only=True):
    """A prompt; without one it only loads the model."""

    model: str
    prompt: str | None = None
    system: str | None = None
    images: list[str] | None = None
    stream: bool | None = None
    options: Options | None = None
    format: Any = None
    keep_alive: Any = None  # 0 without a prompt: unload the model


class ModelBody(msgspec.Struct, frozen=True, kw_only=True):
    """A model's name; `name` is the older field."""

    model: str | None = None
    name: str | None = None


class EmbedBody(msgspec.Struct, frozen=True, kw_only=True):
    """Texts to embed; `prompt` is the older field, of one text."""

    model: str
    input: Any = None
    prompt: str | None = None
    dimensions: int | None = None
    truncate: bool | None = None  # false: a text that is too long is refused


class OllamaVersion(msgspec.Struct, frozen=True):
    """The version of Ollama's API."""

    version: str = API_VERSION


class OllamaDetails(msgspec.Struct, frozen=True):
    """What Ollama says of a model's file, which there is none of here."""

    parent_model: str = ""
    format: str = "gguf"
    family: str = "sluice"
    families: tuple[str, ...] = ("sluice",)
    parameter_size: str = ""
    quantization_level: str = ""


class OllamaListedModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model, as Ollama lists it; the last three fields are those of loaded models."""

    name: str
    model: str
    modified_at: str = msgspec.field(default_factory=lambda: _STARTED)  # a default would stand in /openapi.json
    size: int = 0
    digest: str
    details: OllamaDetails = OllamaDetails()
    expires_at: str | UnsetType = UNSET
    size_vram: int | UnsetType = UNSET
    context_length: int | UnsetType = UNSET


class OllamaModels(msgspec.Struct, frozen=True):
    """Ollama's list of models."""

    models: list[OllamaListedModel]


class OllamaModelShown(msgspec.Struct, frozen=True, kw_only=True):
    """A model in detail."""

    license: str = ""
    modelfile: str
    parameters: str = ""
    template: str = "{{ .Prompt }}"
    modified_at: str = msgspec.field(default_factory=lambda: _STARTED)  # a default would stand in /openapi.json
    details: OllamaDetails = OllamaDetails()
    model_info: dict[str, Any]
    capabilities: list[str]


@get("/version", role="query", needs_parts=False)
async def ollama_version() -> OllamaVersion:
    """Return the version of Ollama's API that this server implements."""
    return OllamaVersion()


@get("/tags", role="query", needs_parts=False)
async def ollama_tags(request: ApiRequest) -> OllamaModels:
    """List the models."""
    return OllamaModels([_listed(name) for name in request.part(Models).listed()])


@get("/ps", role="query", needs_parts=False)
async def ollama_ps(request: ApiRequest) -> OllamaModels:
    """List the loaded models. All models are always reported as loaded."""
    loaded = {"expires_at": "2318-01-01T00:00:00Z", "size_vram": 0}  # Ollama's "never"
    lengths = await request.part(Models).contexts()
    return OllamaModels([_listed(name, **loaded, context_length=length) for name, length in lengths.items()])


def _listed(name: str, **loaded: Any) -> OllamaListedModel:
    tagged = name if ":" in name else f"{name}:latest"
    return OllamaListedModel(name=tagged, model=tagged, digest=hashlib.sha256(name.encode()).hexdigest(), **loaded)


@post("/show", role="query", refuses=(404,), needs_parts=False)
async def ollama_show(data: JSONBody[ModelBody], request: ApiRequest) -> OllamaModelShown:
    """Show a model."""
    models, name = request.part(Models), _named(data)
    if models.embeds(name):
        can = ["embedding"]
    else:
        can = ["completion"] if models.choice(name).only_quotes else ["completion", "tools"]
    info = {"general.architecture": "sluice", "sluice.context_length": await models.context(name)}
    return OllamaModelShown(modelfile=f"FROM {name}\n", model_info=info, capabilities=can)


class OllamaPulled(msgspec.Struct, frozen=True):
    """The end of a pull."""

    status: Literal["success"] = "success"


@post("/pull", role="query", refuses=(404,), needs_parts=False)
async def ollama_pull(data: JSONBody[ModelBody], request: ApiRequest) -> OllamaPulled:
    """Say that the model is here, to clients that pull before they ask. Nothing is fetched."""
    models, name = request.part(Models), _named(data)
    if not models.embeds(name):
        models.choice(name)
    return OllamaPulled()


def _named(body: ModelBody) -> str:
    if not (name := body.model or body.name):
        raise invalid("model", "is required")
    return name


class OllamaAnswer(TypedDict):
    """Ollama's whole answer: `message` of a chat, `response` of a prompt. Without a question there are no figures."""

    model: str
    created_at: str
    done: Literal[True]
    done_reason: str
    message: NotRequired[dict[str, Any]]
    response: NotRequired[str]
    total_duration: NotRequired[int]  # nanoseconds, as the others
    load_duration: NotRequired[int]
    prompt_eval_count: NotRequired[int]
    prompt_eval_duration: NotRequired[int]
    eval_count: NotRequired[int]
    eval_duration: NotRequired[int]
    citations: NotRequired[list[str]]
    ragUsed: NotRequired[bool]
    ragSources: NotRequired[list[dict[str, Any]]]


@answers("/chat", ok={JSON: (OllamaAnswer, ChatReply), NDJSON: str, EVENT_STREAM: StreamEvent})
async def api_chat(
    data: JSONBody[Any], request: ApiRequest
) -> Response[dict[str, Any]] | Response[ChatReply] | Stream | ServerSentEvent:
    """Answer a chat, in AgentX's or in Ollama's format, according to the fields of the body."""
    if not speaks_ollama(data):
        if isinstance(data, Mapping):
            warn_of_unknown(request, data, fields_of(ChatBody))
        agentx: Response[ChatReply] | ServerSentEvent = await chat.fn(body_of(data, ChatBody), request)
        return agentx
    body = body_of(data, OllamaChatBody)
    reply = _ChatReply(request, body.model)
    if not body.messages:
        return _loaded(body.model, data, {"message": {"role": "assistant", "content": ""}})
    asked = AnswerRequest(
        caller=request.user,
        turns=tuple(turns_of(body.messages)),
        retrieval=body.retrieval(),
        sampling=(body.options or Options()).sampling,
        tools=tuple(objects(body.tools, "tools")),
        json_format=ollama_format(body.format, reply.choice),
    )
    return await reply.reply(asked, stream=body.stream is not False)


@answers("/generate", ok={JSON: OllamaAnswer, NDJSON: str})
async def ollama_generate(data: JSONBody[GenerateBody], request: ApiRequest) -> Response[dict[str, Any]] | Stream:
    """Answer a prompt."""
    reply = _GenerateReply(request, data.model)
    if not data.prompt:
        return _loaded(data.model, msgspec.to_builtins(data), {"response": ""})
    turns = [Turn(role="user", content=data.prompt, images=image_addresses(data.images))]
    if data.system:
        turns.insert(0, Turn(role="system", content=data.system))
    asked = AnswerRequest(
        caller=request.user,
        turns=tuple(turns),
        retrieval=data.retrieval(),
        sampling=(data.options or Options()).sampling,
        json_format=ollama_format(data.format, reply.choice),
    )
    return await reply.reply(asked, stream=data.stream is not False)


def _loaded(model: str, body: Mapping[str, Any], empty: Mapping[str, Any]) -> Response[dict[str, Any]]:
    """Return the reply to a request without a question: Ollama's CLI sends one to load a model, or unload it (0)."""
    reason = "unload" if body.get("keep_alive") in (0, "0") else "load"
    return Response(ollama_end(model, empty, reason, Usage()))


class _ChatReply(ClientReply):
    """An answer in the form of /api/chat: whole, or as the lines of a stream."""

    keep_alive = b""
    media_type = NDJSON

    def piece(self, text: str) -> dict[str, Any]:
        """Return the object of a piece of the text."""
        return {"message": {"role": "assistant", "content": text}}

    def whole(self, answer: Answer, sources: list[SourceLink]) -> dict[str, Any]:
        return self._last(answer, sources, answer.text + self._tail(sources))

    def delta(self, piece: str) -> bytes:
        return _encoded({"model": self._model, "created_at": iso(now_ms()), **self.piece(piece), "done": False})

    def end(self, answer: Answer, sources: list[SourceLink]) -> Iterator[bytes]:
        yield _encoded(self._last(answer, sources, ""))

    def broken(self, problem: Problem) -> Iterator[bytes]:
        yield _encoded({"error": problem.sentence})

    def _last(self, answer: Answer, sources: list[SourceLink], text: str) -> dict[str, Any]:
        content, reason = self.piece(text), "length" if answer.finish_reason == "length" else "stop"
        if answer.tool_calls and "message" in content:
            content["message"]["tool_calls"] = [call.in_ollama for call in answer.tool_calls]
        end = ollama_end(self._model, content, reason, figures(self._prepared, answer))
        return {**end, **self._sources(answer, sources)}


class _GenerateReply(_ChatReply):
    """An answer in the form of /api/generate."""

    field = "prompt"

    def piece(self, text: str) -> dict[str, Any]:
        """Return the object of a piece of the text."""
        return {"response": text}


def _encoded(line: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(line) + b"\n"


class OllamaEmbeddings(msgspec.Struct, frozen=True, kw_only=True):
    """A vector for each text."""

    model: str
    embeddings: list[list[float]]
    total_duration: int
    load_duration: int = 0
    prompt_eval_count: int


class OllamaEmbedding(msgspec.Struct, frozen=True):
    """The vector of a text."""

    embedding: list[float]


@post("/embed", role="query", takes=CHUNKS, refuses=(404,))
async def ollama_embed(data: JSONBody[EmbedBody], request: ApiRequest) -> OllamaEmbeddings:
    """Embed texts with the model of the index."""
    began = time.perf_counter_ns()
    embedder = request.part(Models).embedder(data.model, data.dimensions)
    texts = texts_of(data.input) if data.input not in ("", []) else []  # Ollama's own answer to nothing is none
    cut = data.truncate is not False
    vectors = await vectors_of(request, embedder, texts, cut=cut) if texts else []
    return OllamaEmbeddings(
        model=data.model,
        embeddings=[vector.tolist() for vector in vectors],
        total_duration=time.perf_counter_ns() - began,
        prompt_eval_count=await token_count(embedder, texts) if texts else 0,
    )


@post("/embeddings", role="query", takes=TEXTS, refuses=(404,))
async def ollama_embeddings(data: JSONBody[EmbedBody], request: ApiRequest) -> OllamaEmbedding:
    """Embed one text. Older clients use this route."""
    embedder = request.part(Models).embedder(data.model)
    if not data.prompt:  # it only loads the model
        return OllamaEmbedding([])
    [vector] = await vectors_of(request, embedder, texts_of(data.prompt, "prompt"), cut=True)
    return OllamaEmbedding(vector.tolist())
