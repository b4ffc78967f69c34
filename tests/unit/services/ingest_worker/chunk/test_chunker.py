"""The sizes that a version is chunked in, and chunks that need no chunker."""

from typing import Any

import msgspec
import pytest

from services.ingest_worker.chunk import from_prepared, version_chunks
from shared.contracts import Chunk, PreparedChunk
from shared.errors import Rejected
from shared.ids import text_hash
from shared.inputs.prepared_chunks import prepared_text, quality
from shared.state.index import Generation
from tests.fakes.state import GENERATION
from tests.fakes.tokens import Characters, Words
from tests.unit.services.operator_cli.verify.builders import a_version

TEXT = " ".join(f"Sentence {number} says as much as those before it." for number in range(100))


def _made(generation: Generation, **asked: int) -> tuple[Chunk, ...]:
    return version_chunks(a_version(**asked), TEXT, (), generation=generation, tokens=Words(150))


def test_a_version_is_chunked_in_the_sizes_of_the_generation_unless_it_has_its_own() -> None:
    generation = msgspec.structs.replace(GENERATION, chunk_size=800, chunk_overlap=100)

    usual, small, bare = _made(generation), _made(generation, chunk_size=150), _made(generation, chunk_overlap=0)

    assert 400 < max(len(chunk.text) for chunk in usual) <= 800
    assert max(len(chunk.text) for chunk in small) <= 150
    assert {chunk.context_before is None for chunk in usual[1:]} == {False}
    assert max(len(chunk.context_before or "") for chunk in small) <= 75, "half of its own size is the most"
    assert {chunk.context_before for chunk in bare} == {None}
    assert [chunk.text for chunk in bare] == [chunk.text for chunk in usual]


def test_an_overlap_of_its_own_that_a_smaller_build_has_no_room_for_is_what_fits() -> None:
    made = _made(msgspec.structs.replace(GENERATION, chunk_size=200, chunk_overlap=0), chunk_overlap=300)

    assert 0 < max(len(chunk.context_before or "") for chunk in made) <= 100


@pytest.mark.feature(102)
def test_a_size_in_tokens_is_kept_by_the_models_count() -> None:
    generation = msgspec.structs.replace(GENERATION, chunk_size=120, chunk_unit="tokens")

    found = _made(generation)

    assert 40 < max(chunk.tokens for chunk in found) <= 120
    assert max(len(chunk.text) for chunk in found) <= 480


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"chunk_size": 99}, "chunk size 99 must be in [100, 2000] characters"),
        ({"chunk_size": 2001}, "chunk size 2001 must be in [100, 2000] characters"),
        ({"chunk_size": 200, "chunk_overlap": 101}, "chunk overlap 101 must be in [0, 100] characters, half of the"),
    ],
)
def test_a_size_that_cannot_be_is_refused(asked: dict[str, int], sentence: str) -> None:
    with pytest.raises(Rejected) as caught:
        _made(GENERATION, **asked)

    assert caught.value.code == "chunk_size"
    assert str(caught.value).startswith(sentence)


def test_ready_made_chunks_have_their_place_in_their_text_and_are_known_by_what_is_embedded() -> None:
    ready = [
        PreparedChunk(text="One."),
        PreparedChunk(text="Two,\n\nand more.", embedding="second", page=4, section="S"),
    ]

    found = from_prepared(ready, Words(150))

    assert [prepared_text(ready)[chunk.start : chunk.end] for chunk in found] == ["One.", "Two,\n\nand more."]
    assert [chunk.hash for chunk in found] == [text_hash("One."), text_hash("second")]
    assert [chunk.tokens for chunk in found] == [1, 1]
    assert (found[1].page, found[1].section, found[1].type) == (4, "S", "semantic")


def test_a_ready_made_chunk_that_the_model_cannot_take_is_named() -> None:
    ready = [PreparedChunk(text="a"), PreparedChunk(text="b", embedding="b " * 151, metadata={"chunk_id": "x7"})]

    with pytest.raises(Rejected) as caught:
        from_prepared(ready, Words(150))

    assert caught.value.code == "chunk_too_long"
    assert str(caught.value) == (
        "chunk 1 (x7) has 151 tokens, the model takes 150: make it shorter, or give it a shorter embeddingText"
    )


@pytest.mark.parametrize(
    ("text", "kind", "score"),
    [
        # Nine words, all distinct, five terms; it begins and ends well, and is short.
        ("The river rose two metres in the night again.", "paragraph", 0.3 * 8 / 9 + 0.4 * 5 / 9 + 0.3 * 2 / 3),
        ("and so on and so on", "paragraph", 0.3 * 3 / 6 + 0 + 0),
        ("?!", "paragraph", 0.0),
        ("x = 1", "code", 0.3 + 0.4 / 2 + 0.2),
    ],
)
def test_the_semantic_score_weighs_diversity_density_and_completeness(text: str, kind: str, score: float) -> None:
    assert quality(text, kind).score == pytest.approx(score, abs=0.0006)


PAGES = "# Tea\n\nIt grows on hills.\n\n## Green\n\nIt is steamed at once."


def _prefixes(text: str = PAGES, tokens: int = 150, **about: Any) -> list[str]:
    generation = msgspec.structs.replace(GENERATION, chunk_size=100)
    document = a_version(text_format="markdown", **about)
    made = version_chunks(document, text, (), generation=generation, tokens=Words(tokens))
    bare = version_chunks(a_version(text_format="markdown"), text, (), generation=generation, tokens=Words(tokens))
    plain = [msgspec.structs.replace(chunk, prefix="") for chunk in made]
    assert plain == [msgspec.structs.replace(chunk, prefix="") for chunk in bare], (
        "only the prefix depends on the title"
    )
    return [chunk.prefix for chunk in made]


@pytest.mark.parametrize(
    ("title", "first"),
    [
        ("Drinks of the world", "Drinks of the world > Tea"),
        ("Tea", "Tea"),
        ("Te", "Te > Tea"),
        (None, "Tea"),
        ("s/tea.md", "Tea"),
        ("C:\\tea", "Tea"),
        ("tea.pdf", "Tea"),
        ("kettle-3", "Tea"),  # what the file is called
        ("Kettles of 1900", "Kettles of 1900 > Tea"),
        ("All\n about\ttea", "All about tea > Tea"),
    ],
)
def test_a_chunk_says_where_it_is_from_by_a_readable_title_and_its_section(title: str | None, first: str) -> None:
    assert _prefixes(title=title, path="things/kettle-3.md", filename="Kettles of 1900.md")[0] == first


def test_a_prefix_takes_32_tokens_at_most_and_only_what_the_limit_leaves() -> None:
    title = " ".join(f"word{number}" for number in range(40))
    text = "It grows on hills in the rain."

    assert _prefixes(text, title=title) == [" ".join(title.split()[:32])]
    assert _prefixes(text, tokens=12, title=title) == [" ".join(title.split()[:4])]
    assert _prefixes(text, tokens=8, title=title) == [""]
    assert _prefixes("\n\n".join(["one two three"] * 9), tokens=3, title=title)[0] == ""


@pytest.mark.parametrize("words", [3, 4])
def test_a_chunk_as_long_as_the_limit_without_title_and_section_has_no_prefix(words: int) -> None:
    text = " ".join(["tea"] * words)

    [chunk, *_] = version_chunks(a_version(), text, (), generation=GENERATION, tokens=Words(3))

    assert chunk.prefix == ""


def test_a_title_without_blanks_is_cut_within_a_word() -> None:
    document = a_version(title="茶" * 100)

    [chunk] = version_chunks(document, "Tea.", (), generation=GENERATION, tokens=Characters(512, each=1))

    assert chunk.prefix == "茶" * 32


def test_ready_made_chunks_are_embedded_as_they_were_sent() -> None:
    [chunk] = from_prepared([PreparedChunk(text="One.", section="Tea")], Words())

    assert (chunk.prefix, chunk.embedded) == ("", "One.")
