"""The language variants of a ready-made chunk: one text for each language. Pure. docs/chunks.md."""

from collections.abc import Mapping
from typing import Any, Final

FIELD: Final = "languageVariants"  # field of a chunk's metadata: by language, a text or an object with a text


def variant_text(metadata: Mapping[str, Any], language: str) -> str | None:
    """Return the chunk's text in the language; None if it has none, or a blank one."""
    variants = metadata.get(FIELD)
    return _text(variants.get(language)) if isinstance(variants, Mapping) else None


def variant_texts(metadata: Mapping[str, Any]) -> list[str]:
    """Return the chunk's texts in all languages, in their order."""
    variants = metadata.get(FIELD)
    found = map(_text, variants.values()) if isinstance(variants, Mapping) else ()
    return [text for text in found if text is not None]


def _text(variant: Any) -> str | None:
    text = variant.get("text") if isinstance(variant, Mapping) else variant
    return text if isinstance(text, str) and text.strip() else None
