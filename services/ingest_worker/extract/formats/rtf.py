"""RTF: its text, by striprtf."""

import re

from services.ingest_worker.extract.clean import cleaned, one_line
from services.ingest_worker.extract.format import Extraction, Format, Hints, imports

_MARK = b"{\\rtf"
_TITLE = re.compile(r"\{\\title ([^{}\\]{1,500})\}")


def read(data: bytes, _: Hints) -> Extraction:
    """Return the text, a blank line between paragraphs."""
    from striprtf.striprtf import rtf_to_text  # noqa: PLC0415 - for the parser processes alone

    source = data.decode("latin-1")  # the format is ASCII, and says itself what its escapes mean
    title = _TITLE.search(source, 0, 64 * 1024)
    text = cleaned(rtf_to_text(source, errors="ignore"))  # type: ignore[no-untyped-call]  # it has no types
    return Extraction(
        text=re.sub(r"\n+", "\n\n", text), document_type="rtf", title=one_line(title[1]) if title else None
    )


FORMAT = Format(
    document_type="rtf",
    media_types=frozenset({"application/rtf", "text/rtf"}),
    suffixes=frozenset({".rtf"}),
    sniff=lambda data: data.startswith(_MARK),
    read=read,
    warm=imports("striprtf.striprtf"),
    libraries=("striprtf",),
)
