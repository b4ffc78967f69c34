import pytest

from services.ingest_worker.extract.symbols import shown


@pytest.mark.parametrize(
    ("code", "font", "character"),
    [
        (0x61, "Symbol", "α"),
        (0xF061, " symbol ", "α"),  # Word's private use area
        (0xFC, "Wingdings", "✓"),
        (0x4A, "Wingdings", "☺"),
        (0x52, "Wingdings 2", "☑"),
        (0x41, "Wingdings", ""),
        (0x41, "Arial", ""),
    ],
)
def test_a_symbol_fonts_code_is_shown_as_its_character(code: int, font: str, character: str) -> None:
    assert shown(code, font) == character
