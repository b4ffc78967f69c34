"""LlamaIndex: its ingestion pipeline with a document store, and Chroma as the vector store."""

from collections.abc import Callable
from pathlib import Path

import chromadb
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.ingestion import DocstoreStrategy, IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.storage.docstore import SimpleDocumentStore
from llama_index.vector_stores.chroma import ChromaVectorStore

from tests.bench.peers.minilm import MINILM


class MiniLM(BaseEmbedding):
    def _get_text_embedding(self, text: str) -> list[float]:
        return MINILM.embed([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        return MINILM.embed(texts)

    def _get_query_embedding(self, query: str) -> list[float]:
        return MINILM.query(query)

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return MINILM.query(query)


def opened(data: Path) -> ChromaVectorStore:
    return ChromaVectorStore(chromadb.PersistentClient(str(data / "chroma")).get_or_create_collection("docs"))


def load(folder: Path, data: Path) -> None:
    pipeline = IngestionPipeline(
        transformations=[
            SentenceSplitter(chunk_size=600, chunk_overlap=0, tokenizer=list, paragraph_separator="\n\n"),
            MiniLM(),
        ],
        vector_store=opened(data),
        docstore=SimpleDocumentStore(),
        docstore_strategy=DocstoreStrategy.UPSERTS_AND_DELETE,
    )
    if (data / "pipeline").exists():
        pipeline.load(str(data / "pipeline"))
    pipeline.run(documents=[Document(text=path.read_text(), id_=path.name) for path in sorted(folder.glob("*.md"))])
    pipeline.persist(str(data / "pipeline"))


def searching(data: Path) -> Callable[[str], list[str]]:
    retriever = VectorStoreIndex.from_vector_store(opened(data), embed_model=MiniLM()).as_retriever(similarity_top_k=5)
    return lambda query: [hit.text for hit in retriever.retrieve(query)]


def stored(data: Path) -> list[str]:
    return opened(data).client.get()["documents"]
