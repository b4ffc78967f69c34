"""An event loop without a clock or a selector: what is ready runs, and time passes when it is told to.

It knows which process (a simulated one) each task and timer belongs to, so that one can be stopped or dropped whole.
"""

import asyncio
import contextlib
import heapq
import sys
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from contextvars import Context, ContextVar, copy_context
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

OWNER: ContextVar[object] = ContextVar("OWNER", default=None)  # the process that the running code belongs to


class Timer(asyncio.TimerHandle):
    """A timer that knows its process."""

    owner: object
    number: int

    def __lt__(self, other: object) -> bool:
        """Order by time, then by age: two timers of one moment fire as they were set."""
        assert isinstance(other, Timer)
        return (self.when(), self.number) < (other.when(), other.number)


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs tasks in the order in which they became ready, and nothing by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0  # seconds
        self.complaints: list[str] = []
        self._waiting: deque[asyncio.Handle] = deque()
        self._timers: list[Timer] = []
        self._numbers = 0
        self._tasks: dict[object, set[asyncio.Task[Any]]] = {}

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Be the running loop of this thread; afterwards nothing is left of its tasks."""
        asyncio._set_running_loop(self)
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(finalizer=self._close_generator)
        try:
            yield
        finally:
            for owner in list(self._tasks):
                self.drop(owner)
            sys.set_asyncgen_hooks(*hooks)
            asyncio._set_running_loop(None)
            self.close()

    def settle(self) -> None:
        """Run whatever is ready until nothing is."""
        while self._waiting:
            self._waiting.popleft()._run()

    def timer(self, runs: Callable[[Any], bool], horizon: float) -> Timer | None:
        """Return the next timer of a process that `runs`, within `horizon` seconds from now."""
        if len(self._timers) > 64 and sum(each.cancelled() for each in self._timers) > 32:
            self._timers = [each for each in self._timers if not each.cancelled()]
        ready = [each for each in self._timers if not each.cancelled() and runs(each.owner)]
        first = min(ready, default=None)
        return first if first is not None and first.when() <= self.now + horizon else None

    def fire(self, timer: Timer) -> None:
        """Let time pass until the timer's, and run what it starts."""
        self._timers.remove(timer)
        self.now = max(self.now, timer.when())
        timer._run()

    def drop(self, owner: object) -> None:
        """End all tasks of a process where they stand: nothing of it runs again."""
        for task in self._tasks.pop(owner, ()):
            task.cancel()
        self._timers = [each for each in self._timers if each.owner is not owner]
        self.settle()

    def _close_generator(self, left: AsyncGenerator[Any, Any]) -> None:
        self.create_task(left.aclose())

    # What asyncio asks of a loop

    def time(self) -> float:
        return self.now

    def get_debug(self) -> bool:
        return False

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._waiting.append(handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Timer:
        context = context or copy_context()
        timer = Timer(when, callback, args, self, context)
        timer.owner, timer.number = context.get(OWNER), self._numbers
        self._numbers += 1
        heapq.heappush(self._timers, timer)
        return timer

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, **options)
        context: Context = options.get("context") or copy_context()
        tasks = self._tasks.setdefault(context.get(OWNER), set())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]  # the stub wants a coroutine type
        done = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - as an executor's thread does
            done.set_exception(error)
        return done

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.complaints.append(f"{context.get('message')}: {context.get('exception')!r}")

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass  # it stays in the list, and is passed over
