"""Reads ZIP archives: the text of every readable file, under its name."""

import unicodedata
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from zipfile import ZipFile

import chardet

from services.ingest_worker.extract.archive import is_folder, opened, part
from services.ingest_worker.extract.clean import cleaned
from services.ingest_worker.extract.embedded_files import part_texts, sentence
from services.ingest_worker.extract.format_types import Extraction, Format, Hints
from shared.errors import Rejected

_OF_FOLDERS = ("thumbs.db", "desktop.ini")  # how Windows shows a folder
_UTF8 = 1 << 11  # the flag of an entry whose name is in UTF-8
# Encodings in which Windows wrote names before; chardet also guesses many that no archive has.
_GUESSED = frozenset({"gb18030", "gb2312", "gbk", "cp932", "shift_jis", "cp949", "euc-kr", "big5", "ibm866"})


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the files' texts, each under its name as a heading; the notes list files that can't be read.

    Raises:
        Rejected: code `damaged`, `password` or `too_large`; `empty`: no file in it can be read.
    """
    with opened(data, hints) as archive:
        texts, unread = part_texts(_members(archive, hints), hints)
    if not texts and unread:
        raise Rejected(f"{hints.name} holds no readable text: {sentence(unread)}", "empty")
    return Extraction(text=cleaned("\n\n".join(texts)), notes=tuple(unread))


def _members(archive: ZipFile, hints: Hints) -> Iterator[tuple[str, Callable[[], bytes]]]:
    entries = archive.infolist()
    old = [entry for entry in entries if not entry.flag_bits & _UTF8 and not entry.filename.isascii()]
    for entry, name in zip(old, _decoded([entry.filename for entry in old]), strict=True):
        entry.filename = name  # zipfile finds its bytes by `orig_filename`
    for entry in entries:
        steps = [step for step in entry.filename.split("/") if step.strip(".")]
        hidden = any(step.startswith((".", "__MACOSX")) for step in steps) or "".join(steps[-1:]).lower() in _OF_FOLDERS
        if not is_folder(entry) and not hidden:
            yield entry.filename, partial(part, archive, entry, hints)


def _decoded(names: Sequence[str]) -> Sequence[str]:
    """Return names that zipfile decoded as code page 437 in the encoding that they are in, most likely."""
    try:
        raw = [name.encode("cp437") for name in names]
    except UnicodeEncodeError:  # from an extra field, which is in UTF-8
        return names
    guess = chardet.detect(b"\n".join(raw))["encoding"] or ""
    for encoding in ("utf-8", guess if guess.lower() in _GUESSED else "cp437", "cp437", "gb2312", "big5", "gb18030"):
        try:
            found = [name.decode(encoding) for name in raw]
        except UnicodeDecodeError:
            continue
        if all(map(_is_usual, "".join(found))):
            return found
    return names


def _is_usual(character: str) -> bool:
    """Return whether it is in names: no frame or sign of code page 437."""
    wide = character >= "\u2000" and unicodedata.category(character)[0] in "MNP"
    return character.isascii() or character.isalpha() or wide


FORMAT = Format(
    document_type="zip",
    nests=True,
    media_types=frozenset({"application/zip", "application/x-zip-compressed"}),
    suffixes=frozenset({".zip"}),
    read=read,
    libraries=("chardet",),
    revision=3,
)
