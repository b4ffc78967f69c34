"""Renders equations as linear TeX: of Office files (OMML, ECMA-376 part 1, section 22.1), and MathML."""

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from services.ingest_worker.extract.safe_xml import attribute, tag

if TYPE_CHECKING:
    from lxml.etree import _Element

_DEPTH: Final = 40  # an equation that is nested deeper is shown as its characters
_ATOM: Final = re.compile(r"\w*+|[^\w\s]|\([^()]*+\)|\\[a-z]++\{[^{}]*+\}")
# Elements of MathML, whose children have a role by their place: https://www.w3.org/TR/mathml-core/
_PLACES: Final = {
    "mfrac": ("f", "num", "den"),
    "msup": ("sSup", "e", "sup"),
    "msub": ("sSub", "e", "sub"),
    "msubsup": ("sSubSup", "e", "sub", "sup"),
    "munderover": ("sSubSup", "e", "sub", "sup"),
    "munder": ("sSub", "e", "sub"),
    "mover": ("sSup", "e", "sup"),
    "mroot": ("rad", "e", "deg"),
}
_SAYS: Final = re.compile(r"Pr$|^annotation")  # elements that are about the others
_LEAVES: Final = frozenset({"mi", "mn", "mo", "mtext", "ms", "t"})
_SILENT: Final = str.maketrans(dict.fromkeys("\u2061\u2062\u2063\u2064"))  # MathML's signs for "applied to", "times"
_SIGNS: Final = {"∑": "\\sum", "∏": "\\prod", "∫": "\\int", "⋃": "\\bigcup", "⋂": "\\bigcap"}


def equation(element: "_Element", depth: int = 0) -> str:
    r"""Return an equation, or a part of one: `(a+b)/c`, `10^5`, `x_i`, `\sqrt[3]{x}`, `\sum_{i=1}^n i`."""
    return "".join(_part(child, depth + 1) for child in element if not _SAYS.search(tag(child)))


def _part(element: "_Element", depth: int) -> str:
    name = tag(element)
    if name in _LEAVES:
        return (element.text or "") if name == "t" else (element.text or "").strip().translate(_SILENT)
    if depth > _DEPTH:
        return "".join(_part(each, depth) for each in element.iter() if tag(each) in _LEAVES)

    def of(child: str) -> str:
        found = element.find(f"{{*}}{child}") if child else None
        return "" if found is None else equation(found, depth).strip()

    if name in _FORMS:
        return _FORMS[name](of)
    if name in _PLACES:
        form, *roles = _PLACES[name]
        played = dict(zip(roles, filter(tag, element), strict=False))
        return _FORMS[form](lambda role: _part(played[role], depth + 1).strip() if role in played else "")
    if name == "msqrt":
        return f"\\sqrt{{{equation(element, depth)}}}"
    if name == "nary":
        sign = _property(element, "chr", "∫")
        return f"{_SIGNS.get(sign, sign)}{_scripts(of)} {of('e')}"
    if name in ("d", "mfenced"):
        parts = _property(element, "sepChr", "|" if name == "d" else ",").join(_parts(element, depth))
        return (
            _property(element, "begChr", element.get("open", "("))
            + parts
            + _property(element, "endChr", element.get("close", ")"))
        )
    if name in ("m", "mtable"):
        rows = (" & ".join(_parts(row, depth)) for row in element if tag(row) in ("mr", "mtr"))
        return "\\begin{matrix} " + " \\\\ ".join(rows) + " \\end{matrix}"
    return " \\\\ ".join(_parts(element, depth)) if name == "eqArr" else equation(element, depth)


_Of = Callable[[str], str]


def _root(of: _Of) -> str:
    degree = of("deg")
    return "\\sqrt" + (f"[{degree}]" if degree else "") + f"{{{of('e')}}}"


def _scripts(of: _Of, below: str = "sub", above: str = "sup") -> str:
    shown = ((mark, of(name)) for mark, name in (("_", below), ("^", above)))
    return "".join(mark + (text if len(text) == 1 else f"{{{text}}}") for mark, text in shown if text)


def _atom(text: str) -> str:
    return text if _ATOM.fullmatch(text) else f"({text})"


_FORMS: Final[dict[str, Callable[[_Of], str]]] = {
    "f": lambda of: f"{_atom(of('num'))}/{_atom(of('den'))}",
    **dict.fromkeys(("sSup", "sSub", "sSubSup"), lambda of: _atom(of("e")) + _scripts(of)),
    "sPre": lambda of: "{}" + _scripts(of) + of("e"),
    "rad": _root,
    "func": lambda of: f"{of('fName')} {_atom(of('e'))}",
    "limLow": lambda of: of("e") + _scripts(of, "lim", ""),
    "limUpp": lambda of: of("e") + _scripts(of, "", "lim"),
    "bar": lambda of: f"\\overline{{{of('e')}}}",
}


def _parts(element: "_Element", depth: int) -> list[str]:
    return [_part(each, depth + 1).strip() for each in element if not _SAYS.search(tag(each))]


def _property(element: "_Element", name: str, default: str) -> str:
    """Return a character that the properties name, '' if they name an empty one."""
    found = element.find(f"{{*}}{tag(element)}Pr/{{*}}{name}")
    return default if found is None else attribute(found)
