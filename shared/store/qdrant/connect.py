"""Makes a client of one server, and compares their versions."""

import ssl
from importlib.metadata import version
from typing import Final

import httpx
import structlog
from qdrant_client import AsyncQdrantClient
from qdrant_client.common.version_check import is_compatible

from shared.settings import ConfigurationError
from shared.store.qdrant.address import QdrantAddress

log = structlog.get_logger(__name__)
OLDEST: Final = (1, 19)  # the first that knows filters by the beginning of a text
# Qdrant closes an idle connection after 5 s, and a request sent at that moment is lost. On loopback, a reply of some kB
# takes 40 ms longer on a reused connection (Nagle's algorithm, delayed acknowledgement).
_REST: Final = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=2.0)
_REST_ON_LOOPBACK: Final = httpx.Limits(max_connections=100, max_keepalive_connections=0)


def make_client(address: QdrantAddress, api_key: str | None, *, timeout_s: int) -> AsyncQdrantClient:
    """Return a client, not connected.

    Raises:
        ConfigurationError: the file of authorities can't be used.
    """
    try:
        trusted = True if address.ca is None else ssl.create_default_context(cafile=address.ca)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigurationError(f"SLUICE_STORE: ca={address.ca} can't be used: {error}") from error
    return AsyncQdrantClient(
        url=address.url,
        # Sent as a header: the client's parameter warns where there is no TLS, which is usual in a private network.
        headers={"api-key": api_key} if api_key else None,
        timeout=timeout_s,
        check_compatibility=False,
        limits=_REST_ON_LOOPBACK if address.loopback else _REST,
        verify=trusted,
    )


def check_version(server: str) -> None:
    """Log a warning if the versions of client and server differ by more than Qdrant supports.

    Raises:
        ConfigurationError: the server is too old for our filters.
    """
    numbers = server.split(".")[:2]
    if all(map(str.isdecimal, numbers)) and tuple(map(int, numbers)) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise ConfigurationError(f"SLUICE_STORE: the Qdrant server is {server}, but {oldest} or newer is needed")
    own = version("qdrant-client")
    if not is_compatible(own, server):
        log.warning(
            "store_version",
            server=server,
            client=own,
            reason=f"Qdrant {server} and its client {own} are more than one minor version apart; update the server",
        )
