"""The embedder of a model in this process, and of any sentence-transformers model in a folder.

As many threads as cores, one text a call of the model: that is fastest on a CPU, and a text's vector doesn't depend on
what else is being embedded. docs/adr/0016-vectors.md. Documents that wait get their vectors together, and so share the
store's calls afterwards.
"""

import asyncio
import hashlib
import os
import sys
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared.embedder import Model, Vector, refuse_unreadable, unit
from shared.embedder.gather import Ask, Gather, Pace
from shared.embedder.served import prefixes_of
from shared.errors import Rejected, Unavailable
from shared.model_server.onnx_model import FileTokens, OnnxAddress, OnnxModel, onnx_address, said_by
from shared.settings import ConfigurationError

_NICE: Final = 10
_NEAR: Final = "The cat sleeps on the warm mat.", "A cat slept on a mat."
_FAR: Final = "Interest rates rose by a quarter point."

_Rows = NDArray[np.float32]  # a vector for each token
_POOLINGS: Final[dict[str, Callable[[_Rows], NDArray[Any]]]] = {
    "mean": lambda rows: rows.mean(axis=0, dtype=np.float64),
    "cls": lambda rows: rows[0],
    "lasttoken": lambda rows: rows[-1],
    "max": lambda rows: rows.max(axis=0),
}


class Loaded(NamedTuple):
    """A model that is ready."""

    model: Model
    tokens: FileTokens
    run: Callable[[list[int]], NDArray[Any]]  # the vector of token ids, of any length
    document: str = ""  # put before a document
    query: str = ""


class InProcess:
    """An embedder that loads its model at the start."""

    def __init__(self, load: Callable[[], Loaded], threads: int | None = None) -> None:
        """Take what loads the model, and how many texts are embedded at a time; by default as many as cores."""
        threads = threads or os.cpu_count() or 1
        self._load = load
        self._threads = threads
        self._documents = ThreadPoolExecutor(threads, "embedding", initializer=_give_way)
        # A pool of their own, so that a query doesn't queue behind a thousand chunks.
        self._queries = ThreadPoolExecutor(threads, "embedding-query")
        self._pace = Pace()
        self._gather = Gather(self._answer, self._pace, calls=2)  # the threads begin one while the other ends
        self._known: Loaded | None = None
        self._closed = False

    @property
    def model(self) -> Model:
        """Return the identity of the model, known after `start`."""
        return self.loaded.model

    @property
    def tokens(self) -> FileTokens:
        """Return the model's own tokenizer as a counter."""
        return self.loaded.tokens

    @property
    def loaded(self) -> Loaded:
        """Return the model, known after `start`."""
        if self._known is None:
            raise RuntimeError("a model is used before start()")
        return self._known

    async def start(self) -> None:
        """Check and load the model, off the event loop.

        Raises:
            ConfigurationError: a file is missing, or isn't what it must be.
        """
        if self._known is None:
            self._known = await asyncio.get_running_loop().run_in_executor(self._queries, self._load)

    async def embed_documents(self, texts: Sequence[str], *, flow: Hashable = None) -> list[Vector]:
        """Return one unit vector per text, in order.

        Raises:
            Rejected: a text is blank or has more tokens than the model accepts; no other is begun then.
            Unavailable: a value isn't finite, or the model was closed meanwhile.
        """
        refuse_unreadable(texts)
        for position, text in enumerate(texts):
            if len(text) > self.tokens.longest_text:
                raise Rejected(
                    f"text {position} of {len(texts)} has {len(text)} characters; "
                    f"{self.model.name} accepts at most {self.model.max_tokens} tokens",
                    "text_too_long",
                )
        return await self._gather.vectors(texts, flow)

    async def _answer(self, asks: Sequence[Ask]) -> None:
        if self._closed:
            raise Unavailable("the model was closed")
        loop = asyncio.get_running_loop()
        begun = loop.time()
        rows = [*zip(asks, await loop.run_in_executor(self._queries, self._rows, asks), strict=True)]
        # By caller: what is wrong with one of its texts ends its others, and nobody else's.
        failed: dict[int, Exception] = {id(ask.beside): row for ask, row in rows if isinstance(row, Rejected)}
        left, vectors = iter(rows), list[tuple[Ask, Vector]]()

        def embed() -> None:
            for ask, row in left:
                if self._closed:
                    raise Unavailable("the model was closed")
                if isinstance(row, Rejected) or id(ask.beside) in failed or ask.answer.done():  # done: cancelled
                    continue
                try:
                    vectors.append((ask, self._embed(row)))
                except Exception as error:  # noqa: BLE001 - its caller raises it
                    failed[id(ask.beside)] = error

        try:  # each thread takes text by text and comes back once: whatever comes back wakes the event loop
            await asyncio.gather(*(loop.run_in_executor(self._documents, embed) for _ in rows[: self._threads]))
        finally:
            rows.clear()  # after an error, or a cancellation, no thread takes another
        for ask, vector in vectors:
            ask.give(vector)
        for ask in asks:
            if (error := failed.get(id(ask.beside))) is not None:
                ask.fail(error)
        self._pace.took(len(vectors), loop.time() - begun)

    async def embed_query(self, text: str) -> Vector:
        """Return the query's unit vector; a longer query is truncated at the model's limit.

        Raises:
            Rejected: the query is blank.
        """
        refuse_unreadable([text])
        asked = self.loaded.query + text
        return await asyncio.get_running_loop().run_in_executor(self._queries, self._embed_cut, asked)

    async def similarities(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Return the cosine of the question with each text, computed on the query threads.

        Raises:
            Rejected: one of them is blank.
        """
        refuse_unreadable([question, *texts])
        loop = asyncio.get_running_loop()
        whole = (self.loaded.query + question, *(self.loaded.document + text for text in texts))
        asked, *vectors = await asyncio.gather(
            *(loop.run_in_executor(self._queries, self._embed_cut, text) for text in whole)
        )
        return [float(asked @ vector) for vector in vectors]

    async def ping(self) -> None:
        """Return at once: the model is in this process."""

    async def close(self) -> None:
        """Drop queued texts, wait for those being embedded, some tens of milliseconds, and free the model's memory."""
        self._closed = True
        for pool in (self._documents, self._queries):
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)
        if self._known is not None:  # whoever still holds this embedder would hold 170 MB
            self._known = self._known._replace(run=_closed)

    def _rows(self, asks: Sequence[Ask]) -> list[list[int] | Rejected]:
        """Return the tokens of each text, or why it has too many."""
        model, tokens, *_ = self.loaded
        rows = list[list[int] | Rejected]()
        for ask in asks:
            row = tokens.ids(self.loaded.document + ask.text)
            if (over := len(row) - tokens.longest) > 0:
                refusal = (
                    f"text {ask.beside.index(ask.text)} of {len(ask.beside)} has {model.max_tokens + over} tokens; "
                    f"{model.name} accepts at most {model.max_tokens}"
                )
                rows.append(Rejected(refusal, "text_too_long"))
            else:
                rows.append(row)
        return rows

    def _embed_cut(self, text: str) -> Vector:
        return self._embed(self.loaded.tokens.cut(text))

    def _embed(self, row: list[int]) -> Vector:
        try:
            return unit(self.loaded.run(row))
        except ValueError as error:
            raise Unavailable(f"{self.model.name}: {error}") from error


def onnx_embedder(setting: str, threads: int | None = None) -> InProcess:
    """Return the embedder of `onnx:FOLDER`. Pooling and prefixes are as its files or the address say.

    Raises:
        ConfigurationError: the setting has another form.
    """
    address = onnx_address("SLUICE_EMBEDDER", setting, ("pooling", "query", "document"))
    if address.options.get("pooling", "mean") not in _POOLINGS:
        raise ConfigurationError(f"{address.setting}: pooling must be one of {', '.join(_POOLINGS)}")
    return InProcess(partial(_load, address), threads)


def _load(address: OnnxAddress) -> Loaded:
    said = said_by(address, "config_sentence_transformers.json").get("prompts") or {}  # often of empty texts
    family = prefixes_of(name := address.folder.absolute().name)  # a link is named as its model, its target by a hash
    document = address.options.get("document", said.get("document") or said.get("passage") or family.document)
    query = address.options.get("query", said.get("query") or family.query)
    onnx = OnnxModel(address, document)
    if not (query or document) and "query" not in address.options and any(said.values()):
        raise onnx.wrong(f"its prompts {', '.join(said)} aren't known here; add query= and document=")
    pooling, run = _pooled(onnx)
    near, same, far = (unit(run(onnx.tokens.ids(text))) for text in (*_NEAR, _FAR))
    if not near @ same > near @ far:
        raise onnx.wrong(
            f"its vectors find {_NEAR[0]!r} no nearer to {_NEAR[1]!r} than to {_FAR!r}; is pooling={pooling} right?"
        )
    model = Model(
        name=name,
        digest=hashlib.sha256("\n".join((*onnx.digests, pooling, document, query)).encode()).hexdigest(),
        dimension=len(near),
        max_tokens=onnx.tokens.max_tokens,
        precision=onnx.precision,
    )
    return Loaded(model, onnx.tokens, run, document, query)


def _pooled(onnx: OnnxModel) -> tuple[str, Callable[[list[int]], NDArray[Any]]]:
    """Return how a text's vector is made, by name, and what makes it."""
    pooling = onnx.address.options.get("pooling")
    if pooling is None and onnx.outputs.get("sentence_embedding") == 2:  # dimensions: batch and vector
        return "sentence_embedding", partial(onnx.run, output="sentence_embedding")
    if pooling is None:
        said = said_by(onnx.address, "1_Pooling/config.json")
        modes = [key.split("_")[2] for key in said if said[key] is True and key.startswith("pooling_mode_")]
        [pooling] = modes if len(modes) == 1 else [""]
        if pooling not in _POOLINGS or said.get("include_prompt") is False:
            raise onnx.wrong(
                f"1_Pooling/config.json says nothing that is known here; add pooling={' or '.join(_POOLINGS)}"
            )
    if any(onnx.address.folder.glob("*_Dense")):
        raise onnx.wrong("its model has a layer after pooling; export it with sentence_embedding")
    output = next((name for name, dimensions in onnx.outputs.items() if dimensions == 3), None)
    if output is None:
        raise onnx.wrong("its model returns no vector for each token, nor sentence_embedding")
    pool = _POOLINGS[pooling]
    return pooling, lambda ids: pool(onnx.run(ids, output))


def _closed(_: list[int]) -> NDArray[Any]:
    raise Unavailable("the embedding model was closed")


def _give_way() -> None:
    """Lower this thread's priority, so that queries aren't delayed: chunks use every core while there are any.

    On Linux a thread has its own niceness. Elsewhere, or where it can't be raised, nothing changes.
    """
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
