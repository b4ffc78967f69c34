"""Parses untrusted XML: no entities, no external parts, no network, and no deep or huge trees."""

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING

from services.ingest_worker.extract import limits

if TYPE_CHECKING:
    from lxml.etree import _Element


def parsed(source: bytes, *, encoding: str | None = None) -> "_Element | None":
    """Return the root element, or None if nothing can be parsed; entity references are dropped.

    `encoding` overrides the declaration.
    """
    limits.check_light()
    from lxml import etree  # imported here, because only parser processes should load heavy libraries

    parser = etree.XMLParser(
        encoding=encoding,
        resolve_entities=False,
        load_dtd=False,
        no_network=True,
        huge_tree=False,
        recover=True,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        return etree.fromstring(source, parser)
    except (etree.LxmlError, ValueError):
        return None


def serialized(root: "_Element") -> bytes:
    """Return the element as XML in UTF-8."""
    from lxml import etree

    return etree.tostring(root, encoding="utf-8")


def tag(element: "_Element") -> str:
    """Return the local name; '' for a node that isn't an element."""
    name: object = element.tag  # a function if the node is an entity reference
    return name.rpartition("}")[2] if isinstance(name, str) else ""


def attribute(element: "_Element | None", name: str = "val") -> str:
    """Return the attribute with that local name; '' if it is missing."""
    found = () if element is None else element.attrib.items()
    return next((str(value) for key, value in found if str(key).rpartition("}")[2] == name), "")


def reference(element: "_Element", name: str = "id") -> str:
    """Return the id by which an element of an Office file refers to another part, or ''.

    Transitional and strict files use different namespaces for it.
    """
    found = (value for attribute, value in element.attrib.items() if str(attribute).endswith(f"relationships}}{name}"))
    return str(next(found, ""))


def whole(text: str | None, default: int = 0) -> int:
    """Return the number that an attribute has; the default if it has none, or an absurd one."""
    digits = (text or "").strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 9 else default


def enclose(element: "_Element", before: str, after: str) -> None:
    """Write texts at the beginning and the end of the element."""
    element.text = f"{before}{element.text or ''}"
    if len(element):
        element[-1].tail = f"{element[-1].tail or ''}{after}"
    else:
        element.text += after


def text_before(element: "_Element") -> str:
    """Return the text right before the element, up to another one."""
    before, parent = element.getprevious(), element.getparent()
    return ((None if parent is None else parent.text) if before is None else before.tail) or ""


def set_lines_apart(drawing: "_Element") -> None:
    """Put a blank before each line of the text in an SVG drawing."""
    for line in drawing.iter("{*}tspan"):
        if line.get("y") or line.get("dy"):
            enclose(line, " ", "")


def words(element: "_Element") -> str:
    """Return all text in the element, with white space collapsed to single spaces."""
    return " ".join("".join(map(str, element.itertext())).split())


def texts(element: "_Element", blocks: Container[str]) -> Iterator[tuple[bool, str]]:
    """Yield each piece of text in the element, and whether one of the `blocks` begins or ends before it."""
    from lxml import etree  # imported here, because only parser processes should load heavy libraries

    apart = False
    for event, each in etree.iterwalk(element, events=("start", "end")):
        apart = apart or (tag(each) in blocks and each.get("break") != "no")
        text = each.text if event == "start" else each.tail if each is not element else ""
        if text:
            yield apart, text
            apart = False
