"""Ports that no client takes while a server is down."""

import random
import socket
from contextlib import suppress


def free_port() -> int:
    """Return one below the ephemeral range: a client that retries a dead port there can connect to itself."""
    while True:
        with suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", random.randrange(20_000, 32_000)))
            port: int = probe.getsockname()[1]
            return port
