"""Embeds texts that a client sends, with the model of the index."""

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Final

from services.query_api.clients.models import Models
from services.query_api.http.problems import Problem, invalid
from services.query_api.http.request import ApiRequest
from shared.embedder import Embedder, TokenCounter, Vector
from shared.errors import Rejected

MOST_TEXTS: Final = 2048  # per request, as with OpenAI
_CHARACTERS: Final = 100  # of the longest word: no text is counted beyond so many for each token
_IDS_SENT: Final = (
    "holds token ids, which another model's tokenizer made; send the texts themselves "
    "(LangChain's OpenAIEmbeddings: check_embedding_ctx_length=False)"
)


def texts_of(value: Any, field: str = "input") -> list[str]:
    """Return the texts of a string or of a list of strings.

    Raises:
        Problem: 400, the value is something else, such as token ids; or there are no texts or too many.
    """
    if isinstance(value, str):
        value = [value]
    if not isinstance(value, list) or not value:
        raise invalid(field, "must be text, or a list with at least one text")
    if _token_ids(value) or any(_token_ids(each) for each in value):
        raise invalid(field, _IDS_SENT)
    if len(value) > MOST_TEXTS:
        raise invalid(field, f"has {len(value)} texts, but at most {MOST_TEXTS} are allowed")
    for number, text in enumerate(value):
        if not isinstance(text, str) or not text.strip():
            raise invalid(f"{field}[{number}]", "must be text that is not empty")
    return value


async def vectors_of(
    request: ApiRequest, embedder: Embedder, texts: Sequence[str], *, queries: bool = False, cut: bool = False
) -> list[Vector]:
    """Return one unit vector per text, a document's or a query's, when it is the turn of the request's tenant.

    With `cut`, of a text that is too long its beginning is embedded.

    Raises:
        Problem: 400, a text is too long for the model. Unavailable: the model is away.
    """
    try:
        async with request.part(Models).turns[request.user.tenant]:
            if queries:
                return [await embedder.embed_query(each) for each in texts]
            return await embedder.embed_documents(texts, flow=request.user.tenant)
    except Rejected as error:
        if cut and error.code == "text_too_long":
            fitting = await asyncio.to_thread(lambda: [_beginning(each, embedder.tokens) for each in texts])
            return await vectors_of(request, embedder, fitting, queries=queries)
        raise Problem(400, error.sentence, code=error.code.upper(), details={"field": "input"}) from error


def _beginning(text: str, counter: TokenCounter) -> str:
    """Return as much of the text as the model takes."""
    text, most = text[: counter.max_tokens * _CHARACTERS], counter.max_tokens
    if counter.count([text])[0] <= most:
        return text
    return text[: bisect_right(range(1, len(text) + 1), most, key=lambda end: counter.count([text[:end]])[0])]


async def token_count(embedder: Embedder, texts: Sequence[str]) -> int:
    """Return the number of tokens of the texts, estimated if the model's server can't count them."""
    return sum(await asyncio.to_thread(embedder.tokens.count, texts))


def _token_ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(each) is int for each in value)
