"""A disk that fills up under load: the door says so, nothing is lost, and with new room all goes on by itself."""

import asyncio
import random
import re
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from shared.ids import document_id
from tests.e2e.faults import rounds
from tests.e2e.load import Content, Load, new_seed
from tests.e2e.oracle import differences
from tests.e2e.text import paragraph
from tests.faults.disk import Disk, ballast, file_sizes, mounts

SOURCE = "disk"
LEFT = 1 << 20  # bytes at most, for the load to fill
GUARD_S = 120.0  # a hang guard
LARGE = 100  # equal paragraphs: below the claim check's size, and one text to embed
LONGEST_S = 12.0  # beyond the store's own flush


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_given_a_load_when_the_disk_is_full_then_the_door_refuses_and_with_room_all_goes_on(tmp_path: Path) -> None:
    seed = new_seed()
    rng = random.Random(seed)
    kind = ballast if rng.random() < 0.5 and mounts(tmp_path) else file_sizes
    with kind(tmp_path) as disk:
        load = Load(disk.server, documents=12, seed=seed)
        taken: dict[str, Content] = {}
        ends: dict[str, set[str]] = {}
        try:
            load.start(readers=2, rest_s=0.05)
            for number in range(rounds(ci=1)):
                disk.fill(rng.randrange(LEFT))
                documents, refused = _until_refused(disk, number)
                time.sleep(rng.uniform(1.0, LONGEST_S))  # full for so long
                writes = load.writes
                disk.free()
                freed = time.monotonic()
                _until(lambda: load.writes > writes, disk)  # noqa: B023 - called in the same turn
                print(f"{kind.__name__}: first write confirmed {time.monotonic() - freed:.1f} s after")
                # It is sent again, as the refusal says: the change may have been made, and only its audit entry lacks.
                _until(lambda: _sent(disk, refused) == 202, disk)  # noqa: B023
                taken |= documents
                *_, sent_twice = documents
                ends[sent_twice] = {"created", "unchanged"}
            load.stop()
            load.settle()
            for name in taken:
                _until(lambda: _status(disk, name) in ends.get(name, {"created"}), disk)  # noqa: B023
            # One more start: its sweep takes what a store that died between switch and delete has left.
            assert disk.server.stop() == 0
            disk.server.start()
            wrong = asyncio.run(differences(disk.server.data / "store", load.expected | taken))
            letters = _letters(disk)
        finally:
            load.stop()

    print(f"{load.writes} confirmed writes, {load.reads} reads, {load.refusals} searches refused")
    assert load.faults == []
    assert wrong == []
    assert letters == []


def _until_refused(disk: Disk, number: int) -> tuple[dict[str, Content], dict[str, str]]:
    """Return documents by id, in order, and the body of the last one, which the door refused: the disk is full."""
    documents: dict[str, Content] = {}
    deadline = time.monotonic() + GUARD_S
    with disk.server.client() as client:
        while True:
            assert time.monotonic() < deadline, f"{len(documents)} documents were taken: {disk.server.tail()}"
            path = f"{number}-{len(documents)}.md"
            content = (paragraph(number, 0, len(documents), of=0),) * LARGE
            body = {"source": SOURCE, "path": path, "text": "\n\n".join(content)}
            documents[document_id("default", SOURCE, path)] = content
            reply = client.post("/rag/ingest", json=body, headers={"Prefer": "wait=0"})
            if reply.status_code == 503:
                break
            assert reply.status_code == 202, reply.text
    assert "the log log.sqlite can't be used now" in reply.json()["detail"]
    # Of the request, where only the audit trail lacks the change.
    assert re.search(r"sending the (document|request) again is safe", reply.json()["detail"])
    assert float(reply.headers["retry-after"]) > 0
    return documents, body


def _sent(disk: Disk, body: dict[str, str]) -> int:
    with disk.server.client() as client:
        return client.post("/rag/ingest", json=body, headers={"Prefer": "wait=0"}).status_code


def _status(disk: Disk, name: str) -> str:
    with disk.server.client() as client:
        reply = client.get(f"/rag/documents/{name}")
    return str(reply.json().get("status", reply.status_code))


def _letters(disk: Disk) -> list[object]:
    with disk.server.client() as client:
        items: list[object] = client.get("/ops/dead-letters").json()["items"]
    return items


def _until(happened: Callable[[], bool], disk: Disk) -> None:
    deadline = time.monotonic() + GUARD_S
    while not happened():
        assert time.monotonic() < deadline, f"it didn't go on in {GUARD_S:.0f} s: {disk.server.tail()}"
        time.sleep(0.05)  # another process: there is nothing to await
