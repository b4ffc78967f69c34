"""Word's, PowerPoint's and Outlook's files of old by kreuzberg, of the extra `office`, a Rust library."""

import importlib.util
import re

from services.ingest_worker.extract.archive import declared
from services.ingest_worker.extract.clean import cleaned
from services.ingest_worker.extract.format import Extraction, Hints
from shared.errors import Rejected

_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PICTURE = re.compile(r"!\[([^\[\]]*)\]\([^()\s]*\)")
_ESCAPED = re.compile(r"\\([\\`*_{}\[\]()#+\-.!|<>~$&'\":;,=?@^/%])")
_BODY_TEXT = re.compile(r"^#{6} ?", re.MULTILINE)  # it takes Word's outline level 10, "body text", for a sixth heading
_LOCKED = re.compile(r"(?i)encrypt|password|protected")


def is_ole(data: bytes, stream: str) -> bool:
    """Return whether it is a file of Office 97–2003 with a stream of that name."""
    return data.startswith(_OLE) and stream.encode("utf-16-le") in data


def read_as(document_type: str, media_type: str, data: bytes, hints: Hints) -> Extraction:
    """Return the text as Markdown.

    Raises:
        Rejected: code `unsupported` without the extra, `password` or `damaged`.
    """
    if importlib.util.find_spec("kreuzberg") is None:
        raise Rejected(f"{hints.name} is not read without the office extra: make extras", "unsupported")
    if is_ole(data, "EncryptedPackage"):
        raise Rejected(f"{hints.name} is locked by a password", "password")
    import kreuzberg  # noqa: PLC0415 - native code that only the parser processes load

    # No cache: it would keep strangers' texts in a folder of its own. No OCR: that is our own extra.
    config = kreuzberg.ExtractionConfig(output_format="markdown", use_cache=False, disable_ocr=True)  # type: ignore[call-arg]  # its stubs lag
    try:
        result = kreuzberg.extract_bytes_sync(data, media_type, config)
    except kreuzberg.KreuzbergError as error:
        if _LOCKED.search(str(error)):
            raise Rejected(f"{hints.name} is locked by a password", "password") from None
        raise Rejected(f"{hints.name} is damaged: not a readable {document_type.upper()} file", "damaged") from error
    about, text = result.metadata, _text(result.content)
    says = {
        "title": _string(about.get("title")) or _string(about.get("subject")),
        "created": _string(about.get("created_at")),
        "modified": _string(about.get("modified_at")),
    }
    return Extraction(text=text, document_type=document_type, **declared(says, text))


def _text(markdown: str) -> str:
    """Return the Markdown without links to pictures inside the file, and without escapes, as other formats' is."""
    text = _PICTURE.sub(lambda picture: picture[1] if picture[1] != "image" else "", markdown)
    return cleaned(_BODY_TEXT.sub("", _ESCAPED.sub(r"\1", text)))


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None
