"""Documents whose every paragraph says which document, revision and place it belongs to."""

import random

WORDS = """
harbour lantern granite meadow copper violin glacier orchard thunder velvet compass marble falcon willow
ember canyon saffron pebble horizon cedar quartz ribbon tundra lagoon beacon walnut prairie
"""


def paragraph(document: int, revision: int, number: int, *, of: int, seed: int | None = None) -> str:
    """Return about 560 characters: one chunk, because two don't fit."""
    rng = random.Random(f"{document}/{number}/{revision if seed is None else seed}")
    vocabulary = WORDS.split()
    words = " ".join(rng.choice(vocabulary) for _ in range(66))
    return f"Document {document}, revision {revision}, paragraph {number} of {of}: {words}."


def paragraphs(document: int, count: int) -> list[str]:
    """Return a first revision of `count` one-chunk paragraphs, all different."""
    return [paragraph(document, 0, number, of=count) for number in range(count)]
