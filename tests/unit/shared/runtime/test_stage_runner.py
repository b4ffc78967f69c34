"""What readiness tells of a generation whose stages can't begin."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from shared.embedder.open import EmbedderPool
from shared.log.sqlite import SqliteLog
from shared.runtime.stage_runner import GenerationStages
from shared.state.generation_watch import GenerationWatch
from shared.state.generations import first_registry
from shared.state.ledger import Ledger
from shared.state.rebuild_gate import Gate
from tests.contract.logs import until
from tests.fakes.state import GENERATION
from tests.fakes.store import MemoryStore


@pytest.mark.parametrize("address", ["memory:nobody-has-it", None])  # a wrong one, and a bug
async def test_stages_that_cannot_begin_are_told_whatever_the_reason(tmp_path: Path, address: Any) -> None:
    store = MemoryStore()
    watch = GenerationWatch(store, "test")
    stages = GenerationStages(
        log=SqliteLog(tmp_path / "log.sqlite"),
        store=store,
        ledger=Ledger(store),
        gate=Gate(),
        embedders=EmbedderPool(SecretStr("")),
        watch=watch,
        topics=lambda _: (),
        join=None,
    )
    registry = first_registry(GENERATION, address)
    watch.registry = registry

    async def join(*_: Any) -> Any: ...

    await stages.follow(registry, join=join)
    (name,) = [f"generation {each.id}" for each in registry.fed]

    await until(lambda: "its stages wait: " in str(stages.troubles().get(name)))
    await stages.stop()
