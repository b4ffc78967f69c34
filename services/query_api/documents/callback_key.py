"""`GET /rag/callback-key`: the key with which a receiver verifies callbacks."""

import msgspec
from litestar.di import NamedDependency

from services.query_api.http.request import ApiRequest
from services.query_api.http.routes import get
from services.query_api.http.signing import Signer
from shared.state.callbacks import shown_key


class CallbackKey(msgspec.Struct, frozen=True):
    """The key in the form that libraries of Standard Webhooks take."""

    key: str  # whsec_ and base64


@get("/rag/callback-key", role="ingest", line="show the key that verifies callbacks", needs_parts=False)
async def rag_callback_key(request: ApiRequest, signer: NamedDependency[Signer]) -> CallbackKey:
    """Show the key that signs the callbacks of the caller's tenant, to verify them with (docs/callbacks.md)."""
    return CallbackKey(shown_key(signer.callback_key(request.user.tenant)))
