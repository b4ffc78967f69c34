"""The secret with which all APIs of an installation sign what they give to callers; it is kept in the store."""

import secrets
from typing import Final

from shared.errors import Unavailable
from shared.state.rebuild_gate import COLLECTION
from shared.store import Point, Store

_POINT: Final = "00000000-0000-5000-8000-000000000003"


async def signing_secret(store: Store, given: str = "") -> bytes:
    """Return the secret: `given`, else the store's; the first process to ask makes it.

    Raises Unavailable when the store is away.
    """
    if given:
        return given.encode()
    if (known := await _stored(store)) is not None:
        return known
    await store.insert(COLLECTION, [Point(id=_POINT, payload={"secret": secrets.token_hex(32)})])
    await store.flush()
    made = await _stored(store)  # another process may have been first
    if made is None:
        raise Unavailable("the store lost the signing secret while it was written")
    return made


async def _stored(store: Store) -> bytes | None:
    found = await store.retrieve(COLLECTION, [_POINT])
    return bytes.fromhex(found[0].payload["secret"]) if found else None
