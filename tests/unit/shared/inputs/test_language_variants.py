from typing import Any

import pytest

from shared.inputs.language_variants import variant_text, variant_texts

SEED = {"languageVariants": {"en": {"text": "Hello."}, "de": "Hallo.", "fr": {"text": " "}, "it": 1}}


def test_a_variant_is_a_text_or_an_object_with_one() -> None:
    assert variant_texts(SEED) == ["Hello.", "Hallo."]
    found = [variant_text(SEED, each) for each in ("en", "de", "fr", "it", "tr")]
    assert found == ["Hello.", "Hallo.", None, None, None]


@pytest.mark.parametrize("metadata", [{}, {"languageVariants": None}, {"languageVariants": ["x"]}])
def test_other_shapes_have_none(metadata: dict[str, Any]) -> None:
    assert variant_texts(metadata) == []
    assert variant_text(metadata, "en") is None
