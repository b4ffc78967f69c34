"""The prefixes for documents and queries that embedding models were trained with, from their model cards."""

import re
from typing import Final, NamedTuple


class Prefixes(NamedTuple):
    """Text put before a document or query when it is embedded. Never stored, but part of the model's identity."""

    document: str = ""
    query: str = ""


_FOR_SEARCH: Final = Prefixes(query="Represent this sentence for searching relevant passages: ")
_INSTRUCTED: Final = Prefixes(
    query="Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
)

# The first pattern found in the model's name decides. bge-m3, all-minilm, granite, gte and OpenAI's have no prefixes.
_FAMILIES: Final = tuple(
    (re.compile(pattern), prefixes)
    for pattern, prefixes in (
        (r"nomic-embed", Prefixes("search_document: ", "search_query: ")),
        (r"\be5-.{0,99}instruct|qwen3-embedding", _INSTRUCTED),
        (r"\be5-", Prefixes("passage: ", "query: ")),
        (r"embeddinggemma", Prefixes("title: none | text: ", "task: search result | query: ")),
        (r"snowflake-arctic-embed(?:2|-.{0,99}v2)", Prefixes(query="query: ")),
        (r"mxbai-embed|snowflake-arctic-embed|\bbge-(?:small|base|large)(?!-zh)", _FOR_SEARCH),
        (r"\bbge-(?:small|base|large)-zh", Prefixes(query="为这个句子生成表示以用于检索相关文章：")),
    )
)


def prefixes_of(model: str) -> Prefixes:
    """Return the prefixes of the model's family, recognised by its name; empty ones for an unknown family."""
    name = model.lower()
    return next((prefixes for pattern, prefixes in _FAMILIES if pattern.search(name)), Prefixes())
