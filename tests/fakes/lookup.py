"""The fake of `socket.getaddrinfo`, as `services.ingest_worker.fetch.dns_lookup` uses it."""

import socket
from threading import Event, Lock
from typing import Any


class DeadNames:
    """Finds every name at a loopback address, but for those that begin with `dead`: nobody answers until the end."""

    def __init__(self) -> None:
        self.over = Event()
        self.waiting: set[str] = set()
        self.most_waiting = 0
        self._lock = Lock()

    def __call__(self, host: Any, port: int, *_: Any) -> list[tuple[Any, ...]]:
        name = host.decode() if isinstance(host, bytes) else host
        if name.startswith("dead"):
            with self._lock:
                self.waiting.add(name)
                self.most_waiting = max(self.most_waiting, len(self.waiting))
            self.over.wait()
            with self._lock:
                self.waiting.remove(name)
            raise socket.gaierror(socket.EAI_AGAIN, "no name server answers")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]
