"""What was built once for tests: in a folder outside the checkout, named by its recipe."""

import fcntl
import hashlib
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

Say = Callable[[str], None]


class Recipe:
    """How a server is built, and where the result is kept. `ready` is written last: a half-built one is no one."""

    def __init__(self, name: str, ingredients: Sequence[str | bytes], build: Callable[[Path, Say], None]) -> None:
        digest = hashlib.sha256()
        for part in ingredients:
            raw = part.encode() if isinstance(part, str) else part
            digest.update(b"%d:" % len(raw) + raw)
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        self.folder = root / "sluice-test-servers" / f"{name}-{digest.hexdigest()[:16]}"
        self._build = build

    @property
    def ready(self) -> bool:
        return (self.folder / "ready").exists()

    def made(self, say: Say = lambda _: None) -> Path:
        """Return the folder, built now unless it is there; whoever comes meanwhile waits."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with _locked(self.folder / "lock"):
            if not self.ready:
                self._build(self.folder, say)
                (self.folder / "ready").touch()
        return self.folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run(command: Sequence[str | Path], **options: object) -> str:
    """Return what the command wrote; its last lines are in the error when it fails."""
    done = subprocess.run(  # type: ignore[call-overload]  # the options are its own
        [*map(str, command)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **options,
    )
    if done.returncode:
        raise RuntimeError(f"{command[0]} exited with {done.returncode}:\n{done.stdout[-3000:]}")
    return str(done.stdout)
