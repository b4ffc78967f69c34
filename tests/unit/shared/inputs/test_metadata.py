from typing import Any

import pytest

from shared.inputs.limits import InvalidField
from shared.inputs.metadata import (
    MOST_BYTES,
    MOST_DEPTH,
    checked_metadata,
    variant_text,
    variant_texts,
)


def nested(levels: int) -> dict[str, Any]:
    """Return an object in an object, so many levels deep."""
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"a": found}
    return found


@pytest.mark.parametrize("metadata", [{}, {"n": 2**63 - 1, "list": [1, {"x": None}]}, nested(MOST_DEPTH)])
def test_metadata_that_the_store_takes_come_back(metadata: dict[str, Any]) -> None:
    assert checked_metadata(metadata, "metadata") == metadata


@pytest.mark.parametrize(
    ("metadata", "field", "what"),
    [
        ({"a": {"b": [0, 2**63]}}, "metadata.a.b[1]", "beyond 64 bits"),
        (nested(MOST_DEPTH + 1), "metadata", f"deeper than {MOST_DEPTH} levels"),
        ({"a": "x" * MOST_BYTES}, "metadata", f"larger than {MOST_BYTES} bytes"),
    ],
)
def test_what_it_does_not_take_is_refused_by_field(metadata: dict[str, Any], field: str, what: str) -> None:
    with pytest.raises(InvalidField, match=what) as refused:
        checked_metadata(metadata, "metadata")

    assert refused.value.field == field


SEED = {"languageVariants": {"en": {"text": "Hello."}, "de": "Hallo.", "fr": {"text": " "}, "it": 1}}


def test_a_variant_is_a_text_or_an_object_with_one() -> None:
    assert variant_texts(SEED) == ["Hello.", "Hallo."]
    found = [variant_text(SEED, each) for each in ("en", "de", "fr", "it", "tr")]
    assert found == ["Hello.", "Hallo.", None, None, None]


@pytest.mark.parametrize("metadata", [{}, {"languageVariants": None}, {"languageVariants": ["x"]}])
def test_other_shapes_have_none(metadata: dict[str, Any]) -> None:
    assert variant_texts(metadata) == []
    assert variant_text(metadata, "en") is None
