"""Passes questions that came by another protocol to the answering service."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing
from typing import Any, Final, TypedDict, TypeVar

import msgspec
from litestar import Response
from litestar.response import Stream
from msgspec.structs import replace

from services.query_api.answer.answering import Answer, Answering, AnswerRequest, Prepared
from services.query_api.answer.chat import rag_sources
from services.query_api.clients.links import SourceLink, links_of, source_list
from services.query_api.clients.models import Choice, Models
from services.query_api.http.problems import Problem, broken_off, invalid
from services.query_api.http.request import ApiRequest, not_blank
from services.query_api.http.route_decorator import EVENT_STREAM, UNBUFFERED
from services.query_api.search.filters import filter_of
from shared.answers import Conversation, Usage
from shared.answers.prompt import text_tokens, tokens

KEEP_ALIVE_S: Final = 15.0
_HOUSEKEEPING: Final = "### Task:"  # how Open WebUI's requests for titles, tags and follow-ups begin

T = TypeVar("T")


class AnswerSources(TypedDict):
    """What an answer is from: fields of ours in the replies of all protocols."""

    citations: list[str]
    ragUsed: bool
    ragSources: list[dict[str, Any]]


async def _prepared(answering: Answering, asked: AnswerRequest, choice: Choice, field: str) -> Prepared:
    """Return the request to the chosen model with its passages, ready to be streamed. Raises as `reply` does."""
    last = next((turn for turn in reversed(asked.turns) if turn.role == "user"), None)
    if last is None and asked.turns and not (choice.rag or choice.only_quotes):
        last = asked.turns[-1]  # a model alone also follows a system message
    if last is None:
        raise invalid(field, "must have a message with the role user")
    if choice.rag or not last.images:
        not_blank(last.content, field)
    if asked.tools and choice.only_quotes and asked.tool_choice not in (None, "auto", "none"):
        raise invalid("tool_choice", f"{choice.model} only quotes documents; calling tools needs a language model")
    # The client asks for itself: documents don't help, and quotations are no answer.
    chore = last.content.lstrip().startswith(_HOUSEKEEPING)
    if chore and choice.only_quotes:
        models = answering.models.chosen(choice.model)
        return Prepared(conversation=Conversation(turns=asked.turns), models=models, refusal="")
    retrieval = asked.retrieval if choice.rag and not chore else None
    if retrieval is not None and choice.source is not None:
        retrieval = replace(retrieval, where=retrieval.where & filter_of({"source": choice.source}, "model"))
    return await answering.prepare(replace(asked, model=choice.model, retrieval=retrieval))


class ClientReply(ABC):
    """An answer in the form of a client's protocol: its subclasses make it whole, or the pieces of a stream."""

    keep_alive = b": keep-alive\n\n"  # sent while the model is silent; empty: nothing is
    media_type = EVENT_STREAM
    field = "messages"  # of the request, which has the question
    _prepared: Prepared

    def __init__(self, request: ApiRequest, model: str, *, rag: bool | None = None) -> None:
        """Take the model's name as the client sent it; `rag` overrules what it says. Raises a 404 for unknown names."""
        self._answering, self._links, self._model = request.part(Answering), links_of(request), model
        choice = request.part(Models).choice(model)
        self.choice = choice if rag is None else replace(choice, rag=rag)

    async def reply(self, asked: AnswerRequest, *, stream: bool) -> Response[dict[str, Any]] | Stream:
        """Return the answer, whole or as a stream.

        Raises:
            Problem: 400, nothing is asked, or a model that only quotes has to call a tool; 429, 503 as
                `Answering.prepare`. Unavailable: the store is away.
        """
        self._prepared = await _prepared(self._answering, asked, self.choice, self.field)
        if stream:
            return Stream(self.stream(), media_type=self.media_type, headers=UNBUFFERED)
        answer = await self._answering.finish(self._prepared)
        return Response(self.whole(answer, self._links.sources(answer)))

    @abstractmethod
    def whole(self, answer: Answer, sources: list[SourceLink]) -> dict[str, Any]:
        """Return the answer in one object."""

    def start(self) -> Iterable[bytes]:
        """Return what comes before the text."""
        return ()

    @abstractmethod
    def delta(self, piece: str) -> bytes:
        """Return a piece of the text."""

    @abstractmethod
    def end(self, answer: Answer, sources: list[SourceLink]) -> Iterable[bytes]:
        """Return what follows the text."""

    @abstractmethod
    def broken(self, problem: Problem) -> Iterable[bytes]:
        """Return what says why there is no end."""

    async def stream(self) -> AsyncIterator[bytes]:
        """Yield the stream. An error is a part of it, because the status is already sent."""
        for part in self.start():
            yield part
        try:
            async with aclosing(with_pauses(self._answering.stream(self._prepared), KEEP_ALIVE_S)) as progress:
                async for step in progress:
                    if isinstance(step, str):
                        yield self.delta(step)
                    elif isinstance(step, Answer):
                        sources = self._links.sources(step)
                        if tail := self._tail(sources):
                            yield self.delta(tail)
                        for part in self.end(step, sources):
                            yield part
                    elif step is None and self.keep_alive:
                        yield self.keep_alive
        except Exception as error:  # noqa: BLE001 - the status is already sent
            for part in self.broken(broken_off(error)):
                yield part

    def _tail(self, sources: list[SourceLink]) -> str:
        return source_list(sources) if self.choice.inline else ""

    def _tokens(self, answer: Answer) -> tuple[int, int]:
        """Return the tokens of the prompt and of the answer."""
        cost = figures(self._prepared, answer)
        return cost.prompt_tokens or 0, cost.answer_tokens or 0

    def _sources(self, answer: Answer, sources: list[SourceLink]) -> dict[str, Any]:
        """Return the fields that say what the answer is from, the same in all protocols."""
        return {
            "citations": [each.url for each in sources],
            "ragUsed": answer.rag_used,
            "ragSources": rag_sources(answer.passages),
            **({"warnings": answer.warnings} if answer.warnings else {}),
        }


def figures(prepared: Prepared, answer: Answer) -> Usage:
    """Return the cost of the answer: the model's own figures, or else tokens estimated from bytes, and 0 ns."""
    asked = tokens(prepared.conversation.turns) + sum(text_tokens(passage.shown) for passage in answer.passages)
    guessed = {"prompt_tokens": asked, "answer_tokens": text_tokens(answer.text)}
    own = {name: value for name, value in msgspec.structs.asdict(answer.usage).items() if value is not None}
    return Usage(**dict.fromkeys(Usage.__struct_fields__, 0) | guessed | own)


async def with_pauses(progress: AsyncGenerator[T, None], every_s: float) -> AsyncGenerator[T | None, None]:
    """Yield the events of `progress`, and None after each `every_s` seconds without one. Closing closes `progress`."""
    waiting: asyncio.Task[T | None] | None = None
    try:
        while True:
            waiting = asyncio.ensure_future(anext(progress, None))
            while not (await asyncio.wait({waiting}, timeout=every_s))[0]:
                yield None
            step, waiting = waiting.result(), None
            if step is None:
                return
            yield step
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait({waiting})
        await progress.aclose()
