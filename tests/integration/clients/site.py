"""What a client is given to connect with."""

from typing import NamedTuple

import httpx


class Site(NamedTuple):
    """A running server, a tenant's key, and the ids of its two documents."""

    url: str
    key: str
    lantern: str
    herons: str
    http: httpx.AsyncClient
