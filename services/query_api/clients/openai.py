"""OpenAI's API, as far as its clients need it: models, chat completions, embeddings, vector-store search.

Fields that nothing here can act on (temperature, user, penalties …) are ignored, as every compatible server does.
"""

import base64
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, Literal
from uuid import uuid4

import msgspec
import numpy as np
import structlog
from litestar import Response, get, post
from litestar.di import NamedDependency
from litestar.params import FromPath, JSONBody
from litestar.response import Stream

from services.query_api.clients.asking import KEEP_ALIVE_S, Asked, Asking, Figures, Finished, with_pauses
from services.query_api.clients.embedding import Embedding
from services.query_api.clients.links import Citation, Links
from services.query_api.clients.messages import ClientMessage, turns_of
from services.query_api.clients.models import Models
from services.query_api.http.auth import needs
from services.query_api.http.problems import Problem, invalid, of_pipeline, openai_error
from services.query_api.http.request import ApiRequest
from services.query_api.search.search import TopK, filters_of
from shared.embedder import Vector
from shared.errors import PipelineError

STREAM_HEADERS: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_KEEP_ALIVE: Final = b": keep-alive\n\n"

log = structlog.get_logger(__name__)


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How a stream is sent."""

    include_usage: bool | None = None


class CompletionBody(msgspec.Struct, frozen=True, kw_only=True):
    """A chat completion's request; the fields in camel case are ours, sent by `extra_body`."""

    model: str
    messages: list[ClientMessage]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    tool_choice: Any = None
    use_rag: bool | None = msgspec.field(default=None, name="useRag")
    rag_top_k: TopK | None = msgspec.field(default=None, name="ragTopK")
    rag_filters: dict[str, Any] | str | None = msgspec.field(default=None, name="ragFilters")


class EmbeddingsBody(msgspec.Struct, frozen=True, kw_only=True):
    """Texts to embed. `input_type` is what other servers of this protocol take: queries and documents may differ."""

    model: str
    input: Any
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None
    input_type: Literal["query", "document", "search_query", "search_document", "passage"] | None = None


@get("/v1/models", operation_id="openai_models", guards=[needs("query")], include_in_schema=False)
async def models(models: NamedDependency[Models]) -> dict[str, Any]:
    """List the models."""
    return {"object": "list", "data": [_card(name) for name in models.listed()]}


@get("/v1/models/{name:path}", operation_id="openai_model", guards=[needs("query")], include_in_schema=False)
async def model(name: FromPath[str], models: NamedDependency[Models]) -> dict[str, Any]:
    """Show a model."""
    wanted = name.removeprefix("/")
    models.check(wanted)
    return _card(wanted)


def _card(name: str) -> dict[str, Any]:
    # No model here has a date of its own; a fixed one keeps lists the same.
    return {"id": name, "object": "model", "created": 0, "owned_by": "sluice"}


@post(
    "/v1/chat/completions",
    operation_id="openai_chat_completions",
    guards=[needs("query")],
    status_code=200,
    include_in_schema=False,
)
async def chat_completions(
    data: JSONBody[CompletionBody],
    request: ApiRequest,
    asking: NamedDependency[Asking],
    models: NamedDependency[Models],
    links: NamedDependency[Links],
) -> Response[dict[str, Any]] | Stream:
    """Answer a conversation, whole or as a stream."""
    if data.n is not None and data.n != 1:
        raise invalid("n", f"is {data.n}; there is one answer to a question")
    if data.tool_choice not in (None, "none", "auto"):
        raise invalid("tool_choice", "no model here calls tools; leave it out, or send auto or none")
    choice = models.choice(data.model)
    if data.use_rag is not None:
        choice = msgspec.structs.replace(choice, rag=data.use_rag)
    asked = await asking.ask(
        request.user.tenant,
        turns_of(data.messages),
        choice,
        links,
        top_k=data.rag_top_k or 5,
        where=filters_of(data.rag_filters, "ragFilters"),
    )
    completion = _Completion(data.model)
    if data.stream:
        with_usage = bool(data.stream_options and data.stream_options.include_usage)
        events = completion.events(asked, with_usage=with_usage)
        return Stream(events, media_type="text/event-stream", headers=STREAM_HEADERS)
    return Response(completion.whole(await asked.whole()))


class _Completion:
    """One completion as it goes out."""

    def __init__(self, model: str) -> None:
        self._id = f"chatcmpl-{uuid4().hex}"
        self._created = int(time.time())
        self._model = model

    def whole(self, finished: Finished) -> dict[str, Any]:
        message = {
            "role": "assistant",
            "content": finished.text + finished.tail,
            "refusal": None,
            "annotations": annotations(finished.citations),
        }
        choice = {"index": 0, "finish_reason": "stop", "logprobs": None, "message": message}
        return {
            **self._head("chat.completion"),
            "choices": [choice],
            "usage": usage(finished.figures),
            **_sources(finished),
        }

    async def events(self, asked: Asked, *, with_usage: bool) -> AsyncIterator[bytes]:
        """Yield the chunks; annotations come with the finish reason, where both Open WebUI and LobeChat read them."""
        unused = {"usage": None} if with_usage else {}
        yield self._chunk({"role": "assistant", "content": ""}, **unused)
        try:
            async with aclosing(with_pauses(asked.pieces(), KEEP_ALIVE_S)) as pieces:  # type: ignore[type-var]  # it is a generator
                async for piece in pieces:
                    yield _KEEP_ALIVE if piece is None else self._chunk({"content": piece}, **unused)
        except Exception as error:  # noqa: BLE001 - the status line is long gone: an event is all there is to tell it by
            yield _event(openai_error(_broken(error)))
        else:
            finished = asked.finished()
            if finished.tail:
                yield self._chunk({"content": finished.tail}, **unused)
            last = {"annotations": annotations(finished.citations)} if finished.citations else {}
            yield self._chunk(last, "stop", **unused, **_sources(finished))
            if with_usage:
                yield _event({**self._head("chat.completion.chunk"), "choices": [], "usage": usage(finished.figures)})
        yield b"data: [DONE]\n\n"

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": self._created, "model": self._model}

    def _chunk(self, delta: Mapping[str, Any], finish: str | None = None, **more: Any) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _event({**self._head("chat.completion.chunk"), "choices": [choice], **more})


def _broken(error: Exception) -> Problem:
    """Return the problem of a stream that broke off."""
    if isinstance(error, PipelineError):
        return of_pipeline(error)
    if isinstance(error, Problem):
        return error
    log.error("chat_stream_failed", exc_info=error)
    return Problem(500, "the answer broke off", code="BUG")


def annotations(citations: Sequence[Citation]) -> list[dict[str, Any]]:
    """Return the citations as OpenAI's annotations, in the order of their numbers: `[n]` is the n-th."""
    return [
        {
            "type": "url_citation",
            "url_citation": {"url": each.url, "title": each.title, "start_index": each.start, "end_index": each.end},
        }
        for each in citations
    ]


def usage(figures: Figures) -> dict[str, int]:
    """Return what the answer cost, in about so many tokens."""
    return {
        "prompt_tokens": figures.prompt_tokens,
        "completion_tokens": figures.answer_tokens,
        "total_tokens": figures.prompt_tokens + figures.answer_tokens,
    }


def _sources(finished: Finished) -> dict[str, Any]:
    return {
        "citations": [each.url for each in finished.citations],
        "ragUsed": bool(finished.sources),
        "ragSources": finished.sources,
    }


def _event(data: Mapping[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\n\n"


@post(
    "/v1/embeddings",
    operation_id="openai_embeddings",
    guards=[needs("query")],
    status_code=200,
    include_in_schema=False,
)
async def embeddings(
    data: JSONBody[EmbeddingsBody], models: NamedDependency[Models], embedding: NamedDependency[Embedding]
) -> dict[str, Any]:
    """Embed texts with the model of the index."""
    models.check_embedding(data.model)
    texts = embedding.texts(data.input)
    embedding.check_dimension(data.dimensions)
    vectors = await embedding.vectors(texts, as_queries=data.input_type in ("query", "search_query"))
    shown = _base64 if data.encoding_format == "base64" else _floats
    used = await embedding.count(texts)
    return {
        "object": "list",
        "model": data.model,
        "data": [
            {"object": "embedding", "index": index, "embedding": shown(vector)} for index, vector in enumerate(vectors)
        ],
        "usage": {"prompt_tokens": used, "total_tokens": used},
    }


def _base64(vector: Vector) -> str:
    return base64.b64encode(np.asarray(vector, "<f4").tobytes()).decode()


def _floats(vector: Vector) -> list[float]:
    floats: list[float] = vector.tolist()
    return floats
