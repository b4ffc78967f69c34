"""The image can't be built here; so its steps are read, and its last stage is laid out in a plain folder and run."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
import urllib.request
from fnmatch import fnmatch
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

from shared.settings import Settings
from shared.version import VERSION
from tests.selection import CI_ONLY
from tests.unit.deploy.files import IGNORED, ROOT, Step, stages

BUILD, FINAL = stages()
GUARD_S = 90.0


def named(steps: list[Step], name: str) -> list[Step]:
    return [step for step in steps if step.name == name]


def copies() -> list[tuple[str, str]]:
    """Return what the last stage takes from the checkout, and where to."""
    plain = [step.words for step in named(FINAL, "COPY") if not step.rest.startswith("--from=")]
    return [(source, target) for *sources, target in plain for source in sources]


def environment() -> dict[str, str]:
    return dict(word.split("=", 1) for step in named(FINAL, "ENV") for word in step.words)


def test_both_stages_stand_on_one_pinned_python_that_the_project_takes() -> None:
    images = {step.words[0] for step in (BUILD[0], FINAL[0])}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [image] = images
    version = re.fullmatch(r"python:(\d+)\.(\d+)\.\d+-slim-\w+", image)
    assert version
    needed = re.fullmatch(r">=(\d+)\.(\d+)", project["requires-python"])
    assert needed

    assert (int(version[1]), int(version[2])) >= (int(needed[1]), int(needed[2]))


def test_what_is_installed_is_the_locked_base_by_hash_and_as_wheels() -> None:
    *sources, target = named(BUILD, "COPY")[0].words
    [install] = [step.rest for step in named(BUILD, "RUN") if " install " in step.rest]

    assert sources == ["requirements/base.txt", "requirements/extras.txt"]
    chosen = re.search(r"-r (\S+\$\(.*?\)\.txt)", install)
    assert chosen
    for extras, name in ("", "base"), ("yes", "extras"):
        said = subprocess.run(
            ["sh", "-c", f"echo {chosen[1]}"], env={"EXTRAS": extras}, capture_output=True, text=True, check=True
        )
        assert said.stdout == f"{target}{name}.txt\n"
    for option in ("--require-hashes", "--no-deps", "--only-binary :all:", "--no-cache-dir"):
        assert option in install


def test_nothing_is_installed_in_the_last_stage() -> None:
    ran = " ".join(step.rest for step in named(FINAL, "RUN"))

    assert not re.search(r"\b(apt-get|apt|pip|curl|wget|gcc|make)\b", ran)
    assert [step.words[0] for step in named(FINAL, "COPY") if "--from" in step.rest] == ["--from=build"]


def test_it_runs_as_a_user_who_owns_nothing_of_it() -> None:
    user = named(FINAL, "USER")[-1].rest
    last = max(FINAL.index(step) for step in FINAL if step.name in {"COPY", "RUN"})

    assert int(user.partition(":")[0]) >= 1000
    assert FINAL.index(named(FINAL, "USER")[-1]) > last
    assert not any("--chown" in step.rest for step in named(FINAL, "COPY"))


def test_its_settings_and_its_port_exist() -> None:
    settings = {name.removeprefix("SLUICE_").lower() for name in environment() if name.startswith("SLUICE_")}

    assert settings <= Settings.model_fields.keys()
    assert [step.rest for step in named(FINAL, "EXPOSE")] == [str(Settings.model_fields["port"].default)]


def ignored(path: str) -> bool:
    """Return whether Docker leaves the path out: the last line that fits it, or a folder above it, counts."""
    out = False
    for line in IGNORED.read_text(encoding="utf-8").splitlines():
        pattern = line.removeprefix("!")
        if not pattern or pattern.startswith("#"):
            continue
        above = [path, *(str(parent) for parent in Path(path).parents if str(parent) != ".")]
        names = [each.rpartition("/")[2] for each in above] if pattern.startswith("**/") else above
        if any(fnmatch(each, pattern.removeprefix("**/")) for each in names):
            out = not line.startswith("!")
    return out


def test_the_context_holds_what_is_copied_and_nothing_of_the_machine() -> None:
    sources = [source for source, _ in copies()] + named(BUILD, "COPY")[0].words[:-1]
    for source in sources:
        assert (ROOT / source).exists(), source
        assert not ignored(source), source

    for path in (".env", ".git/config", "data/log.db", "tests/conftest.py", "README.md", "deploy/env.example"):
        assert ignored(path), path
    assert ignored("shared/__pycache__/ids.cpython-311.pyc")
    assert not ignored("shared/embedder/minilm_graph.onnx")


class LaidOut:
    """The last stage in a folder: its files, libraries, command and environment, and no way back to the checkout."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        workdir = named(FINAL, "WORKDIR")[-1].rest
        self.app = self.root / workdir.lstrip("/")
        for source, target in copies():
            self._copy(ROOT / source, self.app / target)
        self.bin = folder / "bin"
        self.bin.mkdir()
        # Without `site` no .pth file is read: the one in this environment leads to the checkout.
        self._program("python", f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
        [script] = re.findall(r"printf ('[^']*') > /opt/venv/bin/sluice", " ".join(step.rest for step in BUILD))
        printed = subprocess.run(["sh", "-c", f"printf {script}"], capture_output=True, text=True, check=True)
        self._program("sluice", printed.stdout)
        [self.entry] = json.loads(named(FINAL, "ENTRYPOINT")[-1].rest)
        libraries = folder / "libraries"
        libraries.mkdir()
        for name in base():
            link(name, libraries)
        told = environment()
        assert told["PYTHONPATH"] == workdir
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLUICE_", "PYTHON"))}
        self.environment = {
            **kept,
            **told,
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "PYTHONPATH": f"{self.app}:{libraries}",
        }

    def command(self, *arguments: str) -> list[str]:
        return [str(self.bin / self.entry), *arguments]

    def ran(self, *command: str) -> str:
        done = subprocess.run(
            command, cwd=self.app, env=self.environment, capture_output=True, text=True, check=False, timeout=GUARD_S
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def files(self) -> set[Path]:
        return set(self.root.rglob("*"))

    def _copy(self, source: Path, target: Path) -> None:
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)

    def _program(self, name: str, text: str) -> None:
        (self.bin / name).write_text(text)
        (self.bin / name).chmod(0o755)


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> LaidOut:
    return LaidOut(tmp_path_factory.mktemp("image"))


def base() -> list[str]:
    return re.findall(r"^([A-Za-z0-9._-]+)==", (ROOT / "requirements/base.txt").read_text(), re.MULTILINE)


def link(name: str, folder: Path) -> None:
    """Put into the folder what the distribution installs, if it is one for this platform."""
    try:
        installed = distribution(name)
    except PackageNotFoundError:
        return
    for top in {file.parts[0] for file in installed.files or ()} - {"..", "__pycache__"}:
        here = folder / top
        if not here.exists():
            here.symlink_to(Path(str(installed.locate_file(top))))


IMPORT_ALL = """
import importlib, json, pkgutil

import services, shared

ours = [
    module.name
    for package in (services, shared)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + ".")
    # a command; what needs the extras `mcp` and `otel`, imported where these are asked for
    if not module.name.endswith(("__main__", ".clients.mcp_server", ".tracing.otel"))
]
print(json.dumps([importlib.import_module(name).__file__ for name in ours]))
"""


@CI_ONLY
@pytest.mark.slow
def test_every_module_is_there_and_needs_only_what_is_installed(laid_out: LaidOut) -> None:
    before = laid_out.files()

    files = [Path(file) for file in json.loads(laid_out.ran("python", "-P", "-c", IMPORT_ALL))]

    assert len(files) > 50
    assert [file for file in files if not file.is_relative_to(laid_out.app)] == []
    assert laid_out.files() == before


@CI_ONLY
@pytest.mark.slow
def test_its_command_starts_in_it_answers_ends_and_writes_nothing_but_its_data(
    laid_out: LaidOut, tmp_path: Path
) -> None:
    before = laid_out.files()
    assert laid_out.ran(*laid_out.command("--version")).strip().endswith(VERSION)
    [default] = json.loads(named(FINAL, "CMD")[-1].rest)
    settings = {
        "SLUICE_DATA": str(tmp_path / "data"),
        "SLUICE_PORT": "0",
        "SLUICE_SAMPLES": "off",
        "SLUICE_CHAT": "extractive:",
    }

    with (tmp_path / "log").open("w+b") as log:
        running = subprocess.Popen(
            laid_out.command(default),
            cwd=laid_out.app,
            env=laid_out.environment | settings,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            url = listening(running, tmp_path / "log")
            with urllib.request.urlopen(f"{url}/livez", timeout=30) as reply:
                assert reply.status == 200
            running.send_signal(signal.SIGTERM)
            assert running.wait(timeout=GUARD_S) == 0
        finally:
            if running.poll() is None:
                os.killpg(running.pid, signal.SIGKILL)
                running.wait()

    assert laid_out.files() == before


def listening(running: "subprocess.Popen[bytes]", log: Path) -> str:
    deadline = time.monotonic() + GUARD_S
    while time.monotonic() < deadline:
        found = re.search(r"listens on (http://\S+)", log.read_text())
        if found:
            return found[1]
        assert running.poll() is None, log.read_text()
        time.sleep(0.05)  # polling another process; there is nothing to await
    raise AssertionError(f"it did not start in {GUARD_S:.0f} s: {log.read_text()}")
