"""A Qdrant server for tests: the one that SLUICE_TEST_QDRANT_URL names, else a container, else none."""

import os
import subprocess
from collections.abc import Iterator

import pytest

IMAGE = "qdrant/qdrant:v1.18.3"  # keep within two minor versions of the pinned client


@pytest.fixture(scope="session")
def qdrant_url() -> Iterator[str]:
    """Yield the server's URL, or skip where there is none."""
    given = os.environ.get("SLUICE_TEST_QDRANT_URL")
    if given:
        yield given
        return
    if not _docker_answers():
        pytest.skip("no Qdrant server: set SLUICE_TEST_QDRANT_URL or run Docker")
    from testcontainers.community.qdrant import QdrantContainer  # noqa: PLC0415 - only where Docker answers

    with QdrantContainer(IMAGE) as container:
        yield f"http://{container.get_container_host_ip()}:{container.get_exposed_port(6333)}"


def _docker_answers() -> bool:
    # By its command, because its client leaves a socket open where nobody answers.
    try:
        return subprocess.run(["docker", "version"], capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False
