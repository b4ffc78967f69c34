"""Part of `make bench ONLY=crowds`: memory of all processes while many clients send large bodies of all shapes."""

import itertools
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import psutil

from tests.bench.gaps import LARGEST
from tests.bench.report import Row
from tests.e2e.harness import Server, served
from tests.request_shapes import LARGEST_BODIES, ShapedBody

SENDERS, SENDS_S, BACK_S = 100, 30.0, 60.0
ENDED_S = 600.0  # longest wait for the documents that were accepted
KEY = "key-of-twenty-characters"
_PAUSE_S = 0.25  # between two looks at the memory


def measure(row: Row) -> None:
    """Pass to `row`, without keys and with one, the most memory, and how much is left after a minute."""
    for keys in ("", f"{KEY}:tenant:admin"):
        with tempfile.TemporaryDirectory() as folder, served(Path(folder) / "data", API_KEYS=keys) as server:
            before, headers = _memory(server), {"Authorization": f"Bearer {KEY}"} if keys else {}
            most, replies = _sent(server, headers)
            told = ", ".join(f"{count} x {status}" for status, count in sorted(replies.items()))
            what = f"memory beside {SENDERS} senders {'with a key' if keys else 'without keys'}"
            row(what, f"{most >> 20} MB, {before >> 20} before; {told}", "≤ 1200 MB")
            time.sleep(BACK_S)
            row(f"… {BACK_S:g} s later", _told(server, headers), "as before")
            if _under_way(server, headers):
                deadline = time.monotonic() + ENDED_S
                while _under_way(server, headers) and time.monotonic() < deadline:
                    time.sleep(1)
                time.sleep(BACK_S)
                what = f"… {BACK_S:g} s after all documents ended, which the store keeps"
                row(what, _told(server, headers), "as before, but for the store")


def _told(server: Server, headers: dict[str, str]) -> str:
    """Return the memory of all processes, that of the main one and of the store, and what is under way."""
    parts = [f"{_memory(server) >> 20} MB", f"main {_used(server.family()[:1]) >> 20}"]
    store = [each for each in server.family() if any("edge_server" in word for word in each.cmdline())]
    mapped = sum(file.rss for each in store for file in each.memory_maps() if file.path.startswith("/"))
    parts.append(f"store {_used(store) >> 20}, some of {mapped >> 20} in files that the system can take back")
    return "; ".join([*parts, f"{_under_way(server, headers)} documents under way"])


def _under_way(server: Server, headers: dict[str, str]) -> int:
    with server.client(headers=headers) as client:
        return len(client.get("/rag/documents?status=accepted&limit=100").json()["items"])


def _memory(server: Server) -> int:
    """Return the bytes that the server and its children hold and nobody else does."""
    return _used(server.family())


def _used(processes: list[psutil.Process]) -> int:
    total = 0
    for each in processes:
        with suppress(psutil.NoSuchProcess):  # a parser's life is short
            total += each.memory_full_info().uss
    return total


def _sent(server: Server, headers: dict[str, str]) -> tuple[int, Counter[str]]:
    """Return the most memory that was seen, and how many replies of each status there were."""
    replies: Counter[str] = Counter()
    bodies = itertools.cycle(_bodies())
    next_one, until = threading.Lock(), time.monotonic() + SENDS_S

    def send() -> None:
        with server.client(headers={**headers, "Prefer": "wait=0"}, timeout=300) as client:
            while time.monotonic() < until:
                with next_one:
                    path, body = next(bodies)
                try:
                    reply = client.post(path, content=body.content, headers={"Content-Type": body.media_type})
                    replies[str(reply.status_code)] += 1
                except httpx.HTTPError as error:
                    replies[type(error).__name__] += 1

    senders = [threading.Thread(target=send) for _ in range(SENDERS)]
    for sender in senders:
        sender.start()
    most = 0
    while any(sender.is_alive() for sender in senders):
        most = max(most, _memory(server))
        time.sleep(_PAUSE_S)
    return most, replies


def _bodies() -> Iterator[tuple[str, ShapedBody]]:
    """Yield a few of each kind: all of them are 4.5 GB."""
    kinds = [made(LARGEST) for made in LARGEST_BODIES.values()]
    for number, (path, bodies) in enumerate(kinds):
        yield from ((path, body) for body in bodies[number::9])
    mistakes = b"[" + b",".join([b"{}"] * 50_000) + b"]"
    yield "/rag/ingest/batch", ShapedBody("mistakes", mistakes)
