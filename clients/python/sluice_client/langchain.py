"""LangChain's retriever on Sluice. Install it with `sluice-client[langchain]`."""

from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import ConfigDict, Field

from sluice_client.client import AsyncSluice, Sluice
from sluice_client.types import Hit


class SluiceRetriever(BaseRetriever):
    """Returns passages as LangChain's documents, with the score as `metadata["score"]`.

    `aclient` serves the async calls; without it they run the other one in a thread.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    client: Sluice
    aclient: AsyncSluice | None = None
    k: int = 5
    filters: dict[str, Any] = Field(default_factory=dict)
    options: dict[str, Any] = Field(default_factory=dict)  # others of `/rag/search`, such as minScore

    def _get_relevant_documents(
        self,
        query: str,
        *,
        run_manager: CallbackManagerForRetrieverRun,  # noqa: ARG002 - the base class passes it
    ) -> list[Document]:
        hits = self.client.search(query, top_k=self.k, filters=self.filters, **self.options)
        return [_document(hit) for hit in hits]

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun
    ) -> list[Document]:
        if self.aclient is None:
            return await super()._aget_relevant_documents(query, run_manager=run_manager)
        hits = await self.aclient.search(query, top_k=self.k, filters=self.filters, **self.options)
        return [_document(hit) for hit in hits]


def _document(hit: Hit) -> Document:
    return Document(
        id=str(hit.metadata["chunkId"]), page_content=hit.text, metadata={**hit.metadata, "score": hit.score}
    )
