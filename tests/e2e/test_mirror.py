"""A mirror that is fed by `/rag/changes` alone, while the server is killed under load, equals the index."""

import random
import threading
import time
from pathlib import Path

import httpx
import pytest

from tests.e2e.caller import API_KEYS, TENANTS, key_of
from tests.e2e.faults import rounds, under_load
from tests.e2e.harness import Server
from tests.e2e.load import new_seed

KILLS = rounds(ci=3)
GUARD_S = 60.0  # a hang guard
RETRY_S = 0.05


class Mirror:
    """The texts of a tenant's documents, kept by following its changes."""

    def __init__(self, server: Server, tenant: str) -> None:
        self.texts: dict[str, str] = {}
        self.changes = 0
        self._server, self._key = server, key_of(tenant)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._cursor = self.get("/rag/changes").json()["cursor"]
        self._thread.start()

    def get(self, path: str, **params: str) -> httpx.Response:
        """Return the answer, however often the server must be asked."""
        while True:
            try:
                with self._server.client(headers=self._key, timeout=30) as client:
                    reply = client.get(path, params=params)
            except httpx.HTTPError:
                time.sleep(RETRY_S)  # it was killed, and comes back
                continue
            if reply.status_code < 500:
                return reply
            time.sleep(RETRY_S)

    def text(self, id_: str) -> str | None:
        """Return the document's text; None where nothing answers."""
        reply = self.get(f"/rag/documents/{id_}/text")
        assert reply.status_code in (200, 404), reply.text
        return reply.text if reply.status_code == 200 else None

    def caught_up(self) -> dict[str, str]:
        """Return the texts once no change is left."""
        deadline = time.monotonic() + GUARD_S
        while self.get("/rag/changes", cursor=self._cursor).json()["items"]:
            assert time.monotonic() < deadline, f"the mirror is still {self.changes} changes on"
            time.sleep(RETRY_S)
        self._stop.set()
        self._thread.join(GUARD_S)
        return self.texts

    def _follow(self) -> None:
        while not self._stop.is_set():
            reply = self.get("/rag/changes", cursor=self._cursor, wait="1")
            assert reply.status_code == 200, reply.text
            page = reply.json()
            for id_ in {each["documentId"] for each in page["items"]}:
                text = self.text(id_)
                if text is None:
                    self.texts.pop(id_, None)
                else:
                    self.texts[id_] = text
            self.changes += len(page["items"])
            self._cursor = page["cursor"]  # last: what a kill interrupts is done again


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_given_kills_when_a_mirror_follows_the_changes_then_it_equals_the_index(tmp_path: Path) -> None:
    seed = new_seed()
    rng = random.Random(seed)
    server = Server(tmp_path / "data", API_KEYS=API_KEYS).start()
    try:
        mirrors = {tenant: Mirror(server, tenant) for tenant in TENANTS}
        with under_load(server, seed) as load:
            for _ in range(KILLS):
                time.sleep(rng.uniform(0.3, 1.5))  # the random moment itself
                server.kill(everything=rng.random() < 0.5)
                server.start()
        load.settle()
        found = {tenant: mirror.caught_up() for tenant, mirror in mirrors.items()}
        held = {}
        for tenant, mirror in mirrors.items():
            listed = mirror.get("/rag/documents", limit="1000").json()["items"]
            texts = {each["documentId"]: mirror.text(each["documentId"]) for each in listed}
            held[tenant] = {id_: text for id_, text in texts.items() if text is not None}
    finally:
        server.kill()

    assert found == held
    assert all(mirror.changes for mirror in mirrors.values())
