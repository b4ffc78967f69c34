"""What embedding models were trained to see before a document and before a query, as their cards say."""

import re
from typing import Final, NamedTuple


class Prefixes(NamedTuple):
    """What stands before a text when it is embedded; never in the stored text, and part of the model's identity."""

    document: str = ""
    query: str = ""


_FOR_SEARCH: Final = Prefixes(query="Represent this sentence for searching relevant passages: ")
_INSTRUCTED: Final = Prefixes(
    query="Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
)

# The first that is found in the model's name decides. bge-m3, all-minilm, granite, gte and OpenAI's have none.
_FAMILIES: Final = tuple(
    (re.compile(pattern), prefixes)
    for pattern, prefixes in (
        (r"nomic-embed", Prefixes("search_document: ", "search_query: ")),
        (r"\be5-.*instruct|qwen3-embedding", _INSTRUCTED),
        (r"\be5-", Prefixes("passage: ", "query: ")),
        (r"embeddinggemma", Prefixes("title: none | text: ", "task: search result | query: ")),
        (r"snowflake-arctic-embed(?:2|-.*v2)", Prefixes(query="query: ")),
        (r"mxbai-embed|snowflake-arctic-embed|\bbge-(?:small|base|large)(?!-zh)", _FOR_SEARCH),
        (r"\bbge-(?:small|base|large)-zh", Prefixes(query="为这个句子生成表示以用于检索相关文章：")),
    )
)


def prefixes_of(model: str) -> Prefixes:
    """Return the prefixes of the family that the model's name shows; empty ones where it shows none."""
    name = model.lower()
    return next((prefixes for pattern, prefixes in _FAMILIES if pattern.search(name)), Prefixes())
