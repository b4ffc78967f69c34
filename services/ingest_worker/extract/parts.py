"""Extracts the files within a file: attachments of mails, members of archives."""

from collections.abc import Callable, Iterable

from services.ingest_worker.extract import limits
from services.ingest_worker.extract.format import Hints
from shared.errors import Rejected

_DEPTH = 3  # for example, a mail in a mail in an archive


def part_texts(parts: Iterable[tuple[str, Callable[[], bytes]]], hints: Hints) -> tuple[list[str], list[str]]:
    """Return the text of each readable part, with its name as a heading, and an error sentence for each other part.

    A part is its name and a function that returns its bytes, or raises Rejected.

    Raises:
        Rejected: code `too_large`, when containers are nested too deeply.
    """
    from services.ingest_worker.extract import extract  # imported here, because it imports all formats

    if hints.depth >= _DEPTH:
        raise Rejected(f"{hints.name} is nested more than {_DEPTH} files deep", "too_large")
    texts: list[str] = []
    unread: list[str] = []
    for number, (name, give) in enumerate(parts):
        if limits.spent():
            unread.insert(0, f"only the first {number} files in {hints.name} were read in {limits.seconds()}")
            break
        try:
            inner = extract(give(), Hints(filename=name, depth=hints.depth + 1))
        except Rejected as error:
            unread.append(error.sentence)
            continue
        except MemoryError:
            raise
        except Exception:  # noqa: BLE001 - one part that a reader fails at must not cost the others
            unread.append(f"{Hints(filename=name).name} could not be read: its reader failed")
            continue
        texts.append(f"# {' '.join(name.split())}\n\n{inner.text}" if name else inner.text)
        if inner.note:
            unread.append(f"{name}: {inner.note}")
    return texts, unread


def note(unread: Iterable[str]) -> str | None:
    """Return a note with the first five sentences about unread parts; None if there are none."""
    sentences = list(unread)
    more = f"; and {len(sentences) - 5} more" if len(sentences) > 5 else ""
    return "; ".join(sentences[:5]) + more if sentences else None
