"""Tokens of a file are counted as the model reads them, whatever its kind."""

import pickle
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.model_server.onnx_model import FileTokens
from tests.tiny_models import cls_model, mean_model

if TYPE_CHECKING:
    from pathlib import Path

_TEXTS = st.text(st.characters(max_codepoint=127), max_size=30) | st.text(max_size=30) | st.just("the cat [SEP] sat")


@pytest.fixture(scope="module", params=[mean_model, cls_model])
def content(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder: Path = request.param(tmp_path_factory.mktemp("model"))
    return (folder / "tokenizer.json").read_text()


@settings(max_examples=200, deadline=None)
@given(text=_TEXTS, prefix=st.sampled_from(["", "passage: ", "a", "the"]))
def test_a_text_fits_by_its_count_exactly_if_the_model_reads_it_whole(content: str, text: str, prefix: str) -> None:
    tokens = FileTokens(content, 64, prefix)
    spare = 64 - 2 - tokens._before - tokens.max_tokens

    [count] = tokens.count([text])

    assert spare in (0, 2)
    if text.strip():
        assert count <= tokens.max_tokens + spare or len(tokens.ids(prefix + text)) > 64
        assert count > tokens.max_tokens or len(tokens.ids(prefix + text)) <= 64


def test_what_is_cut_has_the_longest_length(content: str) -> None:
    tokens = FileTokens(content, 16)

    assert tokens.cut("the cat sat") == tokens.ids("the cat sat")
    assert len(tokens.cut("word " * 100)) == 16
    assert tokens.cut("word " * 100)[-1] == tokens.ids("a")[-1]


def test_a_pair_is_cut_in_its_second_text_and_then_in_its_first(content: str) -> None:
    tokens = FileTokens(content, 16)

    ids, types = tokens.pair("word " * 100, "cat " * 100)

    assert (len(ids), types.count(1)) == (16, 6)
    assert tokens.pair("word", "cat")[1] == [0, 0, 0, 1, 1]


def test_another_process_counts_without_the_file(content: str) -> None:
    tokens = FileTokens(content, 64, "passage: ")

    other = pickle.loads(pickle.dumps(tokens))

    assert (other.max_tokens, other.count(["a cat"])) == (tokens.max_tokens, tokens.count(["a cat"]))
