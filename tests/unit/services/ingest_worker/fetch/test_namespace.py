"""No spelling arrives anywhere, seen by listeners on every address there is."""

import json
import shutil
import subprocess
import sys

import pytest

from tests.selection import CI_ONLY
from tests.unit.services.ingest_worker.fetch import namespace
from tests.unit.services.ingest_worker.fetch.spellings import PUBLIC, PUBLIC_6

EVERY_ADDRESS_IS_HERE = "ip link set lo up && ip route add local default dev lo && ip -6 route add local default dev lo"


def in_namespace(command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            "unshare",
            "--net",
            "--map-root-user",
            "sh",
            "-c",
            f'{EVERY_ADDRESS_IS_HERE} && {command} "$@"',
            "sh",
            *arguments,
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def possible() -> bool:
    return all(map(shutil.which, ("unshare", "ip"))) and in_namespace("true").returncode == 0


@CI_ONLY
@pytest.mark.skipif(not possible(), reason="needs unshare and ip, and the right to a network namespace")
def test_no_spelling_arrives_anywhere() -> None:
    ran = in_namespace(f"exec {sys.executable} -m {namespace.__name__}")

    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout.splitlines()[-1])
    assert seen["forbidden"] == []
    assert set(seen["public"]) == {PUBLIC, PUBLIC_6}, "the listeners hear what does arrive"
    assert seen["asked"] >= 150
