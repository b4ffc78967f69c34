"""Signs values that callers hand back later, such as cursors, so that callers can't make or change them."""

import base64
import hashlib
import hmac
from typing import Final, TypeVar

import msgspec

from services.query_api.http.problems import invalid

_SIGNATURE: Final = 16  # bytes
S = TypeVar("S", bound=msgspec.Struct)


class Signer:
    """Signs structs with the installation's secret. The tokens aren't encrypted."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def sign(self, value: msgspec.Struct, *, tenant: str = "") -> str:
        """Return the value as a token that `opened` accepts for the same tenant."""
        content = msgspec.json.encode(value)
        return base64.urlsafe_b64encode(self._signature(type(value), tenant, content) + content).decode().rstrip("=")

    def opened(self, token: str, kind: type[S], *, field: str, tenant: str = "") -> S:
        """Return the value of a token.

        Raises:
            Problem: 400, `sign` didn't make it for this kind and tenant; the sentence names `field`.
        """
        try:
            data = base64.urlsafe_b64decode(token.encode() + b"=" * (-len(token) % 4))
            signature, content = data[:_SIGNATURE], data[_SIGNATURE:]
            if hmac.compare_digest(signature, self._signature(kind, tenant, content)):
                return msgspec.json.decode(content, type=kind)
        except ValueError:  # invalid base64, or JSON of another release while both run
            pass
        raise invalid(field, "is not one that this API issued")

    def _signature(self, kind: type[msgspec.Struct], tenant: str, content: bytes) -> bytes:
        message = msgspec.json.encode((kind.__name__, tenant)) + b"\n" + content
        return hmac.new(self._secret, message, hashlib.sha256).digest()[:_SIGNATURE]
