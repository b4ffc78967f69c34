"""Folders of tiny exported models: words that are equal are near, so that what is said of a real model holds of them.

Every token has a dimension of its own; the special ones have none.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from string import ascii_lowercase, digits, punctuation
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

_TEXT: Final = """
the cat cats slept sleeps sleep on a warm mat interest rates rose by quarter point word passage query number of many
so and when is lantern lit at six herons nest short
"""
WORDS: Final = _TEXT.split()
LONGEST: Final = 128  # positions
_SPECIAL: Final = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]


def mean_model(folder: Path) -> Path:
    """Make an embedder of BERT's kind, and return its folder, which says nothing of its pooling."""
    words = _word_pieces(folder)
    positions = np.full((LONGEST, words), 1e-4, dtype=np.float32)
    _save(
        folder / "model.onnx",
        words,
        [
            *_embedded(),
            helper.make_node("Shape", ["input_ids"], ["length"], start=1, end=2),
            helper.make_node("Slice", ["positions", "zero", "length"], ["here"]),
            helper.make_node("Add", ["embedded", "here"], ["last_hidden_state"]),
        ],
        ("last_hidden_state", ["batch", "tokens", words]),
        {"positions": positions, "zero": np.array([0])},
        ("input_ids", "attention_mask", "token_type_ids"),
    )
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": LONGEST}))
    return folder


def cls_model(folder: Path) -> Path:
    """Make an embedder with pieces of sentences, as multilingual ones have, whose files say how it is used."""
    folder.mkdir(parents=True, exist_ok=True)
    pieces = [*_SPECIAL, *(f"▁{word}" for word in WORDS), "▁", *ascii_lowercase, *digits, *punctuation]
    tokenizer = Tokenizer(models.Unigram([(piece, -1.0) for piece in pieces], unk_id=1))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    words = _finish(tokenizer, folder)
    _save(
        folder / "onnx" / "model.onnx",
        words,
        [
            *_embedded(),
            helper.make_node("ReduceMean", ["embedded", "one"], ["mean"], keepdims=1),
            helper.make_node("Add", ["embedded", "mean"], ["last_hidden_state"]),
        ],
        ("last_hidden_state", ["batch", "tokens", words]),
        {"one": np.array([1])},
        ("input_ids", "attention_mask"),
    )
    (folder / "1_Pooling").mkdir(exist_ok=True)
    pooling = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    (folder / "1_Pooling/config.json").write_text(json.dumps(pooling))
    (folder / "config_sentence_transformers.json").write_text(
        json.dumps({"prompts": {"query": "query: ", "document": "passage: "}})
    )
    (folder / "sentence_bert_config.json").write_text(json.dumps({"max_seq_length": LONGEST}))
    return folder


def cross_encoder(folder: Path) -> Path:
    """Make a cross-encoder: it counts the words of the passage that are in the query."""
    words = _word_pieces(folder)
    kinds = {
        "ones": np.array([1]),
        "two": np.array([2]),
        "float": np.array(1.0, dtype=np.float32),
    }
    _save(
        folder / "model.onnx",
        words,
        [
            *_embedded(),
            helper.make_node("Cast", ["token_type_ids"], ["types"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["types", "two"], ["second"]),
            helper.make_node("Sub", ["float", "second"], ["first"]),
            helper.make_node("Mul", ["embedded", "first"], ["query"]),
            helper.make_node("Mul", ["embedded", "second"], ["passage"]),
            helper.make_node("ReduceSum", ["query", "ones"], ["asked"], keepdims=0),
            helper.make_node("ReduceSum", ["passage", "ones"], ["read"], keepdims=0),
            helper.make_node("Mul", ["asked", "read"], ["both"]),
            helper.make_node("ReduceSum", ["both", "ones"], ["logits"], keepdims=1),
        ],
        ("logits", ["batch", 1]),
        kinds,
        ("input_ids", "attention_mask", "token_type_ids"),
    )
    return folder


def _word_pieces(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    letters = [*ascii_lowercase, *digits]
    pieces = [*_SPECIAL, *letters, *(f"##{letter}" for letter in letters), *punctuation]
    pieces += [word for word in WORDS if word not in pieces]
    tokenizer = Tokenizer(models.WordPiece({piece: n for n, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return _finish(tokenizer, folder)


def _finish(tokenizer: Any, folder: Path) -> int:
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.enable_truncation(16)  # some files say so, and nobody means it
    tokenizer.save(str(folder / "tokenizer.json"))
    return int(tokenizer.get_vocab_size())


def _embedded() -> list[onnx.NodeProto]:
    return [helper.make_node("Gather", ["words", "input_ids"], ["embedded"])]


def _save(
    path: Path,
    words: int,
    nodes: Sequence[onnx.NodeProto],
    output: tuple[str, list[str | int]],
    constants: dict[str, np.ndarray[Any, Any]],
    inputs: Sequence[str],
) -> None:
    path.parent.mkdir(exist_ok=True)
    matrix = np.eye(words, dtype=np.float32)
    matrix[: len(_SPECIAL)] = 0
    matrix[1, 1] = 1  # an unknown word is a word
    graph = helper.make_graph(
        list(nodes),
        path.parent.name,
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in inputs],
        [helper.make_tensor_value_info(output[0], TensorProto.FLOAT, output[1])],
        [numpy_helper.from_array(values, name) for name, values in {"words": matrix, **constants}.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
