from pathlib import Path

import pytest

from shared.settings import ConfigurationError, Settings, load_settings
from shared.store.edge import EdgeStore
from shared.store.open import open_store
from shared.store.qdrant.store import QdrantStore
from tests.servers.fake_qdrant import FakeQdrant
from tests.servers.loopback import running


@pytest.mark.feature(119, 132)
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


@pytest.mark.feature(124)
async def test_key_and_prefix_reach_the_server() -> None:
    async with running(FakeQdrant()) as server:
        server.key = "a-key-of-tests"
        settings = load_settings(store=f"qdrant+{server.url}", qdrant_api_key=server.key, qdrant_prefix="mine.")
        store = open_store(settings)
        await store.start()
        await store.count("heads")
        await store.close()

    assert server.requests[-1][0].startswith("/collections/mine.heads/points/count")


@pytest.mark.parametrize("prefix", ["a/b", "a b", "ü", "x" * 65, "a\n"])
def test_a_prefix_that_names_no_collection_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigurationError, match=r"^SLUICE_QDRANT_PREFIX="):
        load_settings(qdrant_prefix=prefix)
