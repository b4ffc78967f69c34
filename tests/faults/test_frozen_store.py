"""A store that hangs: the log has what was sent, and whoever asks is told so, both in time."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.e2e.harness import served
from tests.selection import CI_ONLY

pytestmark = [CI_ONLY, pytest.mark.slow]

GUARD_S = 30.0  # a hang guard: five times what a reply takes; the store's own patience is 60 s
READS = "/rag/documents", "/rag/stats", "/rag/documents/8f9f8a3e-0f7e-5a0e-9d7e-1f2e3d4c5b6a", "/v1/vector_stores"


def test_given_a_store_that_hangs_when_it_is_needed_then_every_reply_keeps_to_its_time(tmp_path: Path) -> None:
    written = {"source": "s", "path": "a.md", "text": "It opens at noon."}
    with served(tmp_path / "data") as server, server.client(timeout=GUARD_S) as client:
        [store] = [each for each in server.family() if "shared.store.edge_server" in each.cmdline()]
        store.suspend()
        with ThreadPoolExecutor(len(READS)) as threads:
            asking = threads.map(client.get, READS)
            sent = client.post("/rag/ingest", json=written, headers={"Prefer": "wait=1"})
            asked = [*asking]
        store.resume()
        ended = client.post("/rag/ingest", json=written, headers={"Prefer": "wait=60"}, timeout=60)

    assert [(each.status_code, "gave no answer" in each.text) for each in asked] == [(503, True)] * len(READS)
    assert (sent.status_code, sent.json()["status"]) == (202, "accepted")
    assert ended.json()["status"] in {"created", "unchanged"}
