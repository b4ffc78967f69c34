"""Runs schemathesis against a server of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.e2e.harness import Server

_COUNTED = re.compile(r"(\d+) generated, (\d+) passed")
# Streams of events stay open on purpose.
_LEFT_OUT = "/events$"


class Fuzzed(NamedTuple):
    """What came of it."""

    generated: int
    passed: int
    exit_code: int
    report: str


def fuzz(folder: Path, *, examples: int, seconds: int, seed: int, phases: str) -> Fuzzed:
    """Return the outcome of so many made-up requests for each operation, ended after so many seconds."""
    server = Server(folder / "data", CHAT="extractive:").start()
    try:
        command = [
            sys.executable, "-m", "schemathesis.cli", "run", f"{server.url}/openapi.json",
            "--checks", "honest_failure", "--phases", phases, "--continue-on-failure", "--no-shrink",
            "--suppress-health-check", "all", "--warnings", "off", "--request-timeout", "60",
            "--header", "Prefer: wait=0",
            "--exclude-path-regex", _LEFT_OUT,
            "--max-examples", str(examples), "--max-time", str(seconds), "--seed", str(seed), "--workers", "2",
        ]  # fmt: skip
        root = str(Path(__file__).resolve().parents[2])
        environment = {**os.environ, "SCHEMATHESIS_HOOKS": "tests.fuzz.checks", "PYTHONPATH": root}
        ran = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
        assert server.alive, server.tail()
        assert server.ready()
    finally:
        server.stop()
    counted = _COUNTED.search(ran.stdout)
    generated, passed = map(int, counted.groups()) if counted else (0, 0)
    return Fuzzed(generated, passed, ran.returncode, ran.stdout + ran.stderr)
