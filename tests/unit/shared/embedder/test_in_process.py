"""A model in a folder is used as its files or its address say, and is refused at the start if that can't be right."""

import asyncio
import json
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from shared.embedder.in_process import InProcess, onnx_embedder
from shared.errors import Rejected, Unavailable
from shared.settings import ConfigurationError
from tests.tiny_models import LONGEST, cls_model, mean_model


async def begun(setting: str) -> InProcess:
    embedder = onnx_embedder(setting, threads=1)
    try:
        await embedder.start()
    finally:
        await embedder.close()
    return embedder


async def test_its_files_say_how_it_is_used(tmp_path: Path) -> None:
    embedder = await begun(f"onnx:{cls_model(tmp_path / 'pieces')}")

    assert embedder.model.name == "pieces"
    assert (embedder.loaded.document, embedder.loaded.query) == ("passage: ", "query: ")
    assert embedder.model.max_tokens < LONGEST - 2  # the prefix takes some


async def test_the_address_says_more_than_the_files(tmp_path: Path) -> None:
    embedder = await begun(f"onnx:{cls_model(tmp_path)}?pooling=mean&query=ask:%20&document=&maxTokens=32")

    assert (embedder.loaded.document, embedder.loaded.query, embedder.tokens.longest) == ("", "ask: ", 32)


async def test_a_known_family_is_known_by_the_folders_name(tmp_path: Path) -> None:
    embedder = await begun(f"onnx:{mean_model(tmp_path / 'e5-small-v2')}?pooling=mean")

    assert (embedder.loaded.document, embedder.loaded.query) == ("passage: ", "query: ")


async def test_whatever_changes_vectors_changes_the_digest(tmp_path: Path) -> None:
    folder = mean_model(tmp_path)
    settings = [
        f"onnx:{folder}?pooling=mean",
        f"onnx:{folder}?pooling=mean&document=a:%20",
        f"onnx:{folder}?pooling=max",
    ]
    digests = {(await begun(setting)).model.digest for setting in settings}
    (folder / "model.onnx.data").write_bytes(b"other weights")

    digests.add((await begun(settings[0])).model.digest)

    assert len(digests) == 4


async def test_eight_bits_are_another_file_and_another_model(tmp_path: Path) -> None:
    folder = mean_model(tmp_path)
    with pytest.raises(ConfigurationError, match=r"has no model_int8\.onnx"):
        await begun(f"onnx:{folder}?pooling=mean&precision=int8")
    (folder / "model.onnx").rename(folder / "model_quantized.onnx")

    embedder = await begun(f"onnx:{folder}?pooling=mean&precision=int8")

    assert embedder.model.precision == "int8"


async def test_no_vector_is_an_outage_and_not_a_result(tmp_path: Path) -> None:
    embedder = onnx_embedder(f"onnx:{mean_model(tmp_path)}?pooling=mean")
    await embedder.start()
    embedder._known = embedder.loaded._replace(run=lambda _: np.full(4, np.nan))

    with pytest.raises(Unavailable, match="can't be normalized"):
        await embedder.embed_documents(["word"])

    await embedder.close()


@pytest.mark.parametrize("how", ["fails", "cancelled", "closed"])
async def test_after_a_failure_or_for_nobody_no_more_texts_are_embedded(tmp_path: Path, how: str) -> None:
    embedder = onnx_embedder(f"onnx:{mean_model(tmp_path)}?pooling=mean", threads=1)
    await embedder.start()
    begun, held, rows = asyncio.Event(), threading.Event(), list[list[int]]()
    loop = asyncio.get_running_loop()

    def run(row: list[int]) -> NDArray[Any]:
        rows.append(row)
        loop.call_soon_threadsafe(begun.set)
        held.wait(60)  # a hang guard
        return np.full(4, np.nan if how == "fails" else 1.0)

    embedder._known = embedder.loaded._replace(run=run)
    embedding = asyncio.create_task(embedder.embed_documents(["one", "two", "three"]))
    await begun.wait()
    if how == "cancelled":
        embedding.cancel()
        await asyncio.wait([embedding])
    closing = asyncio.create_task(embedder.close()) if how == "closed" else None
    await asyncio.sleep(0)  # it has begun
    held.set()

    with pytest.raises(asyncio.CancelledError if how == "cancelled" else Unavailable):
        await embedding
    await (closing or embedder.close())
    assert len(rows) == 1


@pytest.mark.parametrize("wrong", ["not finite", "too long", "broken"])
async def test_documents_that_wait_end_together_but_for_one_at_fault(tmp_path: Path, wrong: str) -> None:
    embedder = onnx_embedder(f"onnx:{mean_model(tmp_path)}?pooling=mean", threads=1)
    await embedder.start()
    known, turn = embedder.loaded, asyncio.Event()
    at_fault = known.tokens.ids("two")

    def run(row: list[int]) -> NDArray[Any]:
        if row == at_fault and wrong == "broken":
            raise RuntimeError("no memory")
        return known.run(row) * (np.nan if row == at_fault and wrong == "not finite" else 1.0)

    embedder._known = known._replace(run=run)
    bad = ["one", "two" if wrong != "too long" else "two " * LONGEST, "one two"]
    ended = list[tuple[str, bool]]()

    async def document(name: str, texts: list[str]) -> list[NDArray[Any]]:
        try:
            return [*await embedder.embed_documents(texts)]
        finally:
            ended.append((name, turn.is_set()))
            asyncio.get_running_loop().call_soon(turn.set)

    documents = {"first": ["three"], "faulty": bad, "last": ["four", "one"]}
    first, faulty, last = await asyncio.gather(
        *(document(name, texts) for name, texts in documents.items()), return_exceptions=True
    )

    assert isinstance(faulty, {"not finite": Unavailable, "too long": Rejected, "broken": RuntimeError}[wrong])
    embedder._known = known
    assert not isinstance(first, BaseException)
    assert not isinstance(last, BaseException)
    assert np.array_equal(last, await embedder.embed_documents(["four", "one"]))
    assert [each for each in ended if each[0] != "faulty"] == [("first", False), ("last", False)]  # in one turn
    await embedder.close()


async def test_a_text_that_no_model_reads_whole_is_refused_before_it_is_tokenized(tmp_path: Path) -> None:
    embedder = onnx_embedder(f"onnx:{mean_model(tmp_path)}?pooling=mean", threads=1)
    await embedder.start()
    most = embedder.tokens.longest_text
    usual = ["one", "two " * 10, "one\n" + " " * 1000 + "two", "three " * (LONGEST // 6), f"one{' ' * (most - 6)}two"]

    assert len(await embedder.embed_documents(usual)) == len(usual)
    with pytest.raises(Rejected, match=rf"text 1 of 2 has {most + 1} characters; .* at most \d+ tokens"):
        await embedder.embed_documents(["one", "x" * (most + 1)])
    assert np.array_equal(await embedder.embed_query("two " * most), await embedder.embed_query("two " * LONGEST))
    await embedder.close()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("?pooling", "pooling must be one of"),
        ("?pooling=sum", "pooling must be one of"),
        ("?size=3", "must look like"),
        ("?maxTokens=4", "maxTokens=4 must be 16"),
        ("?precision=int4", "precision must be"),
        ("?maxTokens=300", "takes no 300 tokens"),
        ("", "says nothing that is known here"),
        ("tokenizer.json", "can't be loaded"),
        ("model.onnx", "has no model.onnx"),
        ("broken model.onnx", "can't be loaded"),
        ("broken tokenizer_config.json", "can't read tokenizer_config.json"),
        ("2_Dense", "layer after pooling"),
    ],
)
async def test_what_cannot_be_used_is_refused_by_name(tmp_path: Path, change: str, said: str) -> None:
    folder, query = mean_model(tmp_path), "?pooling=mean"
    if change == "" or change.startswith("?"):
        query = change
    elif change.startswith("broken "):
        (folder / change.removeprefix("broken ")).write_text("{")
    elif change.endswith("Dense"):
        (folder / change).mkdir()
    else:
        (folder / change).unlink()

    with pytest.raises(ConfigurationError, match=said) as caught:
        await begun(f"onnx:{folder}{query}")

    assert str(caught.value).startswith(f"SLUICE_EMBEDDER=onnx:{folder}{query}")


async def test_a_model_that_finds_nothing_near_is_refused(tmp_path: Path) -> None:
    folder = mean_model(tmp_path)  # its first token is the same for all texts

    with pytest.raises(ConfigurationError, match="is pooling=cls right"):
        await begun(f"onnx:{folder}?pooling=cls")


async def test_prompts_that_are_unknown_are_refused_unless_the_address_says_them(tmp_path: Path) -> None:
    folder = mean_model(tmp_path)
    said = {"prompts": {"search_query": "find: ", "other": ""}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(said))

    with pytest.raises(ConfigurationError, match="prompts search_query, other aren't known"):
        await begun(f"onnx:{folder}?pooling=mean")
    embedder = await begun(f"onnx:{folder}?pooling=mean&query=find: &document=")

    assert embedder.loaded.query == "find: "


async def test_a_link_to_a_model_is_named_as_the_link(tmp_path: Path) -> None:
    (tmp_path / "e5-tiny").symlink_to(mean_model(tmp_path))

    embedder = await begun(f"onnx:{tmp_path}/e5-tiny?pooling=mean")

    assert (embedder.model.name, embedder.loaded.query) == ("e5-tiny", "query: ")


async def test_a_pooling_that_is_unknown_is_refused(tmp_path: Path) -> None:
    folder = cls_model(tmp_path)
    (folder / "1_Pooling/config.json").write_text(json.dumps({"pooling_mode_weightedmean_tokens": True}))

    with pytest.raises(ConfigurationError, match="add pooling=mean or cls"):
        await begun(f"onnx:{folder}")


async def test_what_is_closed_holds_no_model(tmp_path: Path) -> None:
    embedder = onnx_embedder(f"onnx:{mean_model(tmp_path)}?pooling=mean")
    await embedder.start()
    model = weakref.ref(embedder.loaded.run)

    await embedder.close()

    assert embedder.model.name
    assert model() is None
