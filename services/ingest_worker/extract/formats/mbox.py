"""Reads mailboxes in the mbox format: a section a message, in the order of their threads."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from email.message import EmailMessage
from itertools import chain

import msgspec

from services.ingest_worker.extract import limits
from services.ingest_worker.extract.embedded_files import refused, within
from services.ingest_worker.extract.format_types import Extraction, Format, Hints, as_part
from services.ingest_worker.extract.formats import eml
from shared.contracts import Note
from shared.errors import Rejected

# RFC 4155; after it comes a header, or nothing after a whole date: a sentence that begins with "From" ends no message.
_FROM = re.compile(
    rb"(?:\A|(?<=\n))From [^\n]{1,200}(?:\d\d:\d\d[^\n]{0,100}\n(?=[!-9;-~]{1,80}:)"
    rb"| [A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\n(?=\n))"
)
_QUOTED_FROM = re.compile(rb"^>(?=>*From )", re.MULTILINE)
_ID = re.compile(r"<[^<>\s]{1,500}>")
_REPLY = re.compile(r"\s*(?:(?:re|aw|sv|fw|fwd|wg|antw|rif|res|tr|回复|答复)\s*[:：]\s*)+", re.IGNORECASE)


class _Letter(msgspec.Struct, frozen=True):
    """A message with what its place in a thread depends on."""

    text: str
    ids: list[str]  # its own first, then those that it answers, the nearest last
    subject: str
    reply: bool
    sent: float  # seconds since 1970


def read(data: bytes, hints: Hints) -> Extraction:
    """Return each message under its subject; quoted lines that stand in an earlier message are left out.

    Raises:
        Rejected: code `too_large`: mails are nested too deeply; `damaged`: no message begins in the file.
    """
    sources = _sources(data)
    if not sources:
        raise Rejected(f"{hints.name} is damaged: no message begins in it", "damaged")
    letters: list[_Letter] = []
    notes: list[Note] = []
    for number, source in enumerate(sources):
        if limits.spent():
            cut_off = f"only {number} of {len(sources)} messages were read in {limits.seconds()}"
            notes.insert(0, Note(code="timeout", place="", message=cut_off))
            break
        try:
            message, cut = eml.message_of(source, hints)
            found = eml.extraction(message, cut, hints)
        except Rejected as error:
            notes.append(refused(error, f"message {number + 1}"))
            continue
        letters.append(_letter(message, found, letters[-1].sent if letters else 0.0))
        notes += within(f"message {number + 1}", found.notes)
    seen: set[str] = set()
    texts = ["\n".join(_new_lines(letter.text, seen)) for letter in _by_thread(letters)]
    return Extraction(text="\n\n".join(texts), notes=tuple(notes))


def _sources(data: bytes) -> list[bytes]:
    data = data.replace(b"\r\n", b"\n")
    starts = [*_FROM.finditer(data)]
    ends = [*(start.start() for start in starts[1:]), len(data)]
    return [_QUOTED_FROM.sub(b"", data[start.end() : end]) for start, end in zip(starts, ends, strict=False)]


def _letter(message: EmailMessage, found: Extraction, before: float) -> _Letter:
    own, *answered = (eml.header(message, name) or "" for name in ("Message-ID", "References", "In-Reply-To"))
    subject = found.title or "without a subject"
    reply = _REPLY.match(subject)
    bare = subject[reply.end() :] if reply else subject
    return _Letter(
        text=as_part(subject, found.text),
        ids=[*_ID.findall(own)[:1], *_ID.findall(" ".join(answered))],
        subject=bare.casefold(),
        reply=bare != subject,
        sent=before if (sent := _sent(found)) is None else sent,
    )


def _sent(found: Extraction) -> float | None:
    try:
        sent = datetime.fromisoformat(found.created or "")
        return (sent if sent.tzinfo else sent.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def _by_thread(letters: Iterable[_Letter]) -> Iterator[_Letter]:
    """Yield the messages by thread, each in the order of its dates; the threads in that of their first messages."""
    known: dict[str, list[_Letter]] = {}
    threads: list[list[_Letter]] = []
    for letter in sorted(letters, key=lambda letter: letter.sent):
        same_subject = f"re: {letter.subject}"
        keys = [*reversed(letter.ids), *([same_subject] if letter.reply else [])]
        thread = next((known[key] for key in keys if key in known), [])
        if not thread:
            threads.append(thread)
        thread.append(letter)
        for key in (*letter.ids, same_subject):
            known.setdefault(key, thread)
    return chain.from_iterable(threads)


def _new_lines(text: str, seen: set[str]) -> Iterator[str]:
    """Yield the lines without those that are quoted and in `seen`, to which the lines are added at the end.

    A sign stands for them above the answer: else that would follow the line that says who wrote them.
    """
    own: list[str] = []
    left_out = gap = False
    for line in text.split("\n"):
        bare = line.lstrip("> ").rstrip()
        quoted = ">" in line[: len(line) - len(line.lstrip("> "))]
        left_out = quoted and (bare in seen if bare else left_out)
        if left_out:
            gap = True
            continue
        if gap and bare:
            gap = False
            if not quoted:
                yield "> …"
        own.append(bare)
        yield line
    seen.update(own)


FORMAT = Format(
    document_type="mbox",
    nests=True,
    media_types=frozenset({"application/mbox"}),
    suffixes=frozenset({".mbox"}),
    sniff=lambda data: _FROM.match(data, 0, 1024) is not None,
    read=read,
    libraries=("lxml",),
    revision=7,
)
