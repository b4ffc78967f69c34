"""The secret with which an installation signs and encrypts what it gives to callers; it is kept in the store.

A token is a MAC of its content and the content encrypted with a key stream that the MAC seeds (a synthetic IV, as in
RFC 5297). So equal contents have equal tokens, and callers can neither read, change nor make one.
"""

import base64
import hashlib
import hmac
import json
import secrets
from typing import Final

from shared.contracts import LogPosition
from shared.errors import Unavailable
from shared.log.headers import position_from, position_header
from shared.state.rebuild_gate import COLLECTION
from shared.store import Point, Store

_POINT: Final = "00000000-0000-5000-8000-000000000003"
_MAC: Final = 16  # bytes
_PADDED: Final = 32  # contents are filled up to multiples of this, so that lengths tell nothing of numbers
_SUBMISSION: Final = "submission"


async def signing_secret(store: Store, given: str = "") -> bytes:
    """Return the secret: `given`, else the store's; the first process to ask makes it.

    Raises Unavailable when the store is away.
    """
    if given:
        return given.encode()
    if found := await store.retrieve(COLLECTION, [_POINT]):
        return _secret(found[0])
    # Another process may be first: then this is its secret.
    stored = await store.put_if(COLLECTION, [Point(id=_POINT, payload={"secret": secrets.token_hex(32)})], None)
    await store.flush()
    if not stored:
        raise Unavailable("the store lost the signing secret while it was written")
    return _secret(stored[0])


def _secret(point: Point) -> bytes:
    return bytes.fromhex(point.payload["secret"])


def signed_token(secret: bytes, kind: str, tenant: str, content: bytes) -> str:
    """Return the token from which `content_of` returns the content for the same kind and tenant."""
    padded = content + b" " * (-len(content) % _PADDED)
    mac = _mac(secret, kind, tenant, padded)
    return base64.urlsafe_b64encode(mac + _encrypted(secret, mac, padded)).decode().rstrip("=")


def content_of(token: str, secret: bytes, kind: str, tenant: str) -> bytes | None:
    """Return the token's content, without blanks at its end; None if it isn't one of this kind and tenant."""
    try:
        data = base64.urlsafe_b64decode(token.encode() + b"=" * (-len(token) % 4))
    except ValueError:
        return None
    mac = data[:_MAC]
    padded = _encrypted(secret, mac, data[_MAC:])
    return padded.rstrip(b" ") if hmac.compare_digest(mac, _mac(secret, kind, tenant, padded)) else None


def submission_token(secret: bytes, tenant: str, place: LogPosition) -> str:
    """Return what callers see of a submission's position: of the log, which all tenants share, it tells nothing."""
    return signed_token(secret, _SUBMISSION, tenant, position_header(place).encode())


def submitted_at(token: str, secret: bytes, tenant: str) -> LogPosition | None:
    """Return the position of the submission with this token; None if it isn't one of the tenant."""
    content = content_of(token, secret, _SUBMISSION, tenant)
    return None if content is None else position_from(content.decode())


def _mac(secret: bytes, kind: str, tenant: str, content: bytes) -> bytes:
    bound = json.dumps((kind, tenant)).encode() + b"\n" + content
    return hmac.new(secret, bound, hashlib.sha256).digest()[:_MAC]


def _encrypted(secret: bytes, mac: bytes, content: bytes) -> bytes:
    seed = hmac.new(secret, b"sluice tokens\0" + mac, hashlib.sha256).digest()
    stream = hashlib.shake_256(seed).digest(len(content))
    return (int.from_bytes(content) ^ int.from_bytes(stream)).to_bytes(len(content))
