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
_LONGEST_SIDE: Final = 2_000  # pixels
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
    if any(in_white for _, in_white in hidden.values()) and _may_have_patterns(page):
        pixels = _Pixels(page)
        hidden = {at: each for at, each in hidden.items() if not (each[1] and pixels.are_coloured(bounds(each[0])))}
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


def _may_have_patterns(page: Any) -> bool:
    """Return whether a path is filled with white: of a pattern, as browsers draw gradients, pdfium says so, too."""
    colour, fill, stroke = _Colour(), ctypes.c_int(), ctypes.c_int()
    for each in drawn(page):
        if each.kind == pdfium.FPDF_PAGEOBJ_PATH and colour.is_white(each.handle):
            pdfium.FPDFPath_GetDrawMode(each.handle, fill, stroke)
            if fill.value:
                return True
    return False


class _Pixels:
    """A page as it is drawn without its text, in grey, with a pixel for each point, or fewer of a larger one."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self._size = width, height = tuple(
            min(max(1, round(give(page.raw))), _LONGEST_SIDE)
            for give in (pdfium.FPDF_GetPageWidthF, pdfium.FPDF_GetPageHeightF)
        )
        # White text over other text is no text on something coloured.
        inked = [(each.handle, pdfium.FPDFTextObj_GetTextRenderMode(each.handle)) for each in drawn(page)]
        inked = [(handle, mode) for handle, mode in inked if mode >= 0]
        bitmap = pdfium.FPDFBitmap_CreateEx(width, height, pdfium.FPDFBitmap_Gray, None, 0)
        try:
            pdfium.FPDFBitmap_FillRect(bitmap, 0, 0, width, height, 0xFFFFFFFF)
            for handle, _ in inked:
                pdfium.FPDFTextObj_SetTextRenderMode(handle, pdfium.FPDF_TEXTRENDERMODE_INVISIBLE)
            pdfium.FPDF_RenderPageBitmap(bitmap, page.raw, 0, 0, width, height, 0, 0)
            self._stride = pdfium.FPDFBitmap_GetStride(bitmap)
            self._grey = ctypes.string_at(pdfium.FPDFBitmap_GetBuffer(bitmap), self._stride * height)
        finally:
            for handle, mode in inked:
                pdfium.FPDFTextObj_SetTextRenderMode(handle, mode)
            pdfium.FPDFBitmap_Destroy(bitmap)

    def are_coloured(self, place: tuple[float, float, float, float]) -> bool:
        """Return whether most of a place on the page isn't white: text in white on it can be read."""
        left, bottom, right, top = place
        (x, y), (to_x, to_y) = sorted(map(self._pixel, (left, right), (bottom, top)))
        y, to_y = sorted((y, to_y))
        rows = (self._grey[self._stride * row + x : self._stride * row + to_x + 1] for row in range(y, to_y + 1))
        found = b"".join(rows)
        return 2 * sum(grey < _WHITE for grey in found) > len(found)

    def _pixel(self, x: float, y: float) -> tuple[int, int]:
        across, down = ctypes.c_int(), ctypes.c_int()
        pdfium.FPDF_PageToDevice(self._page.raw, 0, 0, *self._size, 0, x, y, across, down)
        width, height = self._size
        return min(max(0, across.value), width - 1), min(max(0, down.value), height - 1)


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
