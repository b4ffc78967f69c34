"""Streams an answer as server-sent events: `sources`, `token`s, then `done` with the whole reply, or `error`."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any

import msgspec
import structlog
from litestar.response import ServerSentEventMessage

from services.query_api.answer.answering import Answer, Answering, Prepared, Sources
from services.query_api.http.problems import Problem, body, of_pipeline
from shared.errors import PipelineError

log = structlog.get_logger(__name__)


async def events(
    answering: Answering,
    prepared: Prepared,
    *,
    instance: str,
    sources: Callable[[Sources], Mapping[str, Any]],
    done: Callable[[Answer], msgspec.Struct],
    problem: Callable[[PipelineError], Problem] = of_pipeline,
) -> AsyncIterator[ServerSentEventMessage]:
    """Yield the events. `sources` and `done` build the events' data; `instance` is the path in an error.

    When the client disconnects, this generator is closed, which stops the model.
    """
    try:
        async with aclosing(answering.stream(prepared)) as progress:
            async for step in progress:
                if isinstance(step, Sources):
                    yield _event("sources", sources(step))
                elif isinstance(step, str):
                    yield _event("token", {"content": step})
                else:
                    yield _event("done", done(step))
    except PipelineError as error:
        yield _event("error", body(problem(error), instance))
    except Exception:  # the status is already sent; only an event can report the error
        log.exception("answer_stream_failed")
        yield _event("error", body(Problem(500, "the answer broke off", code="BUG"), instance))


def _event(name: str, data: Mapping[str, Any] | msgspec.Struct) -> ServerSentEventMessage:
    return ServerSentEventMessage(event=name, data=msgspec.json.encode(data))
