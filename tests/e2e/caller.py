"""Who talks to a door that may be gone: a tenant, with its key."""

from typing import Any, Protocol

import httpx

TENANTS = ("north", "south")
API_KEYS = ",".join(f"{tenant}-api-key:{tenant}:ingest+query+admin" for tenant in TENANTS)


def key_of(tenant: str) -> dict[str, str]:
    """Return the header that makes a request the tenant's."""
    return {"X-API-Key": f"{tenant}-api-key"}


class Asked(Protocol):
    """What answers HTTP, one process or many."""

    def client(self, **options: Any) -> httpx.Client:
        """Return a client whose base address is its door."""
        ...


class Caller:
    """Requests of one tenant, each on a connection of its own: the door may be another one by then."""

    def __init__(self, server: Asked, tenant: str) -> None:
        self._server = server
        self._tenant = tenant

    def __call__(self, method: str, path: str, timeout_s: float, **request: Any) -> httpx.Response | None:
        """Return the reply, None when the connection broke.

        Raises:
            httpx.ReadTimeout: it stood, and nothing came.
        """
        try:
            with self._server.client(timeout=timeout_s, headers=key_of(self._tenant)) as client:
                return client.request(method, path, **request)
        except httpx.ReadTimeout:
            raise
        except httpx.HTTPError:
            return None
