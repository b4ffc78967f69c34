"""A client for Sluice: `Sluice` blocks, `AsyncSluice` awaits; both have the same methods."""

from sluice_client.client import AsyncSluice, Sluice
from sluice_client.errors import SluiceError, SluiceUnreachableError
from sluice_client.types import (
    Answer,
    Chunk,
    Citation,
    Document,
    Hit,
    NewDocument,
    Outcome,
    Replaced,
    SkippedChunk,
    StageTime,
)

__all__ = [
    "Answer",
    "AsyncSluice",
    "Chunk",
    "Citation",
    "Document",
    "Hit",
    "NewDocument",
    "Outcome",
    "Replaced",
    "SkippedChunk",
    "Sluice",
    "SluiceError",
    "SluiceUnreachableError",
    "StageTime",
]
