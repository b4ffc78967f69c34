"""Words by their place: the same as if those around each border were looked for each time."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from services.ingest_worker.chunk.pack import Words

_TEXTS = st.lists(
    st.text(max_size=20)
    | st.sampled_from(["İstanbul ", "ΟΔΥΣΣΕΥΣ", "harbour ", "Lighthouse", "\n\n", "x" * 500, "a1b2 ", " " * 399]),
    max_size=60,
).map("".join)


def cohesion(text: str, at: int) -> float:
    """Return the square of the cosine of the words in the 400 characters on each side, looked for anew."""
    before, behind = (
        {word[:6] for word in re.findall(r"[^\W\d_]{4,}", side.lower())}
        for side in (text[max(0, at - 400) : at], text[at : at + 400])
    )
    shared = len(before & behind)
    return shared * shared / (len(before) * len(behind)) if shared else 0.0


@settings(max_examples=200, deadline=None)
@given(_TEXTS, st.integers(1, 40), st.lists(st.floats(0, 1), max_size=12))
def test_what_is_found_once_is_what_each_border_sees(text: str, times: int, shares: list[float]) -> None:
    text *= times
    words = Words(text)

    for share in shares:
        at = int(share * len(text))
        assert words.cohesion(at) == cohesion(text, at)
