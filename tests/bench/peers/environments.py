"""An environment for each peer, made once from its pinned requirements in a folder outside the checkout."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.bench.peers.corpus import ROOT
from tests.servers.cache import Recipe, Say, run

REQUIREMENTS = Path(__file__).with_name("requirements")
MOST_BYTES = 2_000_000_000  # of an environment with what its installation needs meanwhile; more isn't installed
_POLL_S = 1.0


class TooLargeError(Exception):
    """An environment that outgrew `MOST_BYTES` while it was made."""


def requirements(name: str) -> Path:
    """Return the pinned requirements: the peer's, those of `make run`, or of `make site`."""
    own = {"sluice": "base.txt", "site": "site.txt"}
    return ROOT / "requirements" / own[name] if name in own else REQUIREMENTS / f"{name}.txt"


def environment(name: str, say: Say) -> Path:
    """Return the folder of the environment, made now unless it is there.

    Raises:
        TooLargeError: it takes more than `MOST_BYTES`.
        RuntimeError: pip failed.
    """
    pins = requirements(name)

    def make(folder: Path, say: Say) -> None:
        shutil.rmtree(folder / "venv", ignore_errors=True)
        say(f"{name}: installing {pins.relative_to(ROOT)}")
        run([sys.executable, "-m", "venv", folder / "venv"])
        _install(pins, folder)

    return Recipe(f"peer-{name}", [pins.read_bytes(), sys.version], make).made(say) / "venv"


def installed_bytes(venv: Path) -> int:
    """Return the bytes on disk of what was installed, without pip and bytecode."""
    [packages] = venv.glob("lib/python3*/site-packages")
    return sum(
        path.lstat().st_blocks * 512
        for each in packages.iterdir()
        if not each.name.startswith(("pip", "setuptools"))
        for path in ([each] if each.is_file() else each.rglob("*"))
        if path.suffix != ".pyc"
    )


def python(venv: Path) -> Path:
    return venv / "bin" / "python"


def _install(pins: Path, folder: Path) -> None:
    """Install with pip as `make` does; stop when the folder outgrows the limit."""
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    log = folder / "pip.log"
    command: list[str | Path] = [
        *(python(folder / "venv"), "-m", "pip", "--disable-pip-version-check", "--no-input", "--quiet", "install"),
        *("--no-compile", "--no-cache-dir", "--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", pins),
    ]
    with log.open("wb") as written:
        process = subprocess.Popen(
            command,
            env={**os.environ, "TMPDIR": str(scratch)},
            stdout=written,
            stderr=written,
            start_new_session=True,
        )
        try:
            while True:
                try:
                    code = process.wait(_POLL_S)
                    break
                except subprocess.TimeoutExpired:
                    if _bytes(folder) > MOST_BYTES:
                        os.killpg(process.pid, signal.SIGKILL)
                        process.wait()
                        shutil.rmtree(folder / "venv", ignore_errors=True)
                        raise TooLargeError(f"its installation takes more than {MOST_BYTES / 1e9:.0f} GB") from None
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    if code:
        last = log.read_text(errors="replace").strip().splitlines()[-1:]
        raise RuntimeError(f"pip exited with {code}: {' '.join(last)}")


def _bytes(folder: Path) -> int:
    total = 0
    for parent, _, files in os.walk(folder):
        for file in files:
            try:
                total += (Path(parent) / file).lstat().st_blocks * 512
            except FileNotFoundError:  # pip moved it meanwhile
                continue
    return total
