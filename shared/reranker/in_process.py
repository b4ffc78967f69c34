"""Scores passages with a cross-encoder in a folder, in this process."""

import asyncio
import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from shared.errors import Unavailable
from shared.model_server.onnx_model import OnnxModel, onnx_address

_LONGEST_TEXT: Final = 8_000  # characters of a text of at most 8,192 tokens that are looked at
_QUERY: Final = "cats on a mat"
_FITS: Final = "The cats sleep on a warm mat."
_DOESNT: Final = "Interest rates rose by a quarter point."


class OnnxReranker:
    """The cross-encoder of `onnx:FOLDER`."""

    def __init__(self, setting: str, timeout_s: float, threads: int | None = None) -> None:
        """Load it and score two passages. Takes the longest wait for all scores of a search, in seconds.

        Raises:
            ConfigurationError: the setting has another form, the folder has no such model, or it scores wrongly.
        """
        self._onnx = onnx = OnnxModel(onnx_address("SLUICE_RERANK", setting, ()))
        self._output = next(iter(onnx.outputs))
        self._timeout_s = timeout_s
        try:
            right = self._score(_QUERY, _FITS) > self._score(_QUERY, _DOESNT)
        except ValueError:
            raise onnx.wrong("its model returns more than a number for a passage") from None
        if not right:
            raise onnx.wrong(f"its model scores {_FITS!r} no higher than {_DOESNT!r} for {_QUERY!r}")
        self._threads = ThreadPoolExecutor(threads or os.cpu_count() or 1, "reranking")

    async def scores(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """Return the score of each text, cut to the model's limit.

        Raises:
            Unavailable: it fails, takes longer than allowed, or a score is no number.
        """
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._timeout_s):
                found = await asyncio.gather(
                    *(loop.run_in_executor(self._threads, self._score, query, text) for text in texts)
                )
        except TimeoutError:
            raise Unavailable(f"the cross-encoder scored {len(texts)} passages in no {self._timeout_s:g} s") from None
        except Exception as error:  # the runtime has errors of its own, such as for a lack of memory
            raise Unavailable("the cross-encoder failed") from error
        if not all(map(math.isfinite, found)):
            raise Unavailable("the cross-encoder returned a score that is no number")
        return found

    async def close(self) -> None:
        """Drop queued passages and wait for those being scored."""
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)

    def _score(self, query: str, text: str) -> float:
        ids, types = self._onnx.tokens.pair(query[:_LONGEST_TEXT], text[:_LONGEST_TEXT])
        return float(self._onnx.run(ids, self._output, types).item())
