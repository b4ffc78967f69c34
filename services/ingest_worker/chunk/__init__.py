"""Chunking: passages good for retrieval that survive edits elsewhere in the document."""

from services.ingest_worker.chunk.pack import CHUNKER, checked_sizes, chunks, context_before

__all__ = ["CHUNKER", "checked_sizes", "chunks", "context_before"]
