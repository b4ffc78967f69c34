from typing import Any

import pytest

from shared.contracts import DocumentSubmitted, erasure
from shared.errors import Rejected
from shared.inputs.limits import (
    LONGEST_DESCRIPTION,
    LONGEST_HASH,
    LONGEST_MEDIA_TYPE,
    LONGEST_PATH,
    LONGEST_SOURCE,
    LONGEST_TAG,
    LONGEST_TITLE,
    MOST_TAGS,
    check_described,
    check_names,
    checked_sizes,
)


def _submitted(**fields: Any) -> DocumentSubmitted:
    return DocumentSubmitted(**{"source": "s" * LONGEST_SOURCE, "path": "p" * LONGEST_PATH, "text": "x", **fields})


@pytest.mark.parametrize("field", ["source", "path"])
def test_a_name_that_is_too_long_is_refused_with_its_length(field: str) -> None:
    with pytest.raises(Rejected, match=rf"^{field} has 400000 characters, but at most \d+ are allowed$"):
        check_names(_submitted(**{field: "a" * 400_000}))


@pytest.mark.parametrize(
    "fields",
    [
        {"title": "t" * (LONGEST_TITLE + 1)},
        {"tags": ("t",) * (MOST_TAGS + 1)},
        {"tags": ("t" * (LONGEST_TAG + 1),)},
        {"description": "d" * (LONGEST_DESCRIPTION + 1)},
        {"filename": "f" * (LONGEST_PATH + 1)},
        {"hash": "h" * (LONGEST_HASH + 1)},
        {"media_type": "m" * (LONGEST_MEDIA_TYPE + 1)},
    ],
)
def test_what_describes_a_document_has_the_limits_of_http(fields: dict[str, Any]) -> None:
    with pytest.raises(Rejected) as refused:
        check_described(_submitted(**fields))

    assert refused.value.code == "too_long"


def test_all_at_their_limits_pass_and_so_does_an_erasure() -> None:
    largest = _submitted(
        title="t" * LONGEST_TITLE,
        tags=("t" * LONGEST_TAG,) * MOST_TAGS,
        description="d" * LONGEST_DESCRIPTION,
        filename="f" * LONGEST_PATH,
        hash="h" * LONGEST_HASH,
        media_type="m" * LONGEST_MEDIA_TYPE,
    )

    for submitted in (largest, erasure("a", "0" * 32)):
        check_names(submitted)
        check_described(submitted)


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
