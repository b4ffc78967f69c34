"""How long hypothesis plays with a state machine."""

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine

from tests.servers.cache import IN_CI

T = TypeVar("T")


def how_long(*, ci: int, here: int, steps: int) -> settings:
    """Return settings for so many histories, the same at each run; SLUICE_TEST_COUNT asks for others, and so many."""
    asked = int(os.environ.get("SLUICE_TEST_COUNT") or 0)
    return settings(
        max_examples=asked or (ci if IN_CI else here),
        stateful_step_count=steps,
        derandomize=not asked,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )


class AsyncMachine(RuleBasedStateMachine):
    """A machine with an event loop, which runs while a rule waits for something and stands still between."""

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Return what the work gives."""
        return self._runner.run(work)

    def teardown(self) -> None:
        self._runner.close()
