"""Makes a container of an Office file that is one XML file, a flat package."""

import base64
import re
from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Final

from services.ingest_worker.extract.archive import packed
from services.ingest_worker.extract.safe_xml import attribute, parsed, serialized, tag

if TYPE_CHECKING:
    from lxml.etree import _Element

_TYPES: Final = "[Content_Types].xml"
_LONGEST: Final = 1_000  # characters of a part's path
_HEAD: Final = 4 * 1024  # bytes in which the file says what it is
_FLAT: Final = re.compile(rb"<(?:\w{1,20}:)?package\s[^<>]*?office/2006/xmlPackage\b")

_Part = tuple[str, str, bytes]  # path, type, content


def contained(data: bytes) -> bytes:
    """Return the file as a ZIP container if it is such a file, else as it is."""
    if not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") or not _FLAT.search(data, 0, _HEAD):
        return data
    root = parsed(data)
    if root is None or tag(root) != "package":
        return data
    parts = {path: (of, content) for path, of, content in _packed(root) if 0 < len(path) < _LONGEST and path != _TYPES}
    declared = (f'<Override PartName="/{escape(path)}" ContentType="{escape(parts[path][0])}"/>' for path in parts)
    types = f"<Types>{''.join(declared)}</Types>"
    return packed([(_TYPES, types), *((path, content) for path, (_, content) in parts.items())])


def _packed(root: "_Element") -> Iterator[_Part]:
    for part in root.iterfind("{*}part"):
        xml, binary = part.find("{*}xmlData/*"), part.findtext("{*}binaryData")
        try:
            content = serialized(xml) if xml is not None else base64.b64decode(binary or "")
        except ValueError:  # no base64
            continue
        yield attribute(part, "name").lstrip("/"), attribute(part, "contentType"), content
