"""The documents: sentences of this repository's pages in paragraphs of which each becomes one chunk, whoever splits.

A paragraph has 400 to 590 characters, so no two of them fit into a chunk of 600.
"""

import random
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CHUNK_SIZE = 600
DOCUMENTS = 100
_LEAST, _MOST = 400, 590
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_SENTENCE = re.compile(r"(?<=[.:;?!])\s+")
_WORDS = re.compile(r"[A-Za-z][a-z]+(?: [a-z,]+){3,}")


def documents(count: int = DOCUMENTS) -> dict[str, str]:
    """Return documents by their path: four to eight paragraphs each, no two alike."""
    sentences = _sentences()
    return {f"page-{number:03}.md": "\n\n".join(_paragraphs(number, sentences)) + "\n" for number in range(count)}


def paragraphs(text: str) -> list[str]:
    """Return the chunks that a document of these should become."""
    return [part.strip() for part in text.split("\n\n") if part.strip()]


def edited(text: str) -> str:
    """Return the document with its second paragraph replaced by another one."""
    parts = paragraphs(text)
    other = _paragraph(random.Random("edited"), _sentences(), "After the edit")
    return "\n\n".join([parts[0], other, *parts[2:]]) + "\n"


def questions(texts: dict[str, str], count: int) -> list[str]:
    """Return so many queries of eight words that stand in the documents."""
    rng = random.Random("questions")
    result = []
    for path in rng.choices(sorted(texts), k=count):
        words = rng.choice(paragraphs(texts[path])).split()
        start = rng.randrange(len(words) - 8)
        result.append(" ".join(words[start : start + 8]))
    return result


def write(texts: dict[str, str], folder: Path) -> None:
    """Make the folder hold these documents and nothing else."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.name not in texts:
            path.unlink()
    for name, text in texts.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _sentences() -> list[str]:
    """Return the pages' prose, sentence by sentence, without markup."""
    found: dict[str, None] = {}
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = _LINK.sub(r"\1", _COMMENT.sub("", _FENCE.sub("", page.read_text(encoding="utf-8"))))
        for block in text.split("\n\n"):
            if block.lstrip().startswith(("#", "|", "-", "<", ">", "!", "1.")):
                continue
            plain = re.sub(r"[*`_\\#|<>]", "", " ".join(block.split()))
            found |= dict.fromkeys(
                each for each in _SENTENCE.split(plain) if 40 <= len(each) <= 250 and _WORDS.search(each)
            )
    return list(found)


def _paragraphs(number: int, sentences: list[str]) -> list[str]:
    rng = random.Random(number)
    return [_paragraph(rng, sentences, f"Page {number}, part {part}") for part in range(rng.randint(4, 8))]


def _paragraph(rng: random.Random, sentences: list[str], opening: str) -> str:
    """Return an opening of its own, then sentences that follow each other in the pages, or nearly so."""
    text = f"{opening} of the handbook."
    at = rng.randrange(len(sentences))
    while len(text) < _LEAST:
        following = f"{text} {sentences[at % len(sentences)]}"
        text, at = (following, at + 1) if len(following) <= _MOST else (text, at + 2)
    return text
