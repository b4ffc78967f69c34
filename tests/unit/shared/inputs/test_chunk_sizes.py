import pytest

from shared.inputs.chunk_sizes import checked_sizes


@pytest.mark.parametrize(("size", "overlap"), [(100, 0), (2000, 1000), (101, 50)])
def test_allowed_sizes_pass(size: int, overlap: int) -> None:
    checked_sizes(size, overlap)


@pytest.mark.parametrize(
    ("size", "overlap", "what"),
    [(99, 0, "chunk size 99"), (2001, 0, "chunk size 2001"), (100, -1, "overlap -1"), (101, 51, r"\[0, 50\]")],
)
def test_others_are_refused_by_name_and_range(size: int, overlap: int, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        checked_sizes(size, overlap)
