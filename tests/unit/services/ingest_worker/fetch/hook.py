"""A hook below every library: what it doesn't let through never leaves the process, whatever a guard let past."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_watching: list["Watch"] = []


class Watch:
    """Refuses each connection but to `allowed`, and keeps what was refused."""

    def __init__(self, allowed: frozenset[tuple[str, int]]) -> None:
        self.allowed = allowed
        self.refused: list[Any] = []


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watching or event not in ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo"):
        return
    watch = _watching[-1]
    # The loop talks to itself through a socket without an address; a look-up that needs no server is no harm.
    address = arguments[0] if event == "socket.getaddrinfo" else arguments[1]
    if event == "socket.getaddrinfo" or address is None or tuple(address[:2]) in watch.allowed:
        return
    watch.refused.append(address)
    raise ConnectionRefusedError(f"the test's hook: {event} {address}")


sys.addaudithook(_hook)


@contextmanager
def only(*allowed: tuple[str, int]) -> Iterator[Watch]:
    """Give the watch for the block."""
    watch = Watch(frozenset(allowed))
    _watching.append(watch)
    try:
        yield watch
    finally:
        _watching.remove(watch)
