"""What makes a process die at a moment that a test chose, and remembers what it has passed."""

import os
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import psutil


@dataclass(frozen=True)
class Setting:
    """At which passing of which point to die, and whether the children die at the same moment."""

    point: str
    passing: int = 1
    everything: bool = False


class Event(NamedTuple):
    """A line of what a process has noted."""

    at: float  # seconds of the monotonic clock, which all processes share
    pid: int
    kind: str  # passed, died: `what` is a point; called: a port's method; asked, kept: the hash of a text
    what: str


class Trap:
    """A folder in which a test says where to die, and a process writes down what it does."""

    def __init__(self, folder: Path) -> None:
        self._setting = folder / "setting"
        self._events = folder / "events"
        self._read = b""
        self._passings = 0

    # The test

    def set(self, setting: Setting) -> None:
        """Let the process die there; passings are counted from now on."""
        draft = self._setting.with_suffix(".new")
        # The time makes a setting that is set again another one.
        draft.write_text(f"{setting.point}\n{setting.passing}\n{int(setting.everything)}\n{time.monotonic_ns()}")
        draft.rename(self._setting)

    def clear(self) -> None:
        """Let nobody die."""
        self._setting.unlink(missing_ok=True)

    def events(self) -> Iterator[Event]:
        """Yield what was noted, in order, by all processes that ever had this folder."""
        for line in self._events.read_text().splitlines():
            at, pid, kind, what = line.split(" ", 3)
            yield Event(float(at), int(pid), kind, what)

    # The process

    def passing(self, point: str) -> None:
        """Write the point down; die, if it is the one."""
        self.note("passed", [point])
        try:
            read = self._setting.read_bytes()
        except FileNotFoundError:
            return
        if read != self._read:
            self._read, self._passings = read, 0
        wanted, passing, everything, _ = read.decode().split("\n")
        if point != wanted:
            return
        self._passings += 1
        if self._passings == int(passing):
            self.note("died", [point])
            if int(everything):
                for child in psutil.Process().children(recursive=True):
                    child.kill()
            os.kill(os.getpid(), signal.SIGKILL)

    def note(self, kind: str, what: Iterable[str]) -> None:
        """Write a line for each of these."""
        lines = "".join(f"{time.monotonic()} {os.getpid()} {kind} {each}\n" for each in what)
        # One write, so that threads don't mix their lines; what is written survives the writer.
        descriptor = os.open(self._events, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(descriptor, lines.encode())
        finally:
            os.close(descriptor)
