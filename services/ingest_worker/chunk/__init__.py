"""Chunking: passages that suit retrieval and stay the same when the document is edited elsewhere."""

from services.ingest_worker.chunk.pack import CHUNKER, chunks, context_before
from services.ingest_worker.chunk.version import ready_made, ready_text, version_chunks

__all__ = [
    "CHUNKER",
    "chunks",
    "context_before",
    "ready_made",
    "ready_text",
    "version_chunks",
]
