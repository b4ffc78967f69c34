"""`GET /rag/callback-key`: the key with which a receiver verifies callbacks."""

import msgspec
from litestar.di import NamedDependency

from services.query_api.http.request import ApiRequest
from services.query_api.http.routes import get
from shared.state.callbacks import callback_key, shown_key


class CallbackKey(msgspec.Struct, frozen=True):
    """The key in the form that libraries of Standard Webhooks take."""

    key: str  # whsec_ and base64


class CallbackKeys:
    """The keys of all tenants, derived from the installation's secret."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def of(self, tenant: str) -> CallbackKey:
        """Return the tenant's key."""
        return CallbackKey(shown_key(callback_key(self._secret, tenant)))


@get("/rag/callback-key", role="ingest", line="show the key that verifies callbacks", needs_parts=False)
async def rag_callback_key(request: ApiRequest, callback_keys: NamedDependency[CallbackKeys]) -> CallbackKey:
    """Show the key that signs the callbacks of the caller's tenant, to verify them with (docs/callbacks.md)."""
    return callback_keys.of(request.user.tenant)
