"""Other users and processes of the machine read neither our files nor our memory."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from shared import sandbox
from shared.runtime.privacy import keep_private
from shared.settings import Settings

_NOBODY = 65534


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave this process as it is: its memory readable, its environment whole, its umask as before."""
    monkeypatch.setattr(sandbox, "conceal", lambda _: None)
    before = os.umask(0o022)
    yield
    os.umask(before)


def _made(data: Path) -> list[Path]:
    """Return files and folders that everybody may read, as an unpacked copy has them."""
    files = [data / "log.sqlite", data / "store" / "collections" / "a" / "b", data / "blobs" / "default" / "x" / "y"]
    for file in files:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("text")
    return [*files, *(folder for folder in data.rglob("*") if folder.is_dir())]


def _mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):04o}"


def test_what_an_older_release_made_is_mended(tmp_path: Path) -> None:
    data = tmp_path / "data"
    _made(data)
    within = {path: _mode(path) for path in data.rglob("*") if path.parent != data}

    keep_private(Settings(data=data))

    assert {_mode(path) for path in (data, *data.iterdir())} == {"0700", "0600"}
    assert {path: _mode(path) for path in within} == within, "what is within a closed folder stays as it is"


def test_what_others_put_beside_it_keeps_its_mode(tmp_path: Path) -> None:
    data = tmp_path / "data"
    _made(data)
    theirs = data / "theirs.txt"
    theirs.write_text("text")

    keep_private(Settings(data=data))

    assert (_mode(theirs), _mode(data), _mode(data / "store")) == ("0644", "0755", "0700")


def test_what_is_made_afterwards_is_private(tmp_path: Path) -> None:
    keep_private(Settings(data=tmp_path / "data"))

    (tmp_path / "later").write_text("text")

    assert _mode(tmp_path / "later") == "0600"


def test_a_blob_folder_elsewhere_is_only_named(tmp_path: Path) -> None:
    blobs = tmp_path / "shared"
    blobs.mkdir(mode=0o755)

    with structlog.testing.capture_logs() as logs:
        keep_private(Settings(data=tmp_path / "data", blobs=f"file:{blobs}"))

    assert _mode(blobs) == "0755"
    assert [(line["event"], line["folder"], line["mode"]) for line in logs] == [
        ("blob_folder_open_to_others", str(blobs), "0755")
    ]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_reads_nothing(tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = _made(data)
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & stat.S_IXOTH and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | stat.S_IXOTH)  # pytest's own are private, too
    files = [path for path in made if path.is_file()]

    def seen() -> str:
        command = ["cat", *map(str, files)]
        # `cat` exits with an error where it may not read
        return subprocess.run(
            command, check=False, user=_NOBODY, group=_NOBODY, extra_groups=[], capture_output=True
        ).stdout.decode()

    assert seen() == "text" * len(files)
    keep_private(Settings(data=data))
    assert seen() == ""


@pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux'")
def test_secrets_leave_the_environment_that_the_system_shows() -> None:
    program = (
        "import os\nfrom shared import sandbox\nsandbox.conceal(['SLUICE_API_KEYS'])\n"
        "print('SLUICE_API_KEYS' in os.environ, flush=True)\ninput()"
    )
    environment = {**os.environ, "SLUICE_API_KEYS": "secret-key:default:admin", "KEPT": "visible"}
    with subprocess.Popen(
        [sys.executable, "-c", program], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"False\n"
        if os.geteuid() == 0:  # others get nothing at all: the process isn't dumpable
            shown = Path(f"/proc/{process.pid}/environ").read_bytes()
            assert b"secret-key" not in shown
            assert b"KEPT=visible" in shown
        process.stdin.close()
