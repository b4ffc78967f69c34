"""LlamaIndex's retriever on Sluice. Install it with `sluice-client[llama-index]`."""

import asyncio
from collections.abc import Mapping
from typing import Any

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode

from sluice_client.client import AsyncSluice, Sluice
from sluice_client.types import Hit


class SluiceRetriever(BaseRetriever):
    """Returns passages as LlamaIndex's nodes with their scores.

    `aclient` serves the async calls; without it they run the other one in a thread.
    """

    def __init__(
        self,
        client: Sluice,
        *,
        aclient: AsyncSluice | None = None,
        similarity_top_k: int = 5,
        filters: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self._client = client
        self._aclient = aclient
        self._top_k = similarity_top_k
        self._filters = dict(filters or {})
        self._options = dict(options or {})  # others of `/rag/search`, such as minScore
        super().__init__(**kwargs)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        hits = self._client.search(query_bundle.query_str, top_k=self._top_k, filters=self._filters, **self._options)
        return [_node(hit) for hit in hits]

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        if self._aclient is None:
            return await asyncio.to_thread(self._retrieve, query_bundle)
        hits = await self._aclient.search(
            query_bundle.query_str, top_k=self._top_k, filters=self._filters, **self._options
        )
        return [_node(hit) for hit in hits]


def _node(hit: Hit) -> NodeWithScore:
    source = RelatedNodeInfo(node_id=hit.document_id)
    node = TextNode(
        id_=str(hit.metadata["chunkId"]),
        text=hit.text,
        metadata=hit.metadata,
        excluded_embed_metadata_keys=[*hit.metadata],
        excluded_llm_metadata_keys=[name for name in hit.metadata if name not in ("title", "path", "sectionTitle")],
        relationships={NodeRelationship.SOURCE: source},
    )
    return NodeWithScore(node=node, score=hit.score)
