"""The allowed sizes and overlaps of chunks."""

from typing import Final

SMALLEST: Final = 100  # characters
LARGEST: Final = 2000
TOKEN_CHARACTERS: Final = 4  # characters per token in English, to convert a size in tokens


def checked_sizes(size: int, overlap: int) -> None:
    """Raise ValueError unless 100 <= size <= 2000 and 0 <= overlap <= size / 2 (characters)."""
    if not SMALLEST <= size <= LARGEST:
        raise ValueError(f"chunk size {size} must be in [{SMALLEST}, {LARGEST}] characters")
    if not 0 <= overlap <= size // 2:
        raise ValueError(f"chunk overlap {overlap} must be in [0, {size // 2}] characters, half of the size {size}")
