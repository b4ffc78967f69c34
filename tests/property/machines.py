"""How hypothesis plays with a state machine."""

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.e2e.load import new_seed

T = TypeVar("T")


def play(machine: type[RuleBasedStateMachine], *, histories: int, steps: int) -> None:
    """Fail where a history of the machine does; they are the same each time, unless a seed or a count is asked for."""
    asked = {"SLUICE_TEST_SEED", "SLUICE_TEST_COUNT"} & os.environ.keys()
    how_long = settings(
        max_examples=histories,
        stateful_step_count=steps,
        derandomize=not asked,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    run_state_machine_as_test(seed(new_seed())(machine) if asked else machine, settings=how_long)


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
