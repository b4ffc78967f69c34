from pathlib import Path

import pytest

from shared.settings import ConfigurationError, Settings
from shared.store.edge import EdgeStore
from shared.store.open import open_store
from shared.store.qdrant.store import QdrantStore


async def test_a_setting_means_a_store(tmp_path: Path) -> None:
    assert isinstance(open_store(Settings(data=tmp_path, store="edge:")), EdgeStore)
    for setting in ("qdrant+http://127.0.0.1:6333", "qdrant+https://qdrant.example:6333"):
        server = open_store(Settings(data=tmp_path, store=setting))
        assert isinstance(server, QdrantStore)
        await server.close()


@pytest.mark.parametrize(
    "setting", ["", "edge", "edge:x", "qdrant:", "qdrant+http://", "http://host:6333", "redis://x"]
)
def test_another_setting_is_refused_with_its_value(setting: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"^SLUICE_STORE=") as caught:
        open_store(Settings(data=tmp_path, store=setting))
    assert setting in str(caught.value)
