"""Two releases that take turns on one folder, one of which writes a field more into everything: each reads the other's.

A release dies with work at every stage, so that the other one finds messages of all kinds that it didn't write.
"""

import asyncio
import random
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest

from shared.ids import document_id
from shared.log import Record
from shared.log.sqlite import SqliteLog
from shared.topics import EXTRACTED, SUBMITTED
from tests.e2e.faults import rounds
from tests.e2e.harness import Server
from tests.e2e.load import Content, Load, new_seed
from tests.e2e.oracle import differences
from tests.e2e.text import paragraph
from tests.integration.pipeline import records_of
from tests.mutants.catalogue import Edit, Mutant
from tests.mutants.run import ROOT, mutated

FIELD = b'"addedLater":'
# A default that is made is written; one that stands there wouldn't be.
LATER = "    added_later: tuple[int, ...] = msgspec.field(default_factory=lambda: (1,))"
# All that travels, and the ledger's entry. Not a generation, which a field more makes another one.
CHANGED = {
    "shared/contracts.py": (
        "LogPosition",
        "BlobRef",
        "DocumentSubmitted",
        "DocumentVersion",
        "DocumentExtracted",
        "Chunk",
        "DocumentChunked",
        "StatusNotice",
        "DeadLetter",
    ),
    "shared/state/ledger.py": ("Accepted", "Last", "Entry"),
}


def _with_later(file: str, name: str) -> Edit:
    lines = (ROOT / file).read_text("utf-8").splitlines(keepends=True)
    line = next(line for line in lines if line.startswith(f"class {name}("))
    return Edit(file, line, line.replace("):", ", kw_only=True):") + f"{LATER}\n")


NEWER = Mutant(
    "a field more in every message", tuple(_with_later(file, name) for file, names in CHANGED.items() for name in names)
)
WRITES = 3  # of the load, confirmed by each release before it dies
SOURCE = "turn"
GUARD_S = 120.0  # a hang guard


class Releases(Server):
    """A standalone Sluice that is started as one release or the other."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / "data")
        self._older = self._module
        newer = folder / "newer"
        for name in ("services", "shared"):
            shutil.copytree(ROOT / name, newer / name, ignore=shutil.ignore_patterns("__pycache__"))
        for file, text in mutated(ROOT, NEWER).items():
            (newer / file).write_text(text, "utf-8")
        self._newer = ("tests.faults.newer_server", str(newer))

    def choose(self, *, newer: bool) -> None:
        """Be that release from the next start on."""
        self._module = self._newer if newer else self._older


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_given_a_load_when_releases_take_turns_then_each_reads_what_the_other_wrote(tmp_path: Path) -> None:
    seed = new_seed()
    rng = random.Random(seed)
    turns = 2 * rounds(ci=1)
    server = Releases(tmp_path)
    server.start()
    load = Load(server, documents=12, seed=seed)
    alone: dict[str, Content] = {}
    try:
        load.start(readers=2)
        for turn in range(turns):
            alone |= _until_written(load, server, turn)
            time.sleep(rng.uniform(0.0, 0.5))  # the random moment itself
            server.kill()
            server.choose(newer=turn % 2 == 0)
            server.start()
        alone |= _until_written(load, server, turns)
        load.stop()
        load.settle()
        # One more start: its sweep takes what a kill between switch and delete left behind.
        assert server.stop() == 0
        server.start()
        wrong = asyncio.run(differences(server.data / "store", load.expected | alone))
        with server.client() as client:
            letters = client.get("/ops/dead-letters").json()["items"]
    finally:
        load.stop()
        server.stop()
    written = Counter((record.topic, FIELD in record.value) for record in _log(server) if record.value is not None)

    print(f"{turns} turns, {load.writes} confirmed writes, {load.reads} reads; {dict(written)}")
    assert load.faults == []
    assert wrong == []
    assert letters == []
    assert set(written) == {(topic, newer) for topic in (SUBMITTED, EXTRACTED) for newer in (False, True)}


def _until_written(load: Load, server: Server, turn: int) -> dict[str, Content]:
    """Return, by id, a document that this release took and made, beside some of the load's."""
    before, deadline = load.writes, time.monotonic() + GUARD_S
    path, content = f"{turn}.md", (paragraph(9_000 + turn, 0, 0, of=1),)
    body = {"source": SOURCE, "path": path, "text": content[0]}
    with server.client(timeout=GUARD_S) as client:
        while (reply := client.post("/rag/ingest", json=body, headers={"Prefer": "wait=30"})).status_code != 200:
            assert reply.status_code in (202, 503), reply.text
            assert time.monotonic() < deadline, reply.text
    while load.writes < before + WRITES:
        assert time.monotonic() < deadline, f"{load.writes - before} writes in {GUARD_S:g} s: {server.tail()}"
        time.sleep(0.05)  # threads: there is nothing to await
    return {document_id("default", SOURCE, path): content}


def _log(server: Server) -> list[Record]:
    async def read() -> list[Record]:
        log = SqliteLog(server.data / "log.sqlite")
        await log.start()
        try:
            return [*await records_of(log, SUBMITTED), *await records_of(log, EXTRACTED)]
        finally:
            await log.stop()

    return asyncio.run(read())
