"""XML from strangers: no entities, no external parts, no network, and no deep or huge trees."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lxml.etree import _Element


def parsed(source: bytes, *, encoding: str | None = None) -> "_Element | None":
    """Return the root element, None where nothing can be read; references to entities are dropped.

    `encoding` overrules the declaration.
    """
    from lxml import etree  # heavy libraries are for the parser processes alone

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


def tag(element: "_Element") -> str:
    """Return the local name, '' for what is no element."""
    name: object = element.tag  # a function, for references to entities
    return name.rpartition("}")[2] if isinstance(name, str) else ""


def reference(element: "_Element", name: str = "id") -> str:
    """Return the id by which an element of an Office file refers to another part, '' where it doesn't.

    Transitional and strict files have it in namespaces of their own.
    """
    found = (value for attribute, value in element.attrib.items() if str(attribute).endswith(f"relationships}}{name}"))
    return str(next(found, ""))


def words(element: "_Element") -> str:
    """Return all text within, white space as single spaces."""
    return " ".join("".join(map(str, element.itertext())).split())
