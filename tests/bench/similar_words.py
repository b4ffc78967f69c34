"""`python -m tests.bench.similar_words`: lists words of nearly the same meaning, from the packaged model's weights.

Takes the vectors with which the model begins, one for each word of its vocabulary, and writes the stems of each word's
nearest ones to `similar_words.msgpack` beside the code. It takes a minute.
"""

import sys
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from services.query_api.search.word_table import FILE, SimilarWordTable, weight
from shared.embedder.minilm import WEIGHTS_SHA256, package_folder, tensors
from shared.text.words import WORD, paired, stem

LEAST = 0.4  # lowest cosine that is listed; two random words have 0.01 on average, with a deviation of 0.07
MOST = 16  # stems of a word
FIRST_WORD = 1996  # the vocabulary's number of "the"
AT_ONCE = 1024  # words compared with all others at once: 90 MB


def vocabulary() -> dict[str, int]:
    """Return the number of each whole word of the model's vocabulary that has a weight."""
    data = (package_folder() / "tokenizer.json").read_bytes()
    numbers: dict[str, int] = msgspec.json.decode(data)["model"]["vocab"]
    return {
        word: number
        for word, number in sorted(numbers.items(), key=lambda item: item[1])
        if number >= FIRST_WORD and len(word) > 1 and WORD.findall(paired(word)) == [word] and weight(word)
    }


def nearest(
    names: Sequence[str], vectors: NDArray[np.float32], chosen: Sequence[int] | None = None
) -> Iterator[dict[str, float]]:
    """Yield, for each word or the chosen ones, the stems of the nearest words with their cosines, the nearest first.

    A word's own stem is left out.
    """
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    stems = [stem(name) for name in names]
    chosen = range(len(names)) if chosen is None else chosen
    for begin in range(0, len(chosen), AT_ONCE):
        some = list(chosen[begin : begin + AT_ONCE])
        for at, cosines in zip(some, vectors[some] @ vectors.T, strict=True):
            found: dict[str, float] = {}
            near = np.nonzero(cosines >= LEAST)[0]
            for other in near[np.argsort(-cosines[near], kind="stable")]:
                if stems[other] != stems[at]:
                    found.setdefault(stems[other], float(cosines[other]))
            yield dict(list(found.items())[:MOST])


def table() -> SimilarWordTable:
    """Return the table of the packaged model."""
    numbers = vocabulary()
    weights = tensors(np.memmap(package_folder() / "model.safetensors", dtype=np.uint8, mode="r"))
    vectors = np.array(weights["embeddings.word_embeddings.weight"])[list(numbers.values())]
    listed = [(word, near) for word, near in zip(numbers, nearest(list(numbers), vectors), strict=True) if near]
    stems = sorted({name for _, near in listed for name in near})
    at = {name: number for number, name in enumerate(stems)}
    return SimilarWordTable(
        model="all-MiniLM-L6-v2",
        weights_sha256=WEIGHTS_SHA256,
        least=LEAST,
        words=tuple(word for word, _ in listed),
        stems=tuple(stems),
        counts=bytes(len(near) for _, near in listed),
        numbers=np.array([at[name] for _, near in listed for name in near], "<u2").tobytes(),
        cosines=bytes(min(255, round(255 * cosine)) for _, near in listed for cosine in near.values()),
    )


def main() -> int:
    found = table()
    FILE.write_bytes(msgspec.msgpack.encode(found))
    print(f"{len(found.words)} words with {len(found.cosines)} similar stems, {FILE.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
