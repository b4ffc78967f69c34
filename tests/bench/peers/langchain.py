"""LangChain: its indexing API with a record manager in SQLite and Chroma as the store."""

from collections.abc import Callable
from pathlib import Path

from langchain_chroma import Chroma
from langchain_classic.indexes import SQLRecordManager, index
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_text_splitters import RecursiveCharacterTextSplitter

from tests.bench.peers.minilm import MINILM


class MiniLM(Embeddings):
    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return MINILM.embed(texts)

    def embed_query(self, text: str) -> list[float]:
        return MINILM.query(text)


def opened(data: Path) -> Chroma:
    return Chroma("docs", embedding_function=MiniLM(), persist_directory=str(data / "chroma"))


def load(folder: Path, data: Path) -> None:
    data.mkdir(exist_ok=True)
    records = SQLRecordManager("chroma/docs", db_url=f"sqlite:///{data}/records.sql")
    records.create_schema()
    splitter = RecursiveCharacterTextSplitter(chunk_size=600, chunk_overlap=0)
    pages = [Document(path.read_text(), metadata={"source": path.name}) for path in sorted(folder.glob("*.md"))]
    index(
        splitter.split_documents(pages),
        records,
        opened(data),
        cleanup="full",
        source_id_key="source",
        key_encoder="blake2b",
    )


def searching(data: Path) -> Callable[[str], list[str]]:
    store = opened(data)
    return lambda query: [hit.page_content for hit in store.similarity_search(query, k=5)]


def stored(data: Path) -> list[str]:
    return opened(data).get()["documents"]
