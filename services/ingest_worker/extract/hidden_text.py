"""Takes the text off a PDF's page that nobody can see: drawn without ink, or white on white."""

import ctypes
from collections.abc import Container, Iterator
from typing import Any, Final, NamedTuple

from services.ingest_worker.extract.pdfium_access import Drawn, bounds, drawn, on_page, pdfium, quick, remove

_NO_INK: Final = (3, 7)  # text rendering modes (ISO 32000, table 106): invisible, or only a border for what is drawn
_FILLED: Final = (0, 4)
_WHITE: Final = 250  # of 255; paler can't be told from paper
_SAMPLED: Final = (0.1, 0.5, 0.9)  # places along a piece: start, middle and end
_THICK: Final = 4.0  # points; text may stand on a line that is drawn so
_MOST_BOXES: Final = 500  # of a page behind its text; more are a drawing


class _Box(NamedTuple):
    at: int  # in the order of drawing
    left: float
    bottom: float
    right: float
    top: float
    is_picture: bool  # else a coloured path


def drop_hidden_text(page: Any) -> bool:
    """Take the text away that can't be seen, and return whether there was any.

    Text without ink over a picture stays: a scan has it.
    """
    doubtful = list(_doubtful(page))
    boxes = _boxes(page) if doubtful else None
    hidden: dict[int, tuple[Drawn, bool]] = {}
    for at, piece, in_white in doubtful if boxes is not None else ():
        left, bottom, right, top = bounds(piece)
        points = [
            ((left + right) / 2, bottom + share * (top - bottom))
            if top - bottom > right - left
            else (left + share * (right - left), (bottom + top) / 2)
            for share in _SAMPLED
        ]
        shows = any(
            box.left <= x <= box.right and box.bottom <= y <= box.top
            for box in boxes or ()
            if (box.at < at if in_white else box.is_picture)
            for x, y in points
        )
        if top > bottom and not shows:  # a blank has no height
            hidden[at] = piece, in_white
    if not all(in_white for _, in_white in hidden.values()) and not _shows_text(page, hidden):
        hidden = {at: each for at, each in hidden.items() if each[1]}  # letters drawn as shapes have their text so
    for piece, _ in hidden.values():
        remove(page, piece)
    return bool(hidden)


def _shows_text(page: Any, hidden: Container[int]) -> bool:
    """Return whether the page has text besides the hidden pieces."""
    texts = (each for at, each in enumerate(drawn(page)) if each.kind == pdfium.FPDF_PAGEOBJ_TEXT and at not in hidden)
    return any(top > bottom for _, bottom, _, top in map(bounds, texts))


def _doubtful(page: Any) -> Iterator[tuple[int, Drawn, bool]]:
    """Yield the pieces of text that may not be seen, with their place in the order of drawing: if white, True."""
    mode, colour = quick("FPDFTextObj_GetTextRenderMode"), _Colour()
    for at, piece in enumerate(drawn(page)):
        how = mode(piece.handle)  # -1 for what is no text
        if how in _NO_INK:
            yield at, piece, False
        elif how in _FILLED and colour.is_white(piece.handle):
            yield at, piece, True


def _boxes(page: Any) -> list[_Box] | None:
    """Return what text may stand on: pictures, shadings and coloured paths; None if they are too many."""
    found: list[_Box] = []
    colour = _Colour()
    for at, each in enumerate(drawn(page)):
        if each.kind == pdfium.FPDF_PAGEOBJ_PATH:
            fill, stroke = ctypes.c_int(), ctypes.c_int()
            pdfium.FPDFPath_GetDrawMode(each.handle, fill, stroke)
            coloured = fill.value and not colour.is_white(each.handle)
            if not coloured and not (
                stroke.value and _is_thick(each) and not colour.is_white(each.handle, stroke=True)
            ):
                continue
        if each.kind != pdfium.FPDF_PAGEOBJ_TEXT:
            found.append(_Box(at, *bounds(each), each.kind != pdfium.FPDF_PAGEOBJ_PATH))
        if len(found) > _MOST_BOXES:
            return None
    return found


class _Colour:
    """Reads the colours that objects are filled or drawn with."""

    def __init__(self) -> None:
        self._red, self._green, self._blue, _ = parts = tuple(ctypes.c_uint() for _ in range(4))
        self._into = tuple(map(ctypes.byref, parts))
        self._fill, self._stroke = quick("FPDFPageObj_GetFillColor"), quick("FPDFPageObj_GetStrokeColor")

    def is_white(self, handle: Any, *, stroke: bool = False) -> bool:
        known = (self._stroke if stroke else self._fill)(handle, *self._into)
        return bool(known) and self._red.value >= _WHITE <= self._green.value and self._blue.value >= _WHITE


def _is_thick(path: Drawn) -> bool:
    width = ctypes.c_float()
    pdfium.FPDFPageObj_GetStrokeWidth(path.handle, width)
    a, b, c, d, *_ = on_page(path)
    return bool(width.value**2 * abs(a * d - b * c) >= _THICK**2)
