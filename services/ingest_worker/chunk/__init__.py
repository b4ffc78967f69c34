"""Cuts text into passages that suit retrieval and that stay the same when another part of the document is edited."""

from services.ingest_worker.chunk.pack import CHUNKER, chunks, context_before
from services.ingest_worker.chunk.version import from_prepared, version_chunks

__all__ = [
    "CHUNKER",
    "chunks",
    "context_before",
    "from_prepared",
    "version_chunks",
]
