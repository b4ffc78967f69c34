"""Makes a container of an Office file that is one XML file: a flat package, or a document of Word 2003."""

import base64
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from xml.sax.saxutils import quoteattr

from services.ingest_worker.extract.archive import ADDRESS, packed
from services.ingest_worker.extract.markup import attribute, parsed, serialized, tag, whole, words

if TYPE_CHECKING:
    from lxml.etree import _Element

_TYPES: Final = "[Content_Types].xml"
_LONGEST: Final = 1_000  # characters of a part's path
_HEAD: Final = 4 * 1024  # bytes in which the file says what it is
_FLAT: Final = re.compile(
    rb"<(?:\w{1,20}:)?(?:package|wordDocument)\s[^<>]*?(?:office/2006/xmlPackage|word/2003/wordml)\b"
)
_WORD: Final = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
_RELATED: Final = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/"
_RELATIONS: Final = "http://schemas.openxmlformats.org/package/2006/relationships"
_PROPERTIES = {"Title": "title", "Subject": "subject", "Author": "creator", "LastAuthor": "lastModifiedBy"}
_PROPERTIES |= {"Created": "created", "LastSaved": "modified", "Keywords": "keywords", "Description": "description"}
# Lists have other names than later on, and numbers for their kinds.
_LISTS = {"listPr": "numPr", "ilfo": "numId", "listDef": "abstractNum", "list": "num", "ilst": "abstractNumId"}
_BESIDE = {"styles": "styles", "numbering": "lists"}
_KINDS = {1: "upperRoman", 2: "lowerRoman", 3: "upperLetter", 4: "lowerLetter", 22: "decimalZero", 23: "bullet"}

_Part = tuple[str, str, bytes]  # path, type, content


def contained(data: bytes) -> bytes:
    """Return the file as a ZIP container if it is such a file, else as it is."""
    if not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<") or not _FLAT.search(data, 0, _HEAD):
        return data
    root = parsed(data)
    if root is None or tag(root) not in ("package", "wordDocument"):
        return data
    found = _packed(root) if tag(root) == "package" else _word_2003(root)
    parts = {path: (of, content) for path, of, content in found if 0 < len(path) < _LONGEST and path != _TYPES}
    declared = (
        f"<Override PartName={quoteattr(f'/{path}')} ContentType={quoteattr(parts[path][0])}/>" for path in parts
    )
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


def _word_2003(root: "_Element") -> Iterator[_Part]:
    """Yield the parts of a document of Word 2003, whose paragraphs and tables are written as later ones are."""
    for link in root.iter("{*}hlink"):
        address = attribute(link, "dest").strip()
        shown = [each for each in link.iter("{*}t") if (each.text or "").strip()]
        if shown and ADDRESS.fullmatch(address) and address not in (shown[-1].text or ""):
            shown[-1].text = f"{shown[-1].text} ({address})"
    for note in reversed(list(root.iter("{*}footnote", "{*}endnote"))):
        if (paragraph := next(note.iterancestors("{*}p"), None)) is not None:
            paragraph.addnext(note)
    if (body := root.find("{*}body")) is not None:
        frames = {words(each): each for each in body.iter("{*}hdr", "{*}ftr")}.values()  # sections repeat them
        body[:0] = [each for each in frames if tag(each) == "hdr"]
        body.extend([each for each in frames if tag(each) == "ftr"])
    _rename_lists(root)
    said = root.find("{*}DocumentProperties")
    yield "word/document.xml", _WORD, serialized(root)
    yield "_rels/.rels", "", _relations(officeDocument="word/document.xml")
    beside = {kind: each for kind, name in _BESIDE.items() if (each := root.find(f"{{*}}{name}")) is not None}
    yield "word/_rels/document.xml.rels", "", _relations(**{kind: f"{kind}.xml" for kind in beside})
    for kind, each in beside.items():
        yield f"word/{kind}.xml", "", serialized(each)
    if said is not None:
        for child in said.iterchildren("*"):
            child.tag = _PROPERTIES.get(tag(child), "other")
        yield "docProps/core.xml", "", serialized(said)


def _rename_lists(root: "_Element") -> None:
    """Give what says how lists are numbered the names that it has in later files."""
    for each in list(root.iter("{*}nfc", *(f"{{*}}{name}" for name in _LISTS))):
        of = attribute(each, "listDefId") or attribute(each, "ilfo")
        if tag(each) == "nfc":
            of = _KINDS.get(whole(attribute(each)), "decimal")
            each.tag = "numFmt"
        else:
            each.tag = _LISTS[tag(each)]
        if of:
            each.attrib.clear()
            each.attrib.update(dict.fromkeys(("val", "numId", "abstractNumId"), of))


def _relations(**targets: str) -> bytes:
    links = (f'<Relationship Id="{kind}" Type="{_RELATED}{kind}" Target="{path}"/>' for kind, path in targets.items())
    return f'<Relationships xmlns="{_RELATIONS}">{"".join(links)}</Relationships>'.encode()
