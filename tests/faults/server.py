"""A server that a test lets die at crash points."""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.harness import START_GUARD_S, Server
from tests.faults.trap import Setting, Trap

SECRET = "with which this server signs"


class CrashingServer(Server):
    """A standalone Sluice with crash points; `trap` has what it did."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "data", PARSERS="1", SECRET=SECRET)
        traps = folder / "trap"
        traps.mkdir(parents=True)
        self.trap = Trap(traps)
        self._module = ("tests.faults.crashing_server", str(traps))

    def died(self, setting: Setting) -> None:
        """Return when the process is gone; fail unless it died of this."""
        assert self._process is not None
        try:
            code = self._process.wait(START_GUARD_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the server lives, and should have died at {setting}: {self.tail()}") from None
        deaths = [event.what for event in self.trap.events() if (event.pid, event.kind) == (self.pid, "died")]
        assert (code, deaths) == (-signal.SIGKILL, [setting.point]), self.tail()

    def first_commit_s(self) -> float | None:
        """Return the seconds from the last launch to its first commit, None where there was none."""
        for event in self.trap.events():
            if event.pid == self.pid and event.kind == "passed" and event.what.startswith("after commit"):
                return event.at - self.launched
        return None


@contextmanager
def crashing(folder: Path) -> Iterator[CrashingServer]:
    """Give a server that isn't started; it is dead afterwards."""
    server = CrashingServer(folder)
    try:
        yield server
    finally:
        if server.alive:
            server.kill()
