"""Memory beside a backlog: a worker takes large bodies in as it has room for them, however many wait."""

import io
import os
import time
from pathlib import Path

import pytest
from pypdf import PdfReader, PdfWriter

from tests.e2e.cluster import Cluster, Process, cluster
from tests.unit.services.ingest_worker.files import a_pdf

FILES, FILE_BYTES = 64, 8_000_000  # eight times what has room
GUARD_S = 120.0


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_given_a_backlog_of_large_files_when_a_worker_comes_then_it_takes_in_a_few_at_a_time(tmp_path: Path) -> None:
    file = large_and_quickly_read()
    with cluster(tmp_path, ("store", "query-api", "ingest-worker")) as running:
        worker = running.processes["ingest-worker-1"]
        submit(running, file, "first")
        one = peak(worker, files=1)
        worker.kill()
        for number in range(FILES):
            submit(running, file, f"{number}")
        worker.launch()
        running.wait(worker.name)
        many = peak(worker, files=FILES)
    print(f"{one / 1e6:.0f} MB with one file of {FILE_BYTES / 1e6:g} MB, {many / 1e6:.0f} MB with {FILES} of them")

    # Besides those that have room: a second parser, what both read, and what the allocator keeps.
    assert many - one < FILES * FILE_BYTES


def large_and_quickly_read() -> bytes:
    """Return a PDF of one short page, and much that no reader of text looks at."""
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(a_pdf("A lantern on the pier."))))
    writer.add_attachment("noise", os.urandom(FILE_BYTES))
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def submit(running: Cluster, file: bytes, name: str) -> None:
    with running.client() as client:
        reply = client.post("/rag/ingest/upload", files={"file": (f"{name}.pdf", file)}, headers={"Prefer": "wait=0"})
    assert reply.status_code == 202, reply.text


def peak(worker: Process, files: int) -> int:
    """Return the most bytes the worker was seen to hold until it has extracted and chunked so many."""
    most, deadline = 0, time.monotonic() + GUARD_S
    while (done := worker.metric("sluice_records_handled_total")) < 2 * files:
        assert time.monotonic() < deadline, f"{done:g} of {2 * files} records in {GUARD_S:g} s: {worker.tail()}"
        most = max(most, worker.memory())
        time.sleep(0.02)  # another process: there is nothing to await
    return most
