"""Chunks of any text: nothing lost, nothing too long, and edits cost what they change."""

import random
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.ingest_worker.chunk import chunks, context_before, version_chunks
from services.ingest_worker.text_blocks import blocks
from shared.contracts import Chunk
from shared.errors import Rejected
from shared.ids import text_hash
from tests.fakes.state import GENERATION
from tests.fakes.tokens import Bytes
from tests.selection import CI_ONLY
from tests.unit.services.operator_cli.verify.builders import a_version

_EXAMPLES = settings(deadline=None)


_FRAGMENTS = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=60),
    st.sampled_from(
        [
            "\n",
            "\n\n",
            " ",
            "\t",
            "# ",
            "## Title\n",
            "===\n",
            "---\n",
            "```\n",
            "~~~",
            "    code\n",
            "- item\n",
            "1. one\n",
            "| a | b |\n",
            "|---|\n",
            "A sentence of some words. ",
            "wordwordword " * 20,
            "x" * 900,
            "句子。",
            " ".join(["word"] * 150) + ".",
            "\u0301",
            "e\u0301",
            "\U0001f468\u200d\U0001f469",
        ]
    ),
)
_TEXTS = st.lists(_FRAGMENTS, max_size=40).map(lambda parts: unicodedata.normalize("NFC", "".join(parts)))
_SIZES = st.integers(100, 2000)
_STRUCTURED = st.booleans()


def _pages(text: str, shares: Sequence[float]) -> tuple[int, ...]:
    return (0, *sorted(int(share * len(text)) for share in shares))


@st.composite
def _cases(draw: st.DrawFn) -> tuple[str, int, tuple[int, ...], bool]:
    text = draw(_TEXTS)
    return text, draw(_SIZES), _pages(text, draw(st.lists(st.floats(0, 1), max_size=4))), draw(_STRUCTURED)


def _cut(case: tuple[str, int, tuple[int, ...], bool], max_tokens: int = 10**6) -> tuple[Chunk, ...]:
    text, size, pages, structured = case
    return chunks(text, tokens=Bytes(max_tokens), size=size, pages=pages, structured=structured)


@_EXAMPLES
@given(_cases(), st.integers(8, 400))
def test_chunks_and_the_white_space_between_them_are_the_text(
    case: tuple[str, int, tuple[int, ...], bool], max_tokens: int
) -> None:
    text = case[0]
    at, rebuilt = 0, ""

    for order, chunk in enumerate(_cut(case, max_tokens)):
        assert chunk.order == order
        assert chunk.start >= at
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunk.text.strip()
        gap = text[at : chunk.start]
        assert not gap.strip()
        rebuilt += gap + chunk.text
        at = chunk.end

    assert not text[at:].strip()
    assert rebuilt + text[at:] == text


@pytest.mark.feature(103)
@_EXAMPLES
@given(_cases(), st.integers(2, 400))
def test_no_chunk_is_longer_than_its_size_or_the_models_limit(
    case: tuple[str, int, tuple[int, ...], bool], max_tokens: int
) -> None:
    for chunk in _cut(case, max_tokens):
        assert len(chunk.text) <= case[1]
        assert chunk.tokens == -(-len(chunk.embedded.encode()) // 3) <= max_tokens


@pytest.mark.feature(108, 214)
@_EXAMPLES
@given(st.lists(st.text("abc .\n#-|", min_size=1, max_size=300), max_size=30), _SIZES, _STRUCTURED)
def test_every_chunk_but_the_last_has_a_hundred_characters(parts: list[str], size: int, structured: bool) -> None:
    # Long runs of white space may force a shorter one, and text that is all gaps isn't what this is about.
    text = " ".join("".join(parts).split(" ")).replace("\n\n\n", "\n")
    while "  " in text or "\n\n\n" in text:
        text = text.replace("  ", " ").replace("\n\n\n", "\n")

    found = _cut((text, size, (), structured))

    for chunk, following in pairwise(found):
        if "|" in following.text:  # a row, which isn't torn to fill the chunk before it
            continue
        # In so short ones words are cut, and a cut beside white space leaves that out.
        assert (following.start - chunk.start if size < 200 else len(chunk.text)) >= 100
        assert len(chunk.text) <= size


@_EXAMPLES
@given(_cases())
def test_the_same_text_gives_the_same_chunks_in_nfc_with_their_hash_and_page(
    case: tuple[str, int, tuple[int, ...], bool],
) -> None:
    found = _cut(case)

    assert found == _cut(case)
    for chunk in found:
        assert unicodedata.is_normalized("NFC", chunk.text)
        assert chunk.hash == text_hash(chunk.hashed)
        assert chunk.page == max(number for number, start in enumerate(case[2], start=1) if start <= chunk.start)


@_EXAMPLES
@given(_cases(), st.lists(st.tuples(st.floats(0, 1), st.integers(1, 4)), max_size=4))
def test_no_chunk_is_of_two_parts_unless_both_are_small(
    case: tuple[str, int, tuple[int, ...], bool], shares: list[tuple[float, int]]
) -> None:
    text, size, pages, structured = case
    parts = sorted((int(share * len(text)), depth) for share, depth in shares)

    found = chunks(text, tokens=Bytes(10**6), size=size, pages=pages, parts=parts, structured=structured)

    assert "".join("".join(chunk.text for chunk in found).split()) == "".join(text.split())
    for chunk in found:
        within = [at for at, _ in parts if chunk.start < at < chunk.end and text[chunk.start : at].strip()]
        headings = [block.end for block in blocks(chunk.text, structured=structured) if block.kind == "heading"]
        whole = all(text[chunk.start + max(headings, default=0) : at].strip() == "" for at in within)
        lengths = [end - start for start, end in pairwise([chunk.start, *within, chunk.end])]
        assert whole or max(lengths) < 100


@pytest.mark.feature(105)
@_EXAMPLES
@given(_cases(), st.integers(0, 400))
def test_context_is_the_text_just_before_and_no_longer_than_asked(
    case: tuple[str, int, tuple[int, ...], bool], overlap: int
) -> None:
    text = case[0]

    for chunk in _cut(case):
        context = context_before(text, chunk.start, overlap)
        assert len(context) <= overlap
        assert text[: chunk.start].rstrip().endswith(context)


@pytest.mark.feature(221)
@_EXAMPLES
@given(st.sampled_from([99, 100, 2000, 2001]) | st.integers(-100, 3000))
def test_a_size_is_taken_from_100_to_2000(size: int) -> None:
    if 100 <= size <= 2000:
        assert chunks("text", tokens=Bytes(100), size=size)
        assert version_chunks(a_version(chunk_size=size), "text", (), generation=GENERATION, tokens=Bytes(100))
        return
    with pytest.raises(ValueError, match=rf"chunk size {size} must be in \[100, 2000\]"):
        chunks("text", tokens=Bytes(100), size=size)
    with pytest.raises(Rejected, match=rf"chunk size {size} must be in \[100, 2000\]"):
        version_chunks(a_version(chunk_size=size), "text", (), generation=GENERATION, tokens=Bytes(100))


@pytest.mark.feature(107, 222)
@_EXAMPLES
@given(_SIZES, st.data())
def test_an_overlap_is_taken_from_none_to_half_of_the_size(size: int, data: st.DataObject) -> None:
    overlap = data.draw(st.sampled_from([-1, 0, size // 2, size // 2 + 1]) | st.integers(-100, 1100))
    asked = a_version(chunk_size=size, chunk_overlap=overlap)

    if 0 <= overlap <= size // 2:
        assert chunks("text", tokens=Bytes(100), size=size, overlap=overlap)
        assert version_chunks(asked, "text", (), generation=GENERATION, tokens=Bytes(100))
        return
    with pytest.raises(ValueError, match=rf"chunk overlap {overlap} must be in \[0, {size // 2}\]"):
        chunks("text", tokens=Bytes(100), size=size, overlap=overlap)
    with pytest.raises(Rejected, match=rf"chunk overlap {overlap} must be in \[0, {size // 2}\]"):
        version_chunks(asked, "text", (), generation=GENERATION, tokens=Bytes(100))


def _document(seed: int) -> list[str]:
    source = random.Random(seed)

    def words(count: int) -> str:
        return " ".join("".join(source.choices("abcdefghijkl", k=source.randint(2, 9))) for _ in range(count))

    return [
        f"## {words(3)}" if source.random() < 0.1 else ". ".join(words(12) for _ in range(source.randint(1, 8))) + "."
        for _ in range(60)
    ]


@CI_ONLY
@_EXAMPLES
@given(st.integers(0, 10**6), st.integers(0, 59), st.sampled_from(["word", "insert", "delete"]))
def test_one_edited_paragraph_renews_few_chunks(seed: int, at: int, edit: str) -> None:
    paragraphs = _document(seed)
    before = {chunk.hash for chunk in _cut(("\n\n".join(paragraphs), 800, (), True))}
    match edit:
        case "word":
            paragraphs[at] += " Changed."
        case "insert":
            paragraphs.insert(at, "A paragraph that was not there before, neither long nor short.")
        case "delete":
            del paragraphs[at]

    after = _cut(("\n\n".join(paragraphs), 800, (), True))

    assert sum(chunk.hash not in before for chunk in after) <= 12  # of about 40; 2 is usual
