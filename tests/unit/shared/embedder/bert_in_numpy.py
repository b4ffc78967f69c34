"""BERT's forward pass in plain numpy and float64: an implementation apart from ours, to check ours against.

Run: python -m tests.unit.shared.embedder.bert_in_numpy   writes minilm_reference.json, the stored reference.
"""

import base64
import json
import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load_file
from tokenizers import Tokenizer

REFERENCE = Path(__file__).with_name("minilm_reference.json")

TEXTS = (
    "Hello, world!",
    "a",
    "\u200b",  # nothing that a tokenizer sees
    "The quick brown fox jumps over the lazy dog.",
    "Coffee, café, CAFÉ: naïve façade.",
    "ﬁne eﬃcient ﬂow",  # ligatures
    "返品は30日以内に受け付けます。",
    "😀 emoji 👩‍👩‍👧 family 🏳️‍🌈",
    "def f(x: int) -> int:\n\treturn x ** 2  # square",
    "line one\r\nline two\x00\x07 with control characters",
    "w" * 300,  # one word that is too long to be one
    "Retrieval finds passages; generation writes the answer. " * 25,  # 250 tokens
)

Array = NDArray[np.float64]


class Bert:
    def __init__(self, folder: Path, layers: int = 6, heads: int = 12) -> None:
        loaded = load_file(folder / "model.safetensors")
        self.w = {name: tensor.astype(np.float64) for name, tensor in loaded.items()}
        self.layers, self.heads = layers, heads
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(256)

    def linear(self, x: Array, name: str) -> Array:
        projected: Array = x @ self.w[f"{name}.weight"].T + self.w[f"{name}.bias"]
        return projected

    def norm(self, x: Array, name: str) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        shifted: Array = scaled * self.w[f"{name}.weight"] + self.w[f"{name}.bias"]
        return shifted

    def attention(self, x: Array, name: str) -> Array:
        q, k, v = (self.linear(x, f"{name}.self.{part}") for part in ("query", "key", "value"))
        width = x.shape[1] // self.heads
        mixed = []
        for head in range(self.heads):
            here = slice(head * width, (head + 1) * width)
            scores = q[:, here] @ k[:, here].T / math.sqrt(width)
            weights = np.exp(scores - scores.max(-1, keepdims=True))
            mixed.append(weights / weights.sum(-1, keepdims=True) @ v[:, here])
        return self.linear(np.concatenate(mixed, -1), f"{name}.output.dense")

    def embed(self, text: str) -> Array:
        """Return the unit vector: the mean over all tokens, the special ones too."""
        ids = self.tokenizer.encode(text).ids
        x = self.w["embeddings.word_embeddings.weight"][ids]
        x = x + self.w["embeddings.position_embeddings.weight"][: len(ids)]
        x = self.norm(x + self.w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
        for number in range(self.layers):
            name = f"encoder.layer.{number}"
            x = self.norm(x + self.attention(x, f"{name}.attention"), f"{name}.attention.output.LayerNorm")
            inner = self.linear(x, f"{name}.intermediate.dense")
            inner = inner * 0.5 * (1 + _erf(inner / math.sqrt(2)))
            x = self.norm(x + self.linear(inner, f"{name}.output.dense"), f"{name}.output.LayerNorm")
        mean: Array = x.mean(0)
        return mean / np.linalg.norm(mean)


def _erf(x: Array) -> Array:
    return np.fromiter(map(math.erf, x.ravel()), np.float64, x.size).reshape(x.shape)


def stored() -> dict[str, Array]:
    """Return the stored reference: text -> unit vector."""
    return {
        entry["text"]: np.frombuffer(base64.b64decode(entry["vector"]), "<f4").astype(np.float64)
        for entry in json.loads(REFERENCE.read_text())
    }


if __name__ == "__main__":
    from shared.embedder.minilm import package_folder

    bert = Bert(package_folder())
    entries = [
        {"text": text, "vector": base64.b64encode(bert.embed(text).astype("<f4").tobytes()).decode()} for text in TEXTS
    ]
    REFERENCE.write_text(json.dumps(entries, indent=1) + "\n")
