"""A question that came by another protocol: its turns, its passages, its answer."""

import asyncio
import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any, Final

import msgspec

from services.query_api.answer.answering import Answer, Answering, AnswerRequest, Prepared, Retrieval
from services.query_api.clients.links import Citation, Links, source_list
from services.query_api.clients.models import Choice
from services.query_api.http.problems import invalid
from services.query_api.search.search import question_of
from shared.answers import Turn
from shared.store import Filter

KEEP_ALIVE_S: Final = 15.0
_HOUSEKEEPING: Final = "### Task:"  # Open WebUI asks so for titles, tags and follow-ups
_BYTES_OF_A_TOKEN: Final = 4  # in any script, as prompt.py reckons


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """What an answer cost. Tokens are estimated from bytes where the model does not count them."""

    prompt_tokens: int
    answer_tokens: int
    first_ns: int  # until the first piece, retrieval included
    total_ns: int


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that has ended."""

    text: str  # without what `tail` adds
    tail: str  # what follows the pieces: the list of sources where the model's name asks for one
    citations: list[Citation]
    sources: list[dict[str, Any]]  # as /chat's ragSources
    figures: Figures


class Asked:
    """One question under way: iterate `pieces`, then take `finished`."""

    def __init__(
        self, answering: Answering, prepared: Prepared | None, turns: Sequence[Turn], links: Links, *, inline: bool
    ) -> None:
        """Take what was prepared; None is a chore that nobody here can do, and its answer is empty."""
        self._answering = answering
        self._prepared = prepared
        self._turns = turns
        self._links = links
        self._inline = inline
        self._began = time.monotonic_ns()
        self._first: int | None = None
        self._answer = Answer(text="", model="", passages=(), citations=())

    async def pieces(self) -> AsyncGenerator[str, None]:
        """Yield the answer piece by piece; closing the generator stops the model.

        Raises:
            Unavailable: the model is away. Rejected: it doesn't take so much.
        """
        if self._prepared is None:
            return
        async with aclosing(self._answering.stream(self._prepared)) as progress:
            async for step in progress:
                if isinstance(step, Answer):
                    self._answer = step
                elif isinstance(step, str):
                    if self._first is None:
                        self._first = time.monotonic_ns()
                    yield step

    async def whole(self) -> Finished:
        """Return the whole answer. Raises as `pieces`."""
        async for _ in self.pieces():
            pass
        return self.finished()

    def finished(self) -> Finished:
        """Return the answer, once its pieces have ended."""
        answer = self._answer
        citations = self._links.citations(answer.text, answer.passages)
        now = time.monotonic_ns()
        asked = [turn.content for turn in self._turns] + [passage.text for passage in answer.passages]
        told = answer.usage
        return Finished(
            text=answer.text,
            tail=source_list(citations) if self._inline else "",
            citations=citations,
            sources=[
                {
                    "documentId": passage.metadata["documentId"],
                    "chunkId": passage.metadata["chunkId"],
                    "score": passage.score,
                    "metadata": {**passage.metadata, "title": passage.title},
                }
                for passage in answer.passages
            ],
            figures=Figures(
                prompt_tokens=sum(map(tokens, asked)) if told.prompt_tokens is None else told.prompt_tokens,
                answer_tokens=tokens(answer.text) if told.answer_tokens is None else told.answer_tokens,
                first_ns=(self._first or now) - self._began,
                total_ns=now - self._began,
            ),
        )


class Asking:
    """Answers what clients of other protocols ask."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering

    async def ask(
        self,
        tenant: str,
        turns: Sequence[Turn],
        choice: Choice,
        links: Links,
        *,
        top_k: int = 5,
        where: Filter | None = None,
        field: str = "messages",
    ) -> Asked:
        """Return the question under way, its passages found.

        Raises:
            Problem: 400, nobody asks anything; 503, plain chat needs a model. Unavailable: the store is away.
        """
        asked = [turn for turn in turns if turn.role == "user"]
        if not asked:
            raise invalid(field, "must have a message of the user's")
        question = question_of(asked[-1].content, field)
        # A client's own chores: nothing in the documents bears on them, and quotations would be no answer.
        chore = question.lstrip().startswith(_HOUSEKEEPING)
        if chore and self._answering.models.chosen(choice.model)[0].answers.needs_passages:
            return Asked(self._answering, None, turns, links, inline=choice.inline)
        prepared = await self._answering.prepare(
            AnswerRequest(
                tenant=tenant,
                turns=tuple(turns),
                retrieval=Retrieval(top_k=top_k, where=where or Filter()) if choice.rag and not chore else None,
                model=choice.model,
            )
        )
        return Asked(self._answering, prepared, turns, links, inline=choice.inline)


def tokens(text: str) -> int:
    """Return about how many tokens a text has."""
    return math.ceil(len(text.encode(errors="replace")) / _BYTES_OF_A_TOKEN)


async def with_pauses(pieces: AsyncGenerator[str, None], every_s: float) -> AsyncIterator[str | None]:
    """Yield the pieces, and None whenever none has come for `every_s`; closing the iterator closes the pieces."""
    waiting: asyncio.Task[str | None] | None = None
    try:
        while True:
            waiting = asyncio.ensure_future(anext(pieces, None))
            while not (await asyncio.wait({waiting}, timeout=every_s))[0]:
                yield None
            piece, waiting = waiting.result(), None
            if piece is None:
                return
            yield piece
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.wait({waiting})
        await pieces.aclose()
