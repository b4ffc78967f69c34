"""RTF: its text, by striprtf."""

import re

from services.ingest_worker.extract.clean import cleaned
from services.ingest_worker.extract.declared import declared
from services.ingest_worker.extract.format import Extraction, Format, Hints, imports

_MARK = b"{\\rtf"
_INFO = re.compile(r"\{\\(title|subject) ((?:[^{}\\]|\\'[0-9a-f]{2}|\\u-?\d+ ?\??){1,500})\}")
_TIMES = re.compile(r"\{\\(creatim|revtim)\\yr(\d{4})\\mo(\d{1,2})\\dy(\d{1,2})")
_ENDS = re.compile(r"\|$", re.MULTILINE)  # of a row, which it ends as a cell
_CODEPAGE = re.compile(r"\\ansicpg\d{1,5}")
_TIME = {"creatim": "created", "revtim": "modified"}
_HEAD = 64 * 1024


def read(data: bytes, _: Hints) -> Extraction:
    """Return the text, a blank line between paragraphs."""
    from striprtf.striprtf import rtf_to_text  # noqa: PLC0415 - for the parser processes alone

    source = data.decode("latin-1")  # the format is ASCII, and says itself what its escapes mean
    codepage = _CODEPAGE.search(source, 0, _HEAD)

    def told(rtf: str) -> str:
        return str(rtf_to_text(rtf, errors="ignore"))  # type: ignore[no-untyped-call]  # it has no types

    says: dict[str, str | None] = {
        found[1]: told(f"{{\\rtf1{codepage[0] if codepage else ''} {found[2]}}}")
        for found in _INFO.finditer(source, 0, _HEAD)
    }
    for found in _TIMES.finditer(source, 0, _HEAD):
        says[_TIME[found[1]]] = f"{found[2]}-{int(found[3]):02}-{int(found[4]):02}"
    text = re.sub(r"\n+", "\n\n", cleaned(_ENDS.sub("", told(source))))
    return Extraction(text=text, document_type="rtf", **declared({**says, "description": says.get("subject")}))


FORMAT = Format(
    document_type="rtf",
    media_types=frozenset({"application/rtf", "text/rtf"}),
    suffixes=frozenset({".rtf"}),
    sniff=lambda data: data.startswith(_MARK),
    read=read,
    warm=imports("striprtf.striprtf"),
    libraries=("striprtf",),
)
