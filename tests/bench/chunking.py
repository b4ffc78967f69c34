"""What the chunker costs, and how many chunks an edit renews: on this project's own pages, without a server."""

import random
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from services.ingest_worker.chunk import chunks
from shared.embedder.refusals import EstimatedTokens
from tests.bench.report import Row
from tests.e2e.text import WORDS

PROJECT = Path(__file__).resolve().parents[2]
DOCUMENT = 27_000  # characters
TOKENS = EstimatedTokens(10**6)
TURNS = 5
EDITS = 24  # of each kind, spread over a document

Edit = Callable[[str, int, random.Random], str]


def pages() -> str:
    """Return the project's Markdown, one page after the other."""
    found = [PROJECT / "README.md", PROJECT / "CHANGELOG.md", *sorted(PROJECT.glob("docs/**/*.md"))]
    return "\n\n".join(page.read_text(encoding="utf-8") for page in found)


def word(text: str, at: int, rng: random.Random) -> str:
    begin = text.find(" ", at)
    return f"{text[:begin]} {rng.choice(WORDS.split())}{text[begin:]}"


def paragraph(text: str, at: int, rng: random.Random) -> str:
    begin = text.find("\n\n", at)
    return f"{text[:begin]}\n\n{prose(rng, 300)}{text[begin:]}"


def line_at_the_top(text: str, _: int, rng: random.Random) -> str:
    return f"{prose(rng, 80)}\n\n{text}"


def prose(rng: random.Random, characters: int) -> str:
    words = [rng.choice(WORDS.split()) for _ in range(characters // 4)]
    return " ".join(words)[:characters].capitalize() + "."


def renewed(before: str, after: str, structured: bool) -> tuple[int, int]:
    """Return how many chunks the text has after the edit that it had not before, and how many it has."""
    known = {chunk.hash for chunk in chunks(before, tokens=TOKENS, structured=structured)}
    found = [chunk.hash for chunk in chunks(after, tokens=TOKENS, structured=structured)]
    return sum(hash_ not in known for hash_ in found), len(found)


def edited(documents: Sequence[str], edit: Edit, structured: bool) -> Iterator[float]:
    """Yield the share of renewed chunks, edit by edit."""
    rng = random.Random(8)
    for document in documents:
        for number in range(EDITS if edit is not line_at_the_top else 1):
            at = int(number / EDITS * 0.95 * len(document))
            new, of = renewed(document, edit(document, at, rng), structured)
            yield new / of


def milliseconds(text: str, structured: bool) -> float:
    """Return the CPU time of one text, the best of some."""
    best = float("inf")
    for _ in range(TURNS):
        begun = time.process_time()
        chunks(text, tokens=TOKENS, structured=structured)
        best = min(best, time.process_time() - begun)
    return 1000 * best


def measure(row: Row, *, quick: bool) -> None:
    """Tell `row` the figures."""
    text = pages()
    documents = [text[at : at + DOCUMENT] for at in range(0, len(text) - DOCUMENT, DOCUMENT)][: 1 if quick else 4]
    for name, structured in (("Markdown", True), ("the same as plain text", False)):
        shares = [statistics.mean(edited(documents, edit, structured)) for edit in (word, paragraph, line_at_the_top)]
        told = " / ".join(f"{100 * share:.1f} %" for share in shares)
        row(f"chunks renewed by a word / a paragraph / a line at the top of 27 kB, {name}", told, "≤ 5 %")
    worst, of = max(inserted(seed) for seed in range(1 if quick else 6))
    row("1,000 paragraphs of 300 characters, one at the top", f"{worst} of {of} at worst", "≤ 2 %")
    kinds = {
        "Markdown": (text[:5000], True),
        "prose": ("\n\n".join(prose(random.Random(n), 500) for n in range(10)), False),
        "one line": (prose(random.Random(1), 5000), False),
        "27 kB of Markdown": (documents[0], True),
    }
    for name, (sample, structured) in kinds.items():
        row(f"CPU to chunk 5 kB: {name}", f"{milliseconds(sample, structured) * 5000 / len(sample):.2f} ms", "")


def inserted(seed: int) -> tuple[int, int]:
    """Return what a paragraph before a thousand alike renews, and how many chunks there are."""
    rng = random.Random(seed)
    paragraphs = [prose(rng, 299) for _ in range(1001)]
    return renewed("\n\n".join(paragraphs[1:]), "\n\n".join(paragraphs), structured=False)
