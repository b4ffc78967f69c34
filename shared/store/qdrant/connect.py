"""Makes clients of one server: over REST, and over gRPC if that port answers."""

import asyncio
import ssl
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import httpx
import structlog
from qdrant_client import AsyncQdrantClient
from qdrant_client.common.version_check import is_compatible

from shared.settings import ConfigurationError
from shared.store.qdrant.address import QdrantAddress
from shared.store.qdrant.errors import VENDOR, reason

log = structlog.get_logger(__name__)
PROBE_S: Final = 3.0
OLDEST: Final = (1, 19)  # the first that knows filters by the beginning of a text
# By default a channel waits up to 120 s before it reconnects, and waits for ever for a silent server.
_GRPC: Final[dict[str, Any]] = {
    "grpc.initial_reconnect_backoff_ms": 200,
    "grpc.min_reconnect_backoff_ms": 1000,
    "grpc.max_reconnect_backoff_ms": 2000,
    "grpc.keepalive_time_ms": 20_000,
    "grpc.keepalive_timeout_ms": 10_000,
}
# Qdrant closes an idle connection after 5 s, and a request sent at that moment is lost. On loopback, a reply of some kB
# takes 40 ms longer on a reused connection (Nagle's algorithm, delayed acknowledgement).
_REST: Final = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=2.0)
_REST_ON_LOOPBACK: Final = httpx.Limits(max_connections=100, max_keepalive_connections=0)


def make_client(address: QdrantAddress, api_key: str | None, *, timeout_s: int, over_grpc: bool) -> AsyncQdrantClient:
    """Return a client, not connected; with `over_grpc` for the address' gRPC port.

    Raises:
        ConfigurationError: the file of authorities can't be used.
    """
    ssl_context, authorities = _trust(address.ca)
    return AsyncQdrantClient(
        url=address.url,
        grpc_port=address.grpc_port or 0,
        prefer_grpc=over_grpc,
        # Sent as a header: the client's parameter warns where there is no TLS, which is usual in a private network.
        headers={"api-key": api_key} if api_key else None,
        timeout=timeout_s,
        grpc_options={**_GRPC, **authorities},
        check_compatibility=False,
        limits=_REST_ON_LOOPBACK if address.loopback else _REST,
        verify=ssl_context,
    )


async def open_grpc(address: QdrantAddress, api_key: str | None, *, timeout_s: int) -> AsyncQdrantClient | None:
    """Return a client over gRPC whose server has answered; None if it doesn't within three seconds.

    Raises:
        ConfigurationError: the file of authorities can't be used.
    """
    if address.grpc_port is None:
        return None
    found = make_client(address, api_key, timeout_s=timeout_s, over_grpc=True)
    try:
        async with asyncio.timeout(PROBE_S):
            await found.get_collections()
    except (TimeoutError, *VENDOR) as error:
        await found.close()
        log.info("store_without_grpc", port=address.grpc_port, reason=reason(error))
        return None
    except BaseException:
        await found.close()
        raise
    return found


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


def _trust(ca: str | None) -> tuple[ssl.SSLContext | bool, dict[str, bytes]]:
    if ca is None:
        return True, {}
    try:
        return ssl.create_default_context(cafile=ca), {"root_certificates": Path(ca).read_bytes()}
    except OSError as error:  # ssl.SSLError is one
        raise ConfigurationError(f"SLUICE_STORE: ca={ca} can't be used: {error}") from error
