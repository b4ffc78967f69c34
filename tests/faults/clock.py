"""`sluice serve` on a wall clock that a test moves: python -m tests.faults.clock FILE, FILE holding the seconds to add.

What the kernel stamps, the age of files above all, keeps the true time; so does the monotonic clock, as it does on a
real machine.
"""

import sys
import time
from pathlib import Path

from services.operator_cli.serve import serve_here
from tests.e2e.harness import Server


class Clock:
    """A file with seconds, which a test writes and a process reads whenever it asks for the time."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def jump(self, seconds: float) -> None:
        """Let the clock go wrong by so much, from now on."""
        draft = self._file.with_suffix(".new")
        draft.write_text(f"{seconds}")
        draft.rename(self._file)

    def install(self) -> None:
        """Take the place of this process's clock."""
        true_ns = time.time_ns

        def time_ns() -> int:
            return true_ns() + int(float(self._file.read_text()) * 1e9)

        for name, now in (("time_ns", time_ns), ("time", lambda: time_ns() / 1e9)):
            setattr(time, name, now)


class MistimedServer(Server):
    """A standalone Sluice; `clock` is its own."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "data")
        self.clock = Clock(folder / "clock")
        self.clock.jump(0)
        self._module = ("tests.faults.clock", str(folder / "clock"))


if __name__ == "__main__":
    Clock(Path(sys.argv[1])).install()
    sys.exit(serve_here())
