"""Files within a file: mails' attachments, archives' members."""

from collections.abc import Iterable

from services.ingest_worker.extract.format import Hints
from shared.errors import Rejected

_DEPTH = 3  # a mail in a mail in an archive


def told(parts: Iterable[tuple[str, bytes]], hints: Hints) -> tuple[list[str], list[str]]:
    """Return the text of each part that can be read, its name as a heading, and a sentence for each other one.

    Raises:
        Rejected: code `too_large`, when containers are nested too deeply.
    """
    from services.ingest_worker.extract import extract  # it knows all formats, this one's too

    if hints.depth >= _DEPTH:
        raise Rejected(f"{hints.name} is nested in more than {_DEPTH} files", "too_large")
    texts: list[str] = []
    unread: list[str] = []
    for name, data in parts:
        try:
            inner = extract(data, Hints(filename=name, depth=hints.depth + 1))
        except Rejected as error:
            unread.append(error.sentence)
            continue
        texts.append(f"# {' '.join(name.split())}\n\n{inner.text}" if name else inner.text)
        if inner.note:
            unread.append(f"{name}: {inner.note}")
    return texts, unread


def note(unread: Iterable[str]) -> str | None:
    """Return what could not be read, for people, None when all was."""
    sentences = list(unread)
    more = f"; and {len(sentences) - 5} more" if len(sentences) > 5 else ""
    return "; ".join(sentences[:5]) + more if sentences else None
