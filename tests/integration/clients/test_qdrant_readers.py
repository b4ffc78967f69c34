"""Programs that read the collection themselves (n8n, LangChain, Open WebUI) find their way in its points."""

import numpy as np
from qdrant_client import QdrantClient, models

from services.embed_worker.points import chunk_points
from shared.store import Sparse
from shared.store.qdrant.translate import server_point
from tests.builders import a_version, chunks_of


def test_a_point_has_an_unnamed_vector_a_text_and_metadata() -> None:
    chunks = chunks_of("The lantern is lit at six.", "Herons nest in the willow.")
    document = a_version(title="Lantern", tags=("light",), metadata={"year": 1900})
    vectors = [np.array([1, 0], np.float32), np.array([0, 1], np.float32)]
    points = chunk_points(document, chunks, slice(0, 2), vectors, [Sparse([1], [1.0])] * 2)
    reader = QdrantClient(":memory:")  # Qdrant's own client, in whose words those programs ask
    reader.create_collection(
        "chunks",
        vectors_config=models.VectorParams(size=2, distance=models.Distance.COSINE),
        sparse_vectors_config={"bm25": models.SparseVectorParams(modifier=models.Modifier.IDF)},
    )
    reader.upsert("chunks", [server_point(point) for point in points])
    light = models.FieldCondition(key="metadata.tags", match=models.MatchValue(value="light"))

    [hit] = reader.query_points("chunks", query=[1.0, 0.1], limit=1, query_filter=models.Filter(must=[light])).points

    payload = hit.payload or {}
    assert payload.keys() == {"text", "metadata"}
    assert payload["text"] == "The lantern is lit at six."
    assert payload["metadata"].items() >= {"title": "Lantern", "year": 1900, "source": "s", "path": "p"}.items()
    reader.close()
