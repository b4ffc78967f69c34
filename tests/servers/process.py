"""A server's process: it can be killed, stopped and continued, and it ends with us."""

import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path


class ServerProcess:
    """A process and its children, one group."""

    def __init__(
        self, command: Sequence[str | Path], written: Path, *, cwd: Path, env: Mapping[str, str] | None = None
    ) -> None:
        # However we end, the kernel ends it with us. It watches the thread that starts it: that must be the main one.
        guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        self._written = written
        with written.open("ab") as log:
            self._process = subprocess.Popen(
                [*guard, *command],
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    def last_words(self) -> str:
        return self._written.read_text("utf-8", "replace")[-3000:]

    def kill(self) -> None:
        """End it at once, as the system would, also where it is stopped."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def stop(self, timeout_s: float) -> None:
        """Ask it to end.

        Raises:
            subprocess.TimeoutExpired: it didn't in time.
        """
        self._signal(signal.SIGCONT)
        self._process.terminate()
        self._process.wait(timeout_s)

    def pause(self) -> None:
        """Return when it stands still; the signal alone may arrive after its next answer."""
        self._signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
