"""Chunking: passages good for retrieval that survive edits elsewhere in the document."""

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
