"""Haystack: splitter, cache checker by document id, embedder and writer in turn, and Chroma as the store."""

from collections.abc import Callable
from pathlib import Path

from haystack import Document, component
from haystack.components.caching import CacheChecker
from haystack.components.preprocessors import RecursiveDocumentSplitter
from haystack.components.writers import DocumentWriter
from haystack.document_stores.types import DuplicatePolicy
from haystack_integrations.components.retrievers.chroma import ChromaEmbeddingRetriever
from haystack_integrations.document_stores.chroma import ChromaDocumentStore

from tests.bench.peers.minilm import MINILM


@component
class MiniLM:
    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        for document, vector in zip(documents, MINILM.embed([each.content for each in documents]), strict=True):
            document.embedding = vector
        return {"documents": documents}


def opened(data: Path) -> ChromaDocumentStore:
    return ChromaDocumentStore("docs", persist_path=str(data), embedding_function="default")


def load(folder: Path, data: Path) -> None:
    store = opened(data)
    pages = [Document(content=path.read_text(), meta={"path": path.name}) for path in sorted(folder.glob("*.md"))]
    splitter = RecursiveDocumentSplitter(split_length=600, split_overlap=0, split_unit="char", separators=["\n\n"])
    chunks = {each.id: each for each in splitter.run(pages)["documents"]}
    known = [each.id for each in store.filter_documents()]
    new = CacheChecker(store, "id").run(list(chunks))["misses"]
    DocumentWriter(store, DuplicatePolicy.SKIP).run(MiniLM().run([chunks[each] for each in new])["documents"])
    if gone := [each for each in known if each not in chunks]:
        store.delete_documents(gone)


def searching(data: Path) -> Callable[[str], list[str]]:
    retriever = ChromaEmbeddingRetriever(opened(data), top_k=5)
    return lambda query: [hit.content for hit in retriever.run(MINILM.query(query))["documents"]]


def stored(data: Path) -> list[str]:
    return [each.content for each in opened(data).filter_documents()]
