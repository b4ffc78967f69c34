"""Chroma alone: chunks are numbered, what the folder lacks is deleted, and everything is embedded each time."""

from collections.abc import Callable
from pathlib import Path

import chromadb
from chromadb import Documents, EmbeddingFunction, Embeddings

from tests.bench.peers.minilm import MINILM


class MiniLM(EmbeddingFunction[Documents]):
    def __init__(self) -> None:
        pass

    def __call__(self, input: Documents) -> Embeddings:  # noqa: A002  # its name in their protocol
        return MINILM.embed(input)


def opened(data: Path) -> chromadb.Collection:
    return chromadb.PersistentClient(str(data)).get_or_create_collection("docs", embedding_function=MiniLM())


def load(folder: Path, data: Path) -> None:
    collection = opened(data)
    known = set(collection.get(include=[])["ids"])
    for path in sorted(folder.glob("*.md")):
        chunks = path.read_text().strip().split("\n\n")
        ids = [f"{path.name}#{number}" for number in range(len(chunks))]
        collection.upsert(ids=ids, documents=chunks, metadatas=[{"path": path.name}] * len(chunks))
        known -= set(ids)
    if known:
        collection.delete(ids=list(known))


def searching(data: Path) -> Callable[[str], list[str]]:
    collection = opened(data)
    return lambda query: collection.query(query_texts=[query], n_results=5)["documents"][0]


def stored(data: Path) -> list[str]:
    return opened(data).get()["documents"]
