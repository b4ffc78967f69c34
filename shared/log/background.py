"""What a process does beside its work, again and again: no error ends it, and the log tells each once."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import structlog

from shared.errors import PipelineError
from shared.settings import ConfigurationError

log = structlog.get_logger(__name__)


def repeat(
    stack: AsyncExitStack,
    act: Callable[[], Awaitable[object]],
    every_s: float,
    waits: str = "",
    *,
    at_once: bool = True,
    again_s: float | None = None,
    **told: object,
) -> None:
    """Call `act` every `every_s` seconds until `stack` closes; the first time `at_once`, else after one interval.

    What it refuses, or that a part is away, is logged once as the event `waits` if one is given, with what is `told`;
    the next call, after `again_s` if that is given, tries again. So it does after a bug.
    """

    async def for_ever() -> None:
        known, pause_s = "", 0.0 if at_once else every_s
        while not task.cancelling():  # `act` may swallow that, or fail instead
            await asyncio.sleep(pause_s)
            reason = ""
            try:
                await act()
            except (PipelineError, ConfigurationError) as error:
                reason = str(error) or type(error).__name__
                if waits and reason != known:
                    log.warning(waits, reason=reason, **told)
            except (Exception, asyncio.CancelledError) as error:
                # What ends here would never run again, and nobody would notice: so does a cancelled task within `act`.
                if task.cancelling():
                    raise
                reason = repr(error)
                if reason != known:
                    log.exception("repeated_call_failed", waits=waits, **told)
            known, pause_s = reason, again_s if reason and again_s is not None else every_s

    async def end() -> None:
        # What is closed next may still be in use until it has ended.
        task.cancel()
        await asyncio.wait([task])

    task = asyncio.create_task(for_ever())
    stack.push_async_callback(end)
