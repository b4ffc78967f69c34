"""A store that hangs: the log has what was sent, so the sender gets its answer in time."""

from pathlib import Path

import pytest

from tests.e2e.harness import served

pytestmark = pytest.mark.slow

GUARD_S = 15.0  # a hang guard: five times what the reply takes; the store's own patience is 60 s


def test_given_a_store_that_hangs_when_a_document_is_sent_then_the_reply_keeps_to_its_wait(tmp_path: Path) -> None:
    written = {"source": "s", "path": "a.md", "text": "It opens at noon."}
    with served(tmp_path / "data") as server, server.client() as client:
        [store] = [each for each in server.family() if "shared.store.edge_server" in each.cmdline()]
        store.suspend()
        sent = client.post("/rag/ingest", json=written, headers={"Prefer": "wait=1"}, timeout=GUARD_S)
        store.resume()
        ended = client.post("/rag/ingest", json=written, headers={"Prefer": "wait=60"})

    assert (sent.status_code, sent.json()["status"]) == (202, "accepted")
    assert ended.json()["status"] in {"created", "unchanged"}
