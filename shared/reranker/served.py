"""Scores passages with a cross-encoder behind a `/rerank` endpoint: Cohere, Jina, vLLM, text-embeddings-inference."""

import asyncio
import math
from collections.abc import Sequence
from typing import Any, Final, Literal

import httpx
import msgspec
from pydantic import SecretStr

from shared.model_server.http import BadAnswer, TooLong, client_with_key, refusal, transport_named
from shared.reranker import Reranker
from shared.reranker.in_process import OnnxReranker
from shared.settings import ConfigurationError

KEY_VARIABLE: Final = "SLUICE_RERANK_API_KEY"
BATCH: Final = 32  # texts per call: the largest batch of text-embeddings-inference by default
_LONGEST_TEXT: Final = 8_000  # characters; these models read 512 to 8,192 tokens
_LONGEST_QUERY: Final = 2_000

Shape = Literal["documents", "texts"]  # name of the field with the passages


class _Scored(msgspec.Struct, frozen=True):
    index: int
    relevance_score: float | None = None
    score: float | None = None


class _Results(msgspec.Struct, frozen=True):
    results: list[_Scored]


_ANSWER: Final = msgspec.json.Decoder(_Results)
_LIST: Final = msgspec.json.Decoder(list[_Scored])


class RerankAddress(msgspec.Struct, frozen=True):
    """An endpoint, and the model to name in requests; None if the endpoint has only one."""

    url: str
    model: str | None = None

    @property
    def server(self) -> str:
        """Return the server's name for error messages."""
        return f"the reranker at {self.url}"


class ServedReranker:
    """A cross-encoder on a server.

    Servers use two request shapes. `{"query", "documents"}` is tried first; a server that refuses it gets
    `{"query", "texts"}`. The shape that works is remembered.
    """

    def __init__(self, address: RerankAddress, key: SecretStr, timeout_s: float) -> None:
        """Take the address, a key that may be empty, and the longest wait for all scores of a search, in seconds.

        Raises:
            ConfigurationError: the key is not a valid header value.
        """
        self._address = address
        self._timeout_s = timeout_s
        self._shape: Shape | None = None  # None: not known yet
        self._client = client_with_key(KEY_VARIABLE, key, timeout_s)

    async def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return the score of each text. Raises Unavailable."""
        parts = [texts[start : start + BATCH] for start in range(0, len(texts), BATCH)]
        with transport_named(self._address.server):
            async with asyncio.timeout(self._timeout_s):
                if self._shape is None and len(parts) > 1:
                    return [*await self._scored(query, parts[0]), *await self._all(query, parts[1:])]
                return await self._all(query, parts)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def _all(self, query: str, parts: Sequence[Sequence[str]]) -> list[float]:
        found = await asyncio.gather(*(self._scored(query, part) for part in parts))
        return [score for part in found for score in part]

    async def _scored(self, query: str, texts: Sequence[str]) -> list[float]:
        shapes: tuple[Shape, ...] = ("documents", "texts") if self._shape is None else (self._shape,)
        for shape in shapes:
            response = await self._client.post(self._address.url, json=self._body(shape, query, texts))
            if response.is_success:
                found = self._read(response.content, len(texts))
                self._shape = shape
                return found
            if response.status_code not in (400, 422) or shape == shapes[-1]:
                break
        try:
            raise refusal(self._address.server, response.status_code, response.text)
        except TooLong as error:
            raise BadAnswer(str(error)) from error

    def _body(self, shape: Shape, query: str, texts: Sequence[str]) -> dict[str, Any]:
        passages = [text[:_LONGEST_TEXT] for text in texts]
        named = {"model": self._address.model} if self._address.model is not None else {}
        more = {"return_documents": False} if shape == "documents" else {"truncate": True}
        return {**named, "query": query[:_LONGEST_QUERY], shape: passages, **more}

    def _read(self, content: bytes, count: int) -> list[float]:
        scored = _LIST.decode(content) if content.lstrip()[:1] == b"[" else _ANSWER.decode(content).results
        found = {each.index: each.score if each.relevance_score is None else each.relevance_score for each in scored}
        scores = [found.get(index) for index in range(count)]
        if len(scored) != count or any(score is None or not math.isfinite(score) for score in scores):
            raise BadAnswer(
                f"{self._address.server} returned {len(scored)} scores for {count} texts, or scores that are no numbers"
            )
        return [score for score in scores if score is not None]


def rerank_address(variable: str, value: str) -> RerankAddress:
    """Return the address in `http://host:port/rerank?model=name`; only the model is optional.

    Raises:
        ConfigurationError: the value has another form; the sentence names `variable` and the value.
    """
    example = "http://127.0.0.1:8080/rerank, or https://api.jina.ai/v1/rerank?model=name"
    try:
        url = httpx.URL(value)
    except (httpx.InvalidURL, ValueError):  # its words may have a piece of a password
        raise ConfigurationError(f"{variable}={value} is not an address") from None
    if url.userinfo:  # the value isn't shown, because the part before the @ is likely a key
        raise ConfigurationError(f"{variable} has an '@' in its address; put the key into {KEY_VARIABLE}")
    if url.scheme not in {"http", "https"} or not url.host or set(url.params) - {"model"} or url.fragment:
        raise ConfigurationError(f"{variable}={value} must look like {example}")
    if url.port is not None and not 0 < url.port < 65_536:
        raise ConfigurationError(f"{variable}={value}: {url.port} is not a port")
    if url.path in ("", "/"):
        raise ConfigurationError(f"{variable}={value} must have the endpoint's path, as in {example}")
    return RerankAddress(str(url.copy_with(query=None)), url.params.get("model") or None)


def open_reranker(setting: str, key: SecretStr, timeout_s: float) -> Reranker | None:
    """Return the reranker that SLUICE_RERANK names; None if it is empty. Loads `onnx:FOLDER`, so call it in a thread.

    Raises:
        ConfigurationError: as `rerank_address`, `ServedReranker` and `OnnxReranker`.
    """
    if setting.startswith("onnx:"):
        return OnnxReranker(setting, timeout_s)
    return ServedReranker(rerank_address("SLUICE_RERANK", setting), key, timeout_s) if setting else None
