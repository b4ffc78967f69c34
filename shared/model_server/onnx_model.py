"""A model in this process: its tokenizer, its session on onnxruntime, and what the folder of an exported one says.

One engine thread, one input a call: a text's result doesn't depend on what else is being computed.
docs/adr/0016-vectors.md.
"""

import hashlib
import os
import re
import string
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

import msgspec
import numpy as np
from numpy.typing import NDArray

from shared.settings import ConfigurationError

if TYPE_CHECKING:  # slow to import, and a process may run no model
    import onnxruntime

# BERT's tokenizer drops control characters, but `str.split` splits words at some of them.
_PLAIN: Final = re.compile("[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]*+")
_SIGNS_BLANKED: Final = str.maketrans(dict.fromkeys(string.punctuation, " "))
_SIGNS_LEFT_OUT: Final = str.maketrans("", "", string.punctuation)
_SIGN: Final = re.compile(f"[{re.escape(string.punctuation)}]")
_MOST_WORDS: Final = 20_000  # cached words: 2 MB, for Chinese 5
_LONGEST_WORD: Final = 100  # letters of a cached word; BERT takes a longer one for unknown
_SPARE: Final = 2  # tokens: joined texts may have more than the sum of their counts where words aren't counted alone

_USUAL: Final = 512  # tokens of an input, where neither the folder nor the address says fewer
_TOKENS: Final = range(16, 8193)
_GRAPHS: Final = {  # precision -> the names that exports have
    "float32": ("model.onnx", "onnx/model.onnx"),
    "int8": ("model_int8.onnx", "onnx/model_int8.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx"),
}


class FileTokens:
    """Counts as the model does, so a text that fits by this count is read whole. Usable from any thread."""

    def __init__(self, content: str, longest: int, prefix: str = "") -> None:
        """Take a tokenizer.json, the longest input with its special tokens, and what is put before each text.

        Raises:
            Exception: as the library does, if the file is none.
        """
        # Must be set before tokenizers is first used: its threads would take cores from the model, and warn at
        # every fork.
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        import tokenizers

        self._tokenizer = tokenizer = tokenizers.Tokenizer.from_str(content)
        tokenizer.no_padding()  # a file may say to pad and truncate
        tokenizer.no_truncation()
        self._special = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        self._words: dict[str, int] = {}  # word -> number of its tokens
        self._by_words = (
            isinstance(tokenizer.pre_tokenizer, tokenizers.pre_tokenizers.BertPreTokenizer)
            and isinstance(tokenizer.normalizer, tokenizers.normalizers.BertNormalizer)
            and tokenizer.normalizer.clean_text
            and not prefix[-1:].isalnum()
        )
        self.longest = longest
        self._prefix = prefix
        self._before = len(self._bare([prefix.rstrip()])[0].ids)
        self._around = tokenizer.num_special_tokens_to_add(is_pair=False)
        self.max_tokens = longest - self._around - self._before - (0 if self._by_words else _SPARE)

    def __reduce__(self) -> tuple[Callable[[str, int, str], "FileTokens"], tuple[str, int, str]]:
        """Let another process, which may not read the file, make its own."""
        return FileTokens, (self._tokenizer.to_str(), self.longest, self._prefix)

    @property
    def last_id(self) -> int:
        """Return the last id of the vocabulary."""
        return self._tokenizer.get_vocab_size() - 1

    def count(self, texts: Sequence[str]) -> list[int]:
        """Return the exact number of tokens of each text, those around and before it excluded."""
        return [
            self._count(text)
            if self._by_words and _PLAIN.fullmatch(text) and not any(map(text.__contains__, self._special))
            else self._counted([text])[0]
            for text in texts
        ]

    def ids(self, text: str) -> list[int]:
        """Return the text's token ids with the special ones around, however long."""
        return self._tokenizer.encode_batch_fast([text])[0].ids  # unlike `encode`, without Python's lock

    @property
    def longest_text(self) -> int:
        """Return the characters of a text of longest words: tokenizing a longer one takes seconds for nothing."""
        return _LONGEST_WORD * self.longest

    def cut(self, text: str) -> list[int]:
        """Return the same, with the text cut to the longest input."""
        [encoding] = self._bare([text[: self.longest_text]])
        encoding.truncate(self.longest - self._around)
        return self._tokenizer.post_process(encoding).ids

    def pair(self, first: str, second: str) -> tuple[list[int], list[int]]:
        """Return ids and types of both texts: the first cut to half of the longest input, the second to the rest."""
        one, two = self._bare([first, second])
        one.truncate(self.longest // 2)
        two.truncate(self.longest - len(one.ids) - self._tokenizer.num_special_tokens_to_add(is_pair=True))
        both = self._tokenizer.post_process(one, two)
        return both.ids, both.type_ids

    def _count(self, text: str) -> int:
        """Return the number of tokens: one per ASCII punctuation mark, plus those of each word, from a cache.

        With BERT's tokenizer a word's tokens don't depend on its context. Most words have been seen before, and
        tokenizing the whole text takes twenty times as long.
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
                return self._counted([text])[0]
            known.update(zip(new, self._counted(new), strict=True))
        return sum(map(known.__getitem__, words)) + signs

    def _counted(self, texts: Sequence[str]) -> list[int]:
        # A lone surrogate can't be tokenized. It is replaced here, and the embedder refuses it.
        whole = [self._prefix + text.encode(errors="replace").decode() for text in texts]
        return [
            len(encoding.ids) - self._before if text else 0
            for text, encoding in zip(texts, self._bare(whole), strict=True)
        ]

    def _bare(self, texts: Sequence[str]) -> list[Any]:
        return self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)


def open_session(
    graph: str | bytes, weights: Mapping[str, "onnxruntime.OrtValue"] | None = None
) -> "onnxruntime.InferenceSession":
    """Return a session of a file's path, or of a graph whose weights must outlive it. Raises as onnxruntime does."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.enable_mem_pattern = False  # it would keep a memory plan for every input length
    if weights:
        options.add_external_initializers(list(weights), list(weights.values()))
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


class OnnxAddress(msgspec.Struct, frozen=True):
    """A folder, and what the address says of its model."""

    setting: str  # variable and value, for error messages
    folder: Path
    options: dict[str, str]


def onnx_address(variable: str, value: str, options: Sequence[str]) -> OnnxAddress:
    """Return the address in `onnx:FOLDER?maxTokens=256&precision=int8`, where `options` names what else it may say.

    Raises:
        ConfigurationError: the value has another form; the sentence names `variable` and `value`.
    """
    folder, _, query = value.removeprefix("onnx:").partition("?")
    found = dict(parse_qsl(query, keep_blank_values=True))
    setting = f"{variable}={value}"
    if not folder or (query and not found) or found.keys() - {"precision", "maxTokens", *options}:
        example = "".join(f", {option}=…" for option in options)
        raise ConfigurationError(
            f"{setting} must look like onnx:/models/name?maxTokens=256; allowed: precision{example}"
        )
    if found.get("precision", "int8") not in _GRAPHS:
        raise ConfigurationError(f"{setting}: precision must be {' or '.join(_GRAPHS)}")
    if (most := found.get("maxTokens", "512")) not in map(str, _TOKENS):
        raise ConfigurationError(f"{setting}: maxTokens={most} must be {_TOKENS[0]} to {_TOKENS[-1]}")
    return OnnxAddress(setting, Path(folder), found)


class OnnxModel:
    """The model of a folder: `tokenizer.json` and `model.onnx`, or `model_int8.onnx` for `precision=int8`."""

    def __init__(self, address: OnnxAddress, prefix: str = "") -> None:
        """Load it, and run the longest input. `prefix` is put before each text.

        Raises:
            ConfigurationError: a file is missing or damaged, or the model takes other inputs.
        """
        self.address = address
        self.precision = address.options.get("precision", "float32")
        graph = next((path for name in _GRAPHS[self.precision] if (path := address.folder / name).is_file()), None)
        if graph is None:
            raise self.wrong(f"{address.folder} has no {_GRAPHS[self.precision][0]}")
        longest = int(address.options.get("maxTokens", 0)) or min(
            [_USUAL]
            + [
                most
                for file, key in (
                    ("sentence_bert_config.json", "max_seq_length"),
                    ("tokenizer_config.json", "model_max_length"),
                )
                if isinstance(most := said_by(address, file).get(key), int) and most in _TOKENS
            ]
        )
        try:
            content = (address.folder / "tokenizer.json").read_text(encoding="utf-8")
            self.tokens = FileTokens(content, longest, prefix)
            self._session = open_session(str(graph))
            parts = [
                hashlib.sha256(content.encode()).hexdigest(),
                *map(_hash, sorted(graph.parent.glob(f"{graph.name}*"))),
            ]
        except Exception as error:  # each library raises its own
            raise self.wrong(f"can't be loaded: {error}") from error
        self.digests = parts  # of the tokenizer, the graph and its weights
        self._inputs = {
            each.name: np.int32 if "int32" in each.type else np.int64 for each in self._session.get_inputs()
        }
        if unknown := self._inputs.keys() - {"input_ids", "attention_mask", "token_type_ids"}:
            raise self.wrong(f"its model asks for {', '.join(sorted(unknown))}, which is unknown here")
        self.outputs = {each.name: len(each.shape) for each in self._session.get_outputs()}  # name -> dimensions
        try:
            self.run([self.tokens.last_id] * longest, next(iter(self.outputs)))
        except Exception as error:
            raise self.wrong(f"its model takes no {longest} tokens; add maxTokens=… ({error})") from error

    def run(self, ids: Sequence[int], output: str, types: Sequence[int] | None = None) -> NDArray[Any]:
        """Return an output for one input, without the dimension of the batch."""
        values = {"input_ids": ids, "attention_mask": [1] * len(ids), "token_type_ids": types or [0] * len(ids)}
        given = {name: np.array([values[name]], dtype=kind) for name, kind in self._inputs.items()}
        [found] = self._session.run([output], given)
        result: NDArray[Any] = np.asarray(found)[0]
        return result

    def wrong(self, sentence: str) -> ConfigurationError:
        """Return the error for a folder that can't be used."""
        return ConfigurationError(f"{self.address.setting}: {sentence}")


def said_by(address: OnnxAddress, file: str) -> dict[str, Any]:
    """Return what a file of the folder says; nothing if there is none. Raises ConfigurationError if it isn't JSON."""
    try:
        return msgspec.json.decode((address.folder / file).read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigurationError(f"{address.setting}: can't read {file}: {error}") from error


def _hash(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
