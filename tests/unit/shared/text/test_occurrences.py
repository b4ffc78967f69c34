from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from shared.text.occurrences import adjacent, occurring
from shared.text.words import BEGINNINGS, STEMS, Forms, stems, words

_PARTS = st.sampled_from(
    ["nest", "studies", "study", "fly", "ies", "y", "s", "_", " ", "-", "é", "返品", "ก็", "ed", "ing", "2", "İ", "ß"]
)


@given(
    st.lists(st.lists(_PARTS, max_size=12).map("".join), max_size=4),
    st.lists(_PARTS, max_size=3).map("".join),
    st.sampled_from([STEMS, BEGINNINGS]),
)
@example(["studies返品nests"], "study nest 返品", STEMS)
@example(["understudy", "study"], "study", STEMS)
@example(["İnest", "é nest", "nest"], "nest", STEMS)
@example(["studying", "éstudy"], "studyies", BEGINNINGS)
def test_stems_are_looked_for_as_they_are_split_off(texts: list[str], query: str, forms: Forms) -> None:
    wanted = [*dict.fromkeys([*stems(words(query), forms), "nest", "study"])]
    pairs = {(first, second) for first in wanted for second in wanted}

    found = occurring(wanted, texts, forms)

    assert [{each for bit, each in enumerate(wanted) if bits >> bit & 1} for bits in found] == [
        {*wanted}.intersection(stems(words(text), forms)) for text in texts
    ]
    for text in texts:
        assert adjacent(pairs, text, forms) == pairs & {*pairwise(stems(words(text), forms))}
