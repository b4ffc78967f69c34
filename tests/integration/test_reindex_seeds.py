"""A model that dies once its generation serves, among documents that failed, wait and arrive; then back, and gc.

Each round draws its own order. Every submission ends, nothing that never was indexed blocks the switch, and the index
that serves in the end is what the log says.
"""

import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from shared.contracts import DocumentSubmitted, LogPosition, OnConflict
from shared.embedder import refusals
from shared.state import generation_statuses
from tests.contract.logs import HANG_S
from tests.e2e.faults import rounds
from tests.integration.pipeline import running
from tests.integration.reindex_rig import Rig
from tests.selection import LONG_RUN_ONLY
from tests.servers.fake_ollama import EMBEDDING_MODEL, FakeOllama, fake_ollama

pytestmark = [pytest.mark.timeout(3600), pytest.mark.asyncio(loop_scope="session")]

PATHS = ("a", "b", "c", "d")
POISON = "hemlock"  # no model embeds it; in one document alone, because of many the server is said to be at fault
ASKED: tuple[OnConflict, ...] = ("error", "new")
ROUNDS = rounds(ci=50)
AT_ONCE = 10


@pytest_asyncio.fixture(loop_scope="session")
async def models() -> AsyncIterator[tuple[FakeOllama, FakeOllama]]:
    async with fake_ollama() as first, fake_ollama() as second:
        second.weights = "second"
        for model in (first, second):
            model.poison = POISON
        yield first, second


def named(model: FakeOllama) -> str:
    return f"ollama://{model.host}/{EMBEDDING_MODEL}"


class History:
    """What one round sends, by chance."""

    def __init__(self, rig: Rig, seed: int) -> None:
        self._rig = rig
        self._rng = random.Random(seed)
        self._seed = seed
        self.sent: list[tuple[str, LogPosition]] = []

    async def send(self, most: int, *, may_wait: bool = False) -> None:
        """Send up to so many documents; with `may_wait`, the last one may have ended."""
        for _ in range(self._rng.randrange(1, most + 1)):
            self.sent.append(await self._rig.pipeline.put(self._document()))
        if may_wait and self._rng.random() < 0.5:
            await self._rig.pipeline.end(*self.sent[-1], HANG_S)

    def _document(self) -> DocumentSubmitted:
        path, words = self._rng.choice(PATHS), f"Parcel {self._rng.randrange(5)} of round {self._seed}."
        match self._rng.randrange(11):
            case 0:
                return DocumentSubmitted(source="s", path=path, deleted=True)
            case 1:
                return DocumentSubmitted(source="s", path=f"{path}.pdf", content=b"%PDF-1.7 torn", filename="torn.pdf")
            case 2 | 3:
                return DocumentSubmitted(source="s", path=POISON, text=f"{POISON} is in it.")
            case 4:
                return DocumentSubmitted(source="s", path=POISON, text=words)
            case 5 | 6:
                return DocumentSubmitted(source="s", path=path, text=words, on_conflict=self._rng.choice(ASKED))
            case _:
                return DocumentSubmitted(source="s", path=path, text=words)


@LONG_RUN_ONLY
@pytest.mark.parametrize("begin", range(0, ROUNDS, AT_ONCE))
async def test_whatever_is_sent_around_a_switch_whose_model_dies_ends_and_the_index_is_right(
    tmp_path: Path, models: tuple[FakeOllama, FakeOllama], monkeypatch: pytest.MonkeyPatch, begin: int
) -> None:
    monkeypatch.setattr(generation_statuses, "PATIENCE_S", 0.2)  # the dead model's generation never has it
    monkeypatch.setattr(refusals, "REST_S", 0.1)  # between tries of the text that no model embeds
    first, second = models
    async with running(tmp_path, embedder=named(first)) as pipeline:
        rig = Rig(pipeline)
        serving = (await rig.status())["serving"]
        for seed in range(begin, min(begin + AT_ONCE, ROUNDS)):
            history = History(rig, seed)
            second.fault = None
            await history.send(6, may_wait=True)
            await rig.post("/ops/generations/start", {"embedder": named(second)})
            await history.send(3, may_wait=True)
            built = (await rig.until_ready())["id"]
            await history.send(3, may_wait=True)
            await rig.post("/ops/generations/switch", {})
            await rig.until_state(built, "serving")
            await history.send(2)
            second.fault = "503"
            await history.send(4)
            await rig.post("/ops/generations/rollback", {})
            await rig.until_state(serving, "serving")
            await history.send(2)
            await rig.post("/ops/generations/gc", {})

            for name, place in history.sent:
                await pipeline.end(name, place, HANG_S)
            assert await rig.states() == ["serving"]
            assert await rig.verified() == "right", seed
