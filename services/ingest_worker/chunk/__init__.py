"""Cuts text into passages that suit retrieval and that stay the same when another part of the document is edited."""

from services.ingest_worker.chunk.chunker import from_prepared, version_chunks
from services.ingest_worker.chunk.pack import CHUNKER, chunks, context_before

__all__ = [
    "CHUNKER",
    "chunks",
    "context_before",
    "from_prepared",
    "version_chunks",
]
