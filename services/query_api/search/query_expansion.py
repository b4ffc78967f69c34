"""Query expansion: related questions, written by the configured model when a request asks for it. docs/search.md."""

import asyncio
import re
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from typing import Final

import msgspec
import structlog

from services.query_api.http.admission import AnswerRate
from services.query_api.http.circuit_breaker import CircuitBreaker
from services.query_api.http.problems import invalid
from services.query_api.search.results import Found
from shared.answers import Conversation, Finished, Turn
from shared.answers.model_pool import ChatModels
from shared.errors import PipelineError, Unavailable

MOST: Final = 3  # related questions
PATIENCE_S: Final = 10.0
_LONGEST: Final = 300  # characters of a related question
_TASK: Final = (
    f"Write {MOST} other questions that ask for the same or closely related information as the user's message, in its "
    "language, each on a line of its own. Write nothing else."
)
_MARK: Final = re.compile(r"^\s*(?:[-*•]|\(?\d{1,2}[.):])\s*")  # at the beginning of a list item

log = structlog.get_logger(__name__)


class QueryExpander:
    """Asks the default model for related questions."""

    def __init__(self, models: ChatModels, rate: AnswerRate, *, patience_s: float = PATIENCE_S) -> None:
        self._model = models.default
        self._rate = rate
        self._patience_s = patience_s
        self._breaker = CircuitBreaker(f"the model {self._model.name}")

    def admit(self, key: str, at: str = "expansion") -> None:
        """Count one call of the model for the key, before anything is searched. `at` is the request's field.

        Raises:
            Problem: 400, no language model is configured; 429, the key has used up its calls.
        """
        if self._model.answers.needs_passages:
            raise invalid(at, "needs a language model, but SLUICE_CHAT names none")
        self._rate.take(key)

    async def related(self, question: str) -> tuple[list[str], list[str]]:
        """Return at most `MOST` related questions, and warnings. If the model fails: no question and one warning."""
        try:
            with self._breaker.guarded():
                return related_questions(await self._written(question), question), []
        except PipelineError as error:
            log.warning("not_expanded", reason=str(error))
            return [], [f"expansion: {error}; only the query itself was searched"]

    async def _written(self, question: str) -> str:
        turns = (Turn(role="user", content=question),)
        conversation = Conversation(turns=turns, system=_TASK, sampling={"temperature": 0.0})
        pieces: list[str] = []
        try:
            async with asyncio.timeout(self._patience_s):
                stream = self._model.answers.stream(conversation)
                # Closed here, so that a caller who goes away stops the model.
                async with aclosing(stream) as events:  # type: ignore[type-var]  # adapters are generators
                    async for event in events:
                        if isinstance(event, str):
                            pieces.append(event)
                        elif isinstance(event, Finished):
                            break
        except TimeoutError:
            raise Unavailable(f"the model {self._model.name} gave no answer within {self._patience_s:g} s") from None
        return "".join(pieces)


def related_questions(text: str, question: str) -> list[str]:
    """Return the lines that a model wrote, without list markers, duplicates and the question itself."""
    lines = (_MARK.sub("", line).strip().strip('"') for line in text.splitlines())
    known = {question.casefold().strip()}
    found: list[str] = []
    for line in lines:
        if line and len(line) <= _LONGEST and line.casefold() not in known:
            known.add(line.casefold())
            found.append(line)
    return found[:MOST]


def merged(hits: Iterable[Found], others: Sequence[tuple[str, Sequence[Found]]]) -> list[Found]:
    """Return the hits of the query and of the related questions by score; each passage once, with its best score.

    If a related question gave a passage its best score, the explanation of the hit names that question.
    """
    best = {_key(hit): hit for hit in hits}
    for query, found in others:
        for hit in found:
            key = _key(hit)
            if key not in best or best[key].score < hit.score:
                explanation = msgspec.structs.replace(hit.explanation, query=query)
                best[key] = msgspec.structs.replace(hit, explanation=explanation)
    return sorted(best.values(), key=lambda hit: -hit.score)


def _key(hit: Found) -> tuple[str, int]:
    return hit.metadata["documentId"], hit.metadata["chunkOrder"]
