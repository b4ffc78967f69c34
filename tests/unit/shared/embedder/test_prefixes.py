import pytest

from shared.embedder.prefixes import Prefixes, prefixes_of

SEARCH = "Represent this sentence for searching relevant passages: "
INSTRUCT = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"


@pytest.mark.feature(112)
@pytest.mark.parametrize(
    ("model", "document", "query"),
    [
        ("nomic-embed-text:v1.5", "search_document: ", "search_query: "),
        ("nomic-ai/nomic-embed-text-v2-moe", "search_document: ", "search_query: "),
        ("mxbai-embed-large", "", SEARCH),
        ("snowflake-arctic-embed:137m", "", SEARCH),
        ("snowflake-arctic-embed2", "", "query: "),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "", "query: "),
        ("bge-large", "", SEARCH),
        ("BAAI/bge-small-en-v1.5", "", SEARCH),
        ("BAAI/bge-base-zh-v1.5", "", "为这个句子生成表示以用于检索相关文章："),
        ("bge-m3", "", ""),
        ("intfloat/multilingual-e5-large", "passage: ", "query: "),
        ("intfloat/multilingual-e5-large-instruct", "", INSTRUCT),
        ("qwen3-embedding:0.6b", "", INSTRUCT),
        ("embeddinggemma", "title: none | text: ", "task: search result | query: "),
        ("all-minilm", "", ""),
        ("text-embedding-3-small", "", ""),
        ("some-made5-model", "", ""),
    ],
)
def test_a_family_has_the_prefixes_that_it_was_trained_with(model: str, document: str, query: str) -> None:
    assert prefixes_of(model) == Prefixes(document, query)
