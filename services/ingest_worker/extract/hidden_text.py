"""Takes the text off a PDF's page that nobody can see: drawn without ink, or white on white."""

import ctypes
from collections.abc import Container, Iterator
from typing import Any, Final, NamedTuple

_NO_INK: Final = (3, 7)  # text rendering modes (ISO 32000, table 106): invisible, or only a border for what is drawn
_FILLED: Final = (0, 4)
_WHITE: Final = 250  # of 255; paler can't be told from paper
_SAMPLED: Final = (0.1, 0.5, 0.9)  # places along a piece: start, middle and end
_THICK: Final = 4.0  # points; text may stand on a line that is drawn so
_LOOKED_AT: Final = 6  # pieces of a page that a look takes in
_MOST_BOXES: Final = 500  # of a page behind its text; more are a drawing


class _Box(NamedTuple):
    at: int  # in the order of drawing
    left: float
    bottom: float
    right: float
    top: float
    is_picture: bool  # else a coloured path


def drop_hidden_text(page: Any, *, some: bool = False) -> bool | None:
    """Take the text away that can't be seen, and return whether there was any.

    With `some`, return None if all of some pieces can be seen. Text without ink over a picture stays: a scan has it.
    """
    import pypdfium2.raw as pdfium  # native code that only parser processes load

    step = pdfium.FPDFPage_CountObjects(page) // _LOOKED_AT | 1 if some else 1  # odd: pieces often alternate
    if next(_doubtful(page, step), None) is None:
        return None if step > 1 else False
    boxes = _boxes(page)
    hidden: dict[int, tuple[Any, bool]] = {}
    for at, piece, in_white in _doubtful(page) if boxes is not None else ():
        left, bottom, right, top = _bounds(piece)
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
        if pdfium.FPDFPage_RemoveObject(page, piece):
            pdfium.FPDFPageObj_Destroy(piece)
    return bool(hidden)


def _shows_text(page: Any, hidden: Container[int]) -> bool:
    """Return whether the page has text besides the hidden pieces."""
    import pypdfium2.raw as pdfium

    pieces = ((at, pdfium.FPDFPage_GetObject(page, at)) for at in range(pdfium.FPDFPage_CountObjects(page)))
    texts = (each for at, each in pieces if at not in hidden and pdfium.FPDFTextObj_GetTextRenderMode(each) >= 0)
    return any(top > bottom for _, bottom, _, top in map(_bounds, texts))


def _doubtful(page: Any, step: int = 1) -> Iterator[tuple[int, Any, bool]]:
    """Yield the pieces of text that may not be seen, with their place in the order of drawing: if white, True."""
    import pypdfium2.raw as pdfium

    give, mode, raw = pdfium.FPDFPage_GetObject, pdfium.FPDFTextObj_GetTextRenderMode, page.raw
    colour = _Colour()
    for at in range(0, pdfium.FPDFPage_CountObjects(page), step):
        piece = give(raw, at)
        drawn = mode(piece)  # -1 for what is no text
        if drawn in _NO_INK:
            yield at, piece, False
        elif drawn in _FILLED and colour.is_white(piece):
            yield at, piece, True


def _boxes(page: Any) -> list[_Box] | None:
    """Return what text may stand on: pictures, forms and coloured paths; None if they are too many."""
    import pypdfium2.raw as pdfium

    found: list[_Box] = []
    colour = _Colour()
    for at in range(pdfium.FPDFPage_CountObjects(page)):
        drawn = pdfium.FPDFPage_GetObject(page, at)
        kind = pdfium.FPDFPageObj_GetType(drawn)
        if kind == pdfium.FPDF_PAGEOBJ_PATH:
            fill, stroke = ctypes.c_int(), ctypes.c_int()
            pdfium.FPDFPath_GetDrawMode(drawn, fill, stroke)
            coloured = fill.value and not colour.is_white(drawn)
            if not coloured and not (stroke.value and _is_thick(drawn) and not colour.is_white(drawn, stroke=True)):
                continue
        if kind != pdfium.FPDF_PAGEOBJ_TEXT:
            found.append(_Box(at, *_bounds(drawn), kind != pdfium.FPDF_PAGEOBJ_PATH))
        if len(found) > _MOST_BOXES:
            return None
    return found


class _Colour:
    """Reads the colours that objects are filled or drawn with."""

    def __init__(self) -> None:
        import pypdfium2.raw as pdfium

        self._red, self._green, self._blue, _ = parts = tuple(ctypes.c_uint() for _ in range(4))
        self._into = tuple(map(ctypes.byref, parts))
        self._fill, self._stroke = pdfium.FPDFPageObj_GetFillColor, pdfium.FPDFPageObj_GetStrokeColor

    def is_white(self, drawn: Any, *, stroke: bool = False) -> bool:
        known = (self._stroke if stroke else self._fill)(drawn, *self._into)
        return bool(known) and self._red.value >= _WHITE <= self._green.value and self._blue.value >= _WHITE


def _is_thick(path: Any) -> bool:
    import pypdfium2.raw as pdfium

    width, matrix = ctypes.c_float(), pdfium.FS_MATRIX()
    pdfium.FPDFPageObj_GetStrokeWidth(path, width)
    pdfium.FPDFPageObj_GetMatrix(path, matrix)
    return bool(width.value**2 * abs(matrix.a * matrix.d - matrix.b * matrix.c) >= _THICK**2)


def _bounds(drawn: Any) -> tuple[float, float, float, float]:
    """Return left, bottom, right and top."""
    import pypdfium2.raw as pdfium

    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    pdfium.FPDFPageObj_GetBounds(drawn, *map(ctypes.byref, (left, bottom, right, top)))
    return left.value, bottom.value, right.value, top.value
