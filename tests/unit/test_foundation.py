"""What a worker's readiness says of the parts that it stands on."""

from pathlib import Path

from shared.embedder.ollama import ollama_embedder
from shared.foundation import embedder_troubles, log_troubles
from shared.log.sqlite import SqliteLog
from shared.ollama_server import OllamaAddress
from tests.servers.fake_ollama import EMBEDDING_MODEL, fake_ollama


async def test_a_log_is_named_when_it_is_silent(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log")
    broker = log.broker("probed")
    await log.start()
    await broker.start()

    well = await log_troubles(broker)
    await broker.stop()
    await log.stop()
    ill = await log_troubles(broker)

    assert well == {"log": None}
    assert ill == {"log": "the log gave no answer in 2 s"}


async def test_a_model_is_named_when_its_server_is_gone() -> None:
    async with fake_ollama() as server:
        embedder = ollama_embedder(OllamaAddress(server.url, EMBEDDING_MODEL))
        await embedder.start()
        well = await embedder_troubles(embedder)
    ill = await embedder_troubles(embedder)
    await embedder.close()

    assert well == {"embedder": None}
    assert f"Ollama at {server.url} can't be reached" in (ill["embedder"] or "")
