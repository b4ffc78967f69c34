"""A server with an embedder and a cross-encoder that somebody exported into folders."""

from pathlib import Path

from tests.e2e.harness import everything_ended, served
from tests.tiny_models import cls_model, cross_encoder

TEXTS = ("The lantern is lit at six.", "Many herons nest so on a quarter point.")


def test_models_of_folders_embed_and_order(tmp_path: Path) -> None:
    models = {
        "EMBEDDER": f"onnx:{cls_model(tmp_path / 'pieces')}",
        "RERANK": f"onnx:{cross_encoder(tmp_path / 'cross')}",
        "RERANK_TIMEOUT": "60",
    }
    with served(tmp_path / "data", **models) as server, server.client() as client:
        for text in TEXTS:
            client.post("/rag/ingest/text", json={"text": text}).raise_for_status()
        everything_ended(server)

        asked = {"query": "when is the lantern lit", "mode": "dense", "explain": True}
        found = client.post("/rag/search", json=asked).json()

    first, second = found["results"]
    assert "warnings" not in found
    assert first["text"] == TEXTS[0]
    assert first["explain"]["reranked"] > second["explain"]["reranked"]
    assert first["explain"]["cosine"] > second["explain"]["cosine"]
