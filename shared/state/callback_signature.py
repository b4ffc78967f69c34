"""Signs callbacks as Standard Webhooks has it, so that receivers verify them with a library.

https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
"""

import base64
import hashlib
import hmac
from typing import Final

_PREFIX: Final = "whsec_"


def callback_key(secret: bytes, tenant: str) -> bytes:
    """Return the key that signs a tenant's callbacks.

    It is derived, so that a receiver who knows it can sign neither cursors nor another tenant's callbacks.
    """
    return hmac.new(secret, b"sluice callbacks\0" + tenant.encode(), hashlib.sha256).digest()


def shown_key(key: bytes) -> str:
    """Return the key as receivers configure it."""
    return _PREFIX + base64.b64encode(key).decode()


def signed_headers(key: bytes, id_: str, at: int, body: bytes) -> dict[str, str]:
    """Return the headers of a request; `at` is its time in seconds since 1970."""
    digest = hmac.new(key, f"{id_}.{at}.".encode() + body, hashlib.sha256).digest()
    signature = "v1," + base64.b64encode(digest).decode()
    return {"webhook-id": id_, "webhook-timestamp": str(at), "webhook-signature": signature}
