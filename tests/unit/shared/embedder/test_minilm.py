"""MiniLM is the model that it says it is."""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.embedder.minilm import MiniLm, let_go, multiplies_int8_exactly, package_folder, quantized, tensors
from shared.errors import Rejected
from shared.settings import ConfigurationError
from tests.bench import minilm_graph as graph
from tests.selection import CI_ONLY
from tests.unit.shared.embedder.bert_in_numpy import TEXTS, Bert, stored


def resident_kb(path: Path) -> int:
    """Return how much of a mapped file is in this process's memory."""
    kb = here = 0
    for line in Path("/proc/self/smaps").read_text("utf-8").splitlines():
        if not line.split()[0].endswith(":"):
            here = line.endswith(str(path))
        elif here and line.startswith("Rss:"):
            kb += int(line.split()[1])
    return kb


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system doesn't tell what is in memory")
def test_a_file_that_was_read_once_does_not_stay_in_memory_and_can_be_read_again(tmp_path: Path) -> None:
    (tmp_path / "weights").write_bytes(bytes(range(256)) * (8 << 10))
    file = np.memmap(tmp_path / "weights", dtype=np.uint8, mode="r")
    before = int(file.sum())
    kept = resident_kb(tmp_path / "weights")

    let_go(file)

    assert kept == 2048
    assert resident_kb(tmp_path / "weights") == 0
    assert int(file.sum()) == before


@pytest.fixture(scope="module")
def minilm() -> Iterator[MiniLm]:
    embedder = MiniLm(threads=2)
    asyncio.run(embedder.start())
    yield embedder
    asyncio.run(embedder.close())


@asynccontextmanager
async def started(embedder: MiniLm) -> AsyncIterator[MiniLm]:
    await embedder.start()
    try:
        yield embedder
    finally:
        await embedder.close()


async def test_vectors_equal_the_stored_reference(minilm: MiniLm) -> None:
    reference = stored()

    vectors = await minilm.embed_documents(TEXTS)

    assert set(reference) == set(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert float(reference[text] @ vector) >= 0.999999, text


@CI_ONLY
def test_the_stored_reference_is_what_plain_numpy_computes() -> None:
    bert, reference = Bert(package_folder()), stored()

    for text in TEXTS[:6]:
        assert np.abs(bert.embed(text) - reference[text]).max() < 1e-6, text


async def test_a_vector_is_the_same_bits_whatever_else_is_embedded(minilm: MiniLm) -> None:
    text = TEXTS[3]
    [alone] = await minilm.embed_documents([text])

    crowd = await asyncio.gather(*(minilm.embed_documents([*TEXTS[:6], text]) for _ in range(4)))

    for vectors in crowd:
        assert vectors[-1].tobytes() == alone.tobytes()
    assert (await minilm.embed_query(text)).tobytes() == alone.tobytes()


async def test_the_longest_text_is_embedded_whole(minilm: MiniLm) -> None:
    longest = "word " * 254
    other_end = "word " * 253 + "end"
    assert minilm.tokens.count([longest, other_end]) == [254, 254]

    first, second = await minilm.embed_documents([longest, other_end])

    assert not np.array_equal(first, second)
    with pytest.raises(Rejected, match=r"text 1 of 2 has 255 tokens; all-MiniLM-L6-v2 accepts at most 254"):
        await minilm.embed_documents(["short", longest + "word"])


async def test_a_longer_query_is_its_first_254_tokens(minilm: MiniLm) -> None:
    [longest] = await minilm.embed_documents(["word " * 254])

    assert np.array_equal(await minilm.embed_query("word " * 400), longest)


@CI_ONLY
async def test_a_query_of_any_length_lets_the_event_loop_go_on(minilm: MiniLm) -> None:
    longest: list[float] = []
    while len(longest) < 3 and min(longest, default=1.0) > 5 * 0.15:  # the machine may give others a turn
        embedding = asyncio.create_task(minilm.embed_query(f"a{len(longest)}. " * 1_000_000))
        gap, before = 0.0, time.perf_counter()
        while not embedding.done():
            await asyncio.sleep(0)
            gap, before = max(gap, time.perf_counter() - before), time.perf_counter()
        longest.append(gap)

    assert min(longest) <= 5 * 0.15  # with Python's lock, tokenizing took seconds of one turn


def test_counts_are_those_of_the_tokenizer_without_special_tokens(minilm: MiniLm) -> None:
    texts = [*TEXTS, "", "embeddings", "w" * 101]

    counts = minilm.tokens.count(texts)

    assert counts == [len(minilm.tokens.ids(text)) - 2 for text in texts]
    assert counts[-3:] == [0, 4, 1]


_PIECES = (
    st.text(st.characters(max_codepoint=127), max_size=12)
    | st.text(max_size=12)
    | st.sampled_from(["[CLS]", "[SEP", "[MASK]", "[unk]", "[UNK]x", "don't", "naïve", "東京", "\x7f", "e\u0301"])
    | st.sampled_from(
        ["w" * 101, "Harbour's", "‘word’s“", "한국", "=\u0338", "1\u20e3", "\xad", "\u200b", "\x1c", "\x85"]
    )
    | st.sampled_from(["\xa0", "\u2028", "\u3000"])
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.lists(_PIECES, max_size=8).map("".join), min_size=1, max_size=3))
def test_whatever_the_text_its_count_is_the_tokenizers(minilm: MiniLm, texts: list[str]) -> None:
    assert minilm.tokens.count(texts) == [len(minilm.tokens.ids(text)) - 2 for text in texts]


@CI_ONLY
def test_words_beyond_those_that_are_kept_are_counted_alike(minilm: MiniLm) -> None:
    texts = [" ".join(f"{word}harbour{n}" for word in range(1000)) for n in range(25)]

    first, *others = minilm.tokens.count(texts)

    assert minilm.tokens.count(texts) == [first, *others] == [len(minilm.tokens.ids(text)) - 2 for text in texts]


@pytest.mark.parametrize("kind", graph.TARGETS)
def test_each_graph_is_what_its_script_builds(kind: int | None) -> None:
    target = graph.TARGETS[kind]

    assert onnx.load(target, load_external_data=False) == graph.build(kind)
    assert target.stat().st_size < 100_000


async def test_eight_bits_stay_near_and_are_another_model(minilm: MiniLm) -> None:
    async with started(MiniLm(threads=1, precision="int8")) as int8:
        vectors = await int8.embed_documents(TEXTS)

    assert (int8.model.name, int8.model.precision) == (minilm.model.name, "int8")
    assert int8.model.digest != minilm.model.digest
    for text, vector in zip(TEXTS, vectors, strict=True):
        assert float(stored()[text] @ vector) >= 0.97, text


async def test_eight_bits_are_the_same_bits_whatever_else_is_embedded() -> None:
    text = TEXTS[3]
    async with started(MiniLm(threads=2, precision="int8")) as int8:
        [alone] = await int8.embed_documents([text])
        crowd = await asyncio.gather(*(int8.embed_documents([*TEXTS[:6], text]) for _ in range(4)))

    for vectors in crowd:
        assert vectors[-1].tobytes() == alone.tobytes()


@pytest.mark.skipif(not multiplies_int8_exactly(), reason="this CPU has no exact product of signed and unsigned bytes")
@CI_ONLY
async def test_eight_bits_are_the_same_bits_on_a_cpu_without_exact_int8_products(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with started(MiniLm(threads=1, precision="int8")) as signed:
        expected = await signed.embed_documents(TEXTS)
    monkeypatch.setattr("shared.embedder.minilm.multiplies_int8_exactly", lambda: False)

    async with started(MiniLm(threads=1, precision="int8")) as unsigned:
        vectors = await unsigned.embed_documents(TEXTS)

    assert unsigned.model == signed.model
    assert [vector.tobytes() for vector in vectors] == [vector.tobytes() for vector in expected]


@given(st.lists(st.lists(st.floats(-4, 4, width=32), min_size=3, max_size=3), min_size=1, max_size=5))
def test_a_quantized_matrix_is_the_matrix_within_half_a_step(rows: list[list[float]]) -> None:
    weight = np.array(rows, dtype=np.float32)

    for kind, zero in ((np.int8, 0), (np.uint8, 128)):
        result = quantized({"encoder.x.weight": weight, "encoder.x.bias": weight[0]}, kind)
        integers, scales = result["encoder.x.weight.quantized"], result["encoder.x.weight.scales"]

        back = (integers.astype(np.float32) - zero).T * scales[:, None]
        assert integers.dtype == np.dtype(kind)
        assert (np.abs(back - weight) <= scales[:, None] * 0.501).all()
        assert np.array_equal(result["encoder.x.bias"], weight[0])


def test_the_graph_asks_for_exactly_the_tensors_of_the_file() -> None:
    file = np.memmap(package_folder() / "model.safetensors", dtype=np.uint8, mode="r")

    shapes = {name: tensor.shape for name, tensor in tensors(file).items()}

    assert dict(graph.weights(graph.build())) == shapes


async def test_other_weights_stop_the_start_by_their_hash(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes((package_folder() / "tokenizer.json").read_bytes())
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    embedder = MiniLm(tmp_path)

    with pytest.raises(ConfigurationError, match=r"model\.safetensors has the SHA-256 [0-9a-f]{64}, not 53aa5117"):
        await embedder.start()
    await embedder.close()


@pytest.mark.parametrize("content", [None, b""])
async def test_a_missing_or_empty_file_stops_the_start(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_bytes(content)
    embedder = MiniLm(tmp_path)

    with pytest.raises(ConfigurationError, match=r"SLUICE_EMBEDDER=minilm: can't read .*tokenizer\.json"):
        await embedder.start()
    await embedder.close()


async def test_before_start_it_says_so() -> None:
    embedder = MiniLm(threads=1)

    with pytest.raises(RuntimeError, match="before start"):
        _ = embedder.model
    with pytest.raises(RuntimeError, match="before start"):
        await embedder.embed_documents(["text"])
    await embedder.close()


async def test_a_query_passes_the_documents_that_wait() -> None:
    embedder = MiniLm(threads=1)
    await embedder.start()
    documents = asyncio.create_task(embedder.embed_documents(["word " * 250] * 40))
    await embedder.embed_query("warm")  # the documents are in the queue by now, or will be
    await embedder.embed_query("a query")

    assert not documents.done()

    documents.cancel()
    await embedder.close()


@CI_ONLY
def test_nothing_heavy_is_imported_and_nothing_is_printed() -> None:
    script = (
        "import asyncio, sys\n"
        "from shared.embedder.open import open_embedder\n"
        "from shared.embedder.minilm import MiniLm\n"
        "assert not {'onnxruntime', 'tokenizers'} & set(sys.modules), 'imported before start'\n"
        "async def main():\n"
        "    embedder = open_embedder('minilm:')\n"
        "    await embedder.start()\n"
        "    await embedder.embed_query('text')\n"
        "    await embedder.close()\n"
        "asyncio.run(main())\n"
        "heavy = {'torch', 'onnx', 'transformers', 'sentence_transformers', 'ollama', 'huggingface_hub'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )

    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, timeout=60, check=False)

    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
