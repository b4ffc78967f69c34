"""A Qdrant server for tests: the one that SLUICE_TEST_QDRANT_URL names, else a container, else none."""

import os
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from shared.store.qdrant.address import QdrantAddress, qdrant_address
from tests.servers.choice import docker_answers

IMAGE = "qdrant/qdrant:v1.19.0"  # keep within one minor version of the pinned client
URL, API_KEY = "SLUICE_TEST_QDRANT_URL", "SLUICE_TEST_QDRANT_API_KEY"


@dataclass(frozen=True)
class QdrantServer:
    """Where it is, and the key it asks for."""

    address: QdrantAddress
    api_key: str | None


@pytest.fixture(scope="session")
def qdrant_server() -> Iterator[QdrantServer]:
    """Yield the server, or skip where there is none: no package registry has one."""
    given = os.environ.get(URL)  # http://host:6333
    if given:
        yield QdrantServer(qdrant_address(f"qdrant+{given}"), os.environ.get(API_KEY))
        return
    if not docker_answers():
        pytest.skip(f"no Qdrant server: set {URL} or run Docker")
    from testcontainers.community.qdrant import QdrantContainer  # only where Docker answers

    key = "a key of tests"
    with QdrantContainer(IMAGE, api_key=key) as container:
        url = f"http://{container.get_container_host_ip()}:{container.exposed_rest_port}"
        yield QdrantServer(QdrantAddress(url=url), key)
