import random
import tracemalloc
from collections.abc import Sequence

import pytest

from services.ingest_worker.chunk import chunks, context_before
from services.ingest_worker.text_blocks import blocks
from shared.contracts import Chunk
from shared.ids import text_hash
from tests.fakes.tokens import Characters
from tests.selection import CI_ONLY


def _chunks(text: str, *, size: int = 800, structured: bool = True, pages: Sequence[int] = ()) -> tuple[Chunk, ...]:
    return chunks(text, tokens=Characters(10_000), size=size, structured=structured, pages=pages)


def _words(seed: int, length: int) -> str:
    source = random.Random(seed)
    text = ""
    while len(text) < length:
        sentence = " ".join("".join(source.choices("abcdefghij", k=source.randint(2, 9))) for _ in range(10))
        text += sentence.capitalize() + ". "
    return text[: length - 1].rstrip(" .") + "."


def _paragraphs(count: int, length: int) -> list[str]:
    return [_words(number, length) for number in range(count)]


def _renewed(before: str, after: str) -> int:
    known = {chunk.hash for chunk in _chunks(before)}
    return sum(chunk.hash not in known for chunk in _chunks(after))


def _document(paragraphs: Sequence[str]) -> str:
    return "\n\n".join(paragraphs)


def test_twenty_long_paragraphs_are_twenty_chunks_and_an_edit_is_one() -> None:
    paragraphs = [_words(number, 500 + 10 * number) for number in range(20)]
    edited = [*paragraphs[:7], paragraphs[7].replace(" ", " indeed ", 1), *paragraphs[8:]]

    assert [chunk.text for chunk in _chunks(_document(paragraphs))] == paragraphs
    assert _renewed(_document(paragraphs), _document(edited)) == 1
    assert _chunks(_document(paragraphs[:5])) == _chunks(_document(paragraphs))[:5]


@pytest.mark.parametrize(("count", "length"), [(2000, 300), (2000, 100), (1000, 250), (60, 700)])
@CI_ONLY
def test_a_paragraph_inserted_before_many_alike_renews_few(count: int, length: int) -> None:
    paragraphs = _paragraphs(count, length)
    before = _document(paragraphs)

    renewed = [
        _renewed(before, _document([*paragraphs[:at], _words(9999 + at, length), *paragraphs[at:]]))
        for at in (0, 1, count // 2)
    ]

    assert sum(renewed) <= 4 * len(renewed)


def test_a_word_inserted_into_one_endless_paragraph_renews_few() -> None:
    text = _words(1, 60_000)

    assert _renewed(text, "Well then. " + text) <= 8
    assert _renewed(text.replace(".", ""), "well then " + text.replace(".", "")) <= 12


def test_chunks_carry_their_place_section_hash_and_tokens() -> None:
    green, sencha, black = _words(1, 500), _words(2, 500), _words(3, 700)
    text = f"# Tea\n\nIntro.\n\n## Green\n\n{green}\n\n### Sencha\n\n{sencha}\n\n## Black\n\n{black}"

    found = _chunks(text)

    assert [chunk.section for chunk in found] == ["Tea", "Tea > Green > Sencha", "Tea > Black"]
    assert [chunk.order for chunk in found] == [0, 1, 2]
    assert found[1].text.startswith("### Sencha\n\n")
    for chunk in found:
        assert chunk.hash == text_hash(chunk.text)
        assert text[chunk.start : chunk.end] == chunk.text
        assert chunk.tokens == -(-len(chunk.text) // 4)
        assert chunk.type == "section"
        assert chunk.page is None


def test_wikis_headings_make_sections() -> None:
    green, black = _words(1, 500), _words(2, 500)

    found = _chunks(f" = Tea = \n\n = = Green = = \n{green} \n = = Black = = \n{black} \n")

    assert [chunk.section for chunk in found] == ["Tea > Green", "Tea > Black"]


def test_text_that_is_not_wrapped_has_a_paragraph_on_each_line() -> None:
    lines = [_words(number, 350) for number in range(8)]
    text = "\n".join(["A short line before", lines[0], *lines[1:]])

    found = _chunks(text, structured=False)

    assert all(chunk.text.splitlines()[-1] in lines for chunk in found)
    assert found[0].text.startswith("A short line before\n")


def test_a_chunk_ends_where_the_words_change() -> None:
    tea = [f"Green leaves give a mild and grassy kettle number {n} of tea." for n in "abcdefgh"]
    ships = [f"Heavy anchors hold the sailing vessel at mooring place {n}." for n in "abcdefgh"]
    text = "\n\n".join(tea + ships)

    first, *_ = _chunks(text)

    assert first.text == "\n\n".join(tea)


def test_a_heading_is_never_left_alone() -> None:
    text = f"{_words(1, 700)}\n\n## Next\n\n{_words(2, 795)}\n\n## Last\n\nEnd."

    for chunk in _chunks(text):
        assert not chunk.text.splitlines()[-1].startswith("#")


@pytest.mark.feature(97)
def test_a_code_block_and_a_table_stay_whole() -> None:
    code = "```python\n" + "\n\n".join(f"def f{n}():\n    return {n}" for n in range(15)) + "\n```"
    table = "| a | b |\n|---|---|\n" + "\n".join(f"| {n} | row number {n} |" for n in range(20))
    text = f"{_words(1, 300)}\n\n{code}\n\n{_words(2, 300)}\n\n{table}\n\n{_words(3, 300)}"

    found = _chunks(text)

    assert sum(code in chunk.text for chunk in found) == 1
    assert sum(table in chunk.text for chunk in found) == 1


def test_a_code_block_too_long_is_cut_between_lines_and_keeps_its_indent() -> None:
    lines = [f"    if x == {n}: return {n}" for n in range(60)]

    found = _chunks("```\ndef f(x):\n" + "\n".join(lines) + "\n```")

    assert len(found) > 1
    assert {chunk.type for chunk in found} == {"code"}
    assert all(line in lines for chunk in found[1:] for line in chunk.text.splitlines() if line != "```")


def test_a_long_table_is_cut_between_rows_and_a_long_list_between_items() -> None:
    table = "\n".join(f"| {n} | {_words(n, 60)} |" for n in range(40))
    items = "\n".join(f"- {_words(n, 60)}\n  more of {n}" for n in range(40))

    assert all(chunk.text.startswith("|") and chunk.text.endswith("|") for chunk in _chunks(table))
    assert {chunk.type for chunk in _chunks(table)} == {"table"}
    assert all(chunk.text.startswith("- ") for chunk in _chunks(items))
    assert {chunk.type for chunk in _chunks(items)} == {"list"}


@pytest.mark.feature(100, 106)
def test_long_paragraphs_are_cut_after_sentences_also_without_spaces() -> None:
    assert all(chunk.text.endswith(".") for chunk in _chunks(_words(1, 5000)))
    chinese = "这条河在夜里涨了起来,桥还在那里。" * 200
    assert all(chunk.text.endswith("。") for chunk in _chunks(chinese))
    assert all(len(chunk.text) > 400 for chunk in _chunks(chinese)[:-1])


@pytest.mark.feature(96)
def test_no_combining_mark_or_joined_emoji_is_torn_off() -> None:
    marks = "xq\u0323\u0301" * 1000
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467" * 500

    assert not any(chunk.text[0] in "\u0323\u0301" for chunk in _chunks(marks))
    assert all(chunk.text[0] == "\U0001f468" for chunk in _chunks(family))


def test_a_tiny_end_joins_its_neighbour_and_a_small_document_is_one_chunk() -> None:
    assert len(_chunks(f"{_words(1, 700)}\n\nThe end.")) == 1
    assert [chunk.text for chunk in _chunks("\n\n Short. \n")] == ["Short."]
    assert _chunks(" \n\n\t") == ()


def test_pages_are_numbered_and_open_chunks() -> None:
    pages = [_words(number, 900) for number in range(3)]
    text = "\n\n".join([pages[0], pages[1], "", pages[2]]).replace("\n\n\n\n", "\n\n")
    starts = (0, 902, 1804, 1804)

    found = _chunks(text, pages=starts)

    assert {chunk.page for chunk in found} == {1, 2, 4}
    assert {chunk.start > 901 for chunk in found if chunk.page == 2} == {True}
    assert {chunk.start for chunk in found} >= {902, 1804}


def test_a_chunk_of_several_pages_knows_where_each_starts() -> None:
    first, second, last = "First slide.", "Second slide.", "Last slide."
    text = f"{first}\n\n{second}\n\n{last}"

    (chunk,) = _chunks(text, pages=[0, text.index(second), text.index(last), text.index(last)])

    assert (chunk.page, chunk.page_end) == (1, 4)
    assert chunk.page_starts == ((text.index(second), 2), (text.index(last), 4))


def test_only_structured_types_have_headings() -> None:
    text = f"# a comment\n\n{_words(1, 300)}"

    assert _chunks(text)[0].section == "a comment"
    assert _chunks(text, structured=False)[0].section is None


@pytest.mark.parametrize("size", [-1, 0, 99, 2001])
def test_a_size_out_of_range_is_refused(size: int) -> None:
    with pytest.raises(ValueError, match=rf"^chunk size {size} must be in \[100, 2000\] characters$"):
        chunks("text", tokens=Characters(10_000), size=size)


@pytest.mark.parametrize(("size", "overlap"), [(800, -1), (800, 401), (100, 51)])
def test_an_overlap_out_of_range_is_refused(size: int, overlap: int) -> None:
    with pytest.raises(ValueError, match=rf"^chunk overlap {overlap} must be in \[0, {size // 2}\] characters"):
        chunks("text", tokens=Characters(10_000), size=size, overlap=overlap)


def test_overlap_changes_no_chunk_and_context_before_gives_it() -> None:
    text = _document(_paragraphs(10, 600))
    found = chunks(text, tokens=Characters(10_000), overlap=100)

    assert found == _chunks(text)
    assert context_before(text, found[0].start, 100) == ""
    context = context_before(text, found[1].start, 100)
    assert found[0].text.endswith(context)
    assert 80 < len(context) <= 100
    assert found[0].text[-len(context) - 1] == " "


def test_a_chunk_over_the_models_limit_is_cut_again_into_even_pieces() -> None:
    found = chunks(_document(_paragraphs(10, 790)), tokens=Characters(max_tokens=100))

    assert max(chunk.tokens for chunk in found) <= 100
    assert min(len(chunk.text) for chunk in found) >= 100


def test_a_model_that_takes_not_one_character_is_named() -> None:
    with pytest.raises(ValueError, match="the character 'x' has 1 tokens, the model takes 0"):
        chunks("xx", tokens=Characters(max_tokens=0))


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("# a\ntext\n## b #\n", ["heading", "paragraph", "heading"]),
        ("Title\n===\nSub\n---\ntext", ["heading", "heading", "paragraph"]),
        ("two\nlines\n---", ["paragraph"]),
        ("#hashtag\n####### seven", ["paragraph"]),
        ("    # indented code", ["paragraph"]),
        ("```\n# no\n\n- no\n```\nafter", ["code", "paragraph"]),
        ("~~~~\n~~~\n```\n~~~~\nafter", ["code", "paragraph"]),
        ("```never closed\n\n# no", ["code"]),
        ("``` inline ``` code", ["paragraph"]),
        ("text:\n- a\n- b\n\n  more\n\n- c\n\nafter", ["paragraph", "list", "paragraph"]),
        ("1. a\n   ```\n   # no\n\n   x\n   ```\n2. b\n# h", ["list", "heading"]),
        ("| a |\n|---|\n| 1 |\ntext", ["table", "paragraph"]),
        ("a | b\n--|--\n1 | 2\n\ntext | more", ["table", "record"]),
        ("Kai: B2; Schiff: Skua\n\nNote: this; that", ["record", "paragraph"]),
        ("a | b\nno delimiter", ["paragraph"]),
        (" = Tea = \n text \n == Green ==\nmore", ["heading", "paragraph", "heading", "paragraph"]),
        ("= = Black = =\n= Not\nx = 1 =\n= " + "y" * 200 + " =", ["heading", "paragraph"]),
    ],
)
def test_markdown_blocks(text: str, kinds: list[str]) -> None:
    assert [block.kind for block in blocks(text, structured=True)] == kinds


_HOSTILE = [
    *("x", "1", ".", "|", "`", "#", "\n", " ", "\t", "\u5b57", "\u3002", "\u0301", "\u200d"),
    *("# ", "#\n", "```\n", "~~~~\n~~~\n", "- a\n", "- a\n\n", "1. ", "|a\n", "-|", "a|b\n", "=\n"),
    *("word ", ". ", '."', "a\n", "a  \n\n\n b "),
]


@pytest.mark.timeout(60)  # a hang guard: what is quadratic takes minutes
@pytest.mark.parametrize("piece", _HOSTILE)
@CI_ONLY
def test_time_is_linear_in_monotonous_text(piece: str) -> None:
    text = (piece * 100_000)[:100_000] + "end"

    found = _chunks(text)

    assert found[-1].end == len(text)
    assert max(len(chunk.text) for chunk in found) <= 800


_HEADER = "| Dienst | Tor |\n| --- | --- |"


def _table(rows: int, width: int = 30) -> str:
    return "\n".join([_HEADER, *(f"| d{row:03} {'x' * width} | {8000 + row} |" for row in range(rows))])


@pytest.mark.parametrize("max_tokens", [10_000, 60])
def test_each_chunk_of_a_table_that_is_cut_has_its_header(max_tokens: int) -> None:
    text = f"# Dienste\n\n{_table(60)}\n\nEnde."
    first, *rest = chunks(text, tokens=Characters(max_tokens), size=400)

    assert first.table_header is None
    assert f"{_HEADER}\n| d000" in first.text
    assert len(rest) > 5
    for chunk in rest:
        assert chunk.table_header == _HEADER
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunk.text.startswith("| d")
        assert chunk.embedded == f"{_HEADER}\n{chunk.text}"
        assert chunk.hash == text_hash(chunk.hashed)
        assert chunk.tokens == -(-len(chunk.embedded) // 4) <= max_tokens


def test_a_table_in_a_quotation_has_its_header_in_each_chunk() -> None:
    quoted = "\n".join(f"> {line}" for line in ["**Stand** Mai", *_table(40).split("\n")])
    first, *rest = chunks(quoted, tokens=Characters(10_000), size=400)

    assert "\n> | d000" in first.text
    for chunk in rest:
        assert chunk.table_header == "> **Stand** Mai\n\n> | Dienst | Tor |\n> | --- | --- |"
        assert chunk.text.startswith("> | d")


def test_a_header_is_never_cut_from_its_first_row() -> None:
    for before in range(0, 400, 7):
        found = chunks(f"{'wort ' * (before // 5)}\n\n{_table(9)}", tokens=Characters(10_000), size=400)

        assert all(chunk.table_header or f"{_HEADER}\n| d000" in chunk.text for chunk in found if "| d" in chunk.text)


@pytest.mark.parametrize("max_tokens", [10_000, 250])
def test_a_row_that_fits_a_chunk_is_never_torn(max_tokens: int) -> None:
    rows = [f"| d{row:03} {'wort ' * (row % 150)}| {row} |" for row in range(0, 300, 7)]
    text = "# Dienste\n\n" + "\n".join([_HEADER, *rows])

    found = chunks(text, tokens=Characters(max_tokens), size=800)

    assert [line for chunk in found for line in chunk.text.split("\n") if line.startswith("| d")] == rows


def test_a_header_that_would_take_half_of_a_chunk_is_left_out() -> None:
    header = f"| {' | '.join(f'column{number}' for number in range(40))} |\n|{'---|' * 40}"
    text = f"{header}\n" + "\n".join(f"| {row} {'| 1 ' * 39}|" for row in range(40))

    assert {chunk.table_header for chunk in chunks(text, tokens=Characters(100), size=800)} == {None}
    assert {chunk.table_header for chunk in chunks(text, tokens=Characters(10_000), size=800)[1:]} == {header}


@pytest.mark.parametrize("structured", [True, False])
def test_the_later_parts_of_a_long_row_keep_its_first_field_and_the_name_of_theirs(structured: bool) -> None:
    row = f"Fall: F-7; Verlauf: {'Am Tag war nichts. ' * 100}; Lösung: Dichtung 9"
    text = f"Fall | Verlauf | Lösung\n\n{row}\n\nFall: F-8; Verlauf: kurz; Lösung: keine"

    found = chunks(text, tokens=Characters(10_000), size=400, structured=structured)

    parts = [chunk for chunk in found if text.index("Fall: F-7") < chunk.start < text.index("Fall: F-8")]
    assert len(parts) > 2
    assert {chunk.table_header for chunk in parts} == {"Fall: F-7; Verlauf: …"}
    assert "Lösung: Dichtung 9" in parts[-1].text


_ROWS = [f"Kai: K{row}; Tiefe: {row}; Kran: {'schwer ' * 20}" for row in range(9)]


@pytest.mark.parametrize("structured", [True, False])
def test_each_chunk_of_a_table_has_the_lines_above_it(structured: bool) -> None:
    for before in range(0, 400, 7):
        above = f"{'wort ' * (before // 5)}Ende.\nTabelle 3"
        text = "\n\n".join([above, "Kais, in Metern", "Kai | Tiefe | Kran", *_ROWS])
        found = _chunks(text, size=400, structured=structured)

        for chunk in found:
            assert chunk.text == text[chunk.start : chunk.end]
            assert not chunk.text.endswith(("Metern", "Kran"))
            if chunk.text.startswith(("Kai:", "Kai |")):
                assert chunk.table_header == "Tabelle 3\nKais, in Metern"


@pytest.mark.parametrize("between", ["# Ende", "Was folgt, ist anderes.\nEs endet hier."])
def test_other_text_ends_a_caption(between: str) -> None:
    found = _chunks("\n\n".join(["Kais, in Metern", *_ROWS, between, *_ROWS]), size=400)

    assert [chunk.table_header for chunk in found][-2:] == [None, None]


def test_a_caption_does_not_reach_over_a_page() -> None:
    text = "\n\n".join(["Alle Werte sind vorläufig", "Kais, in Metern", *_ROWS])
    found = _chunks(text, size=400, pages=[0, text.index("Kais")])

    assert {chunk.table_header for chunk in found[2:]} == {"Kais, in Metern"}


def test_sentences_above_a_table_are_no_caption() -> None:
    for sentences in ("Es gibt neun Kais.\nSie sind tief.", f"Es gibt {'sehr ' * 30}viele."):
        assert {chunk.table_header for chunk in _chunks("\n\n".join([sentences, *_ROWS]), size=400)} == {None}


def test_a_caption_gives_way_to_a_header_that_needs_the_room() -> None:
    found = chunks(f"{'Lange Namen ' * 9}\n\n{_table(60)}", tokens=Characters(60), size=400)

    assert {chunk.table_header for chunk in found[2:]} == {_HEADER}


def test_rows_are_not_torn_for_the_sake_of_a_full_chunk() -> None:
    rows = [f"Kai: {row}; Schiff: {'Möwe. ' * 110}; Tage: {row}" for row in range(5)]

    found = chunks(f"{'Liste. ' * 20}\n\n" + "\n\n".join(rows), tokens=Characters(10_000))

    assert [chunk.text for chunk in found[1:]] == rows


@CI_ONLY
def test_the_words_of_a_large_paragraph_are_never_in_memory_at_once() -> None:
    text = " a" * 150_000
    tracemalloc.start()
    try:
        made = _chunks(text)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(made) > 300
    assert most < 12_000_000  # all of them take 37 MB


@CI_ONLY
def test_a_paragraph_of_megabytes_is_cut_at_its_borders_alone() -> None:
    sentences = _chunks("The lantern on the pier is lit at six. " * 15_000)
    words = _chunks("a" * 99 + (" " + "b" * 99) * 6_000)
    apart = _chunks("one." + " " * 600_000 + "two.\nthree" + " " * 5_000 + "four")

    assert {chunk.text[-4:] for chunk in sentences} == {"six."}
    assert {len(chunk.text) % 100 for chunk in words} == {99}
    assert [chunk.text for chunk in apart] == ["one.", "two.\nthree", "four"]
