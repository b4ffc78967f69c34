"""Opens PDFs with pdfium, calls it quickly, and walks over what is drawn on a page."""

import ctypes
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any, Final, NamedTuple

Matrix = tuple[float, float, float, float, float, float]
_SAME: Final[Matrix] = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)
_BEYOND: Final = re.compile("[\U00010000-\U0010ffff]")
_DEPTH: Final = 3  # of forms in forms


class _Native:
    """The names of `pypdfium2.raw`, which is loaded at the first use: native code that only parser processes load."""

    def __getattr__(self, name: str) -> Any:
        import pypdfium2.raw

        value = getattr(pypdfium2.raw, name)
        setattr(self, name, value)  # so that a name is looked for once
        return value


pdfium: Final[Any] = _Native()


class Drawn(NamedTuple):
    """A text, path, picture or shading; a form that is nested too deeply."""

    kind: int
    handle: Any
    form: Any = None  # in which it is
    matrix: Matrix = _SAME  # from the form to the page


class Unopened(Exception):  # noqa: N818 - says what pdfium did
    """Pdfium could not open the file; `locked` if only a password is missing."""

    def __init__(self, *, locked: bool) -> None:
        super().__init__()
        self.locked = locked


def opened(data: bytes, password: str | None = None) -> Any:
    """Return pdfium's document, which the caller closes. Raises Unopened."""
    import pypdfium2  # as above

    try:
        return pypdfium2.PdfDocument(data, password=password)
    except pypdfium2.PdfiumError as error:
        raise Unopened(locked=getattr(error, "err_code", None) == pdfium.FPDF_ERR_PASSWORD) from error


class OpenPage:
    """A page with its text, without pypdfium2's own objects: making and closing these takes a tenth of reading it.

    `textpage` has the places of the letters of the last text, by their offsets.
    """

    raw: Any = None
    textpage: Any = None

    def __init__(self, document: Any, number: int) -> None:
        """Open the page, counted from 0. The caller closes it before the document. Raises PdfiumError."""
        self._document, self._number = document, number
        self.open()

    def open(self) -> None:
        """Open the page again, as it is after `FPDFPage_Flatten`."""
        self.close()
        self.raw = _given(quick("FPDF_LoadPage")(self._document.raw, self._number))

    def text(self) -> str:
        """Return the text of what the page draws now."""
        self._close_text()
        self.textpage = textpage = _given(quick("FPDFText_LoadPage")(self.raw))
        first, last = 0, quick("FPDFText_CountChars")(textpage) - 1
        place = quick("FPDFText_GetTextIndexFromCharIndex")
        while first <= last and (end := place(textpage, last)) < 0:  # pdfium reads too far from letters without a text
            last -= 1
        while first <= last and (start := place(textpage, first)) < 0:
            first += 1
        if first > last:
            return ""
        buffer = bytearray(2 * (end + 2 - start))  # an array of ctypes would be a new type for each length
        into = ctypes.byref(ctypes.c_char.from_buffer(buffer))
        count = quick("FPDFText_GetText")(textpage, first, last + 1 - first, into)
        text = str(memoryview(buffer)[: 2 * count - 2], "utf-16-le", "ignore")
        if len(text) < count - 1:  # pdfium counts these letters twice, and cleaning takes the other character away
            text = _BEYOND.sub("\\g<0>\uffff", text)
        return text.replace("\u2010\r\n", "\ufffe\r\n")  # browsers draw this hyphen, which pdfium leaves as it is

    def close(self) -> None:
        """Give the page's memory back."""
        self._close_text()
        if self.raw:
            quick("FPDF_ClosePage")(self.raw)
        self.raw = None

    def _close_text(self) -> None:
        if self.textpage:
            quick("FPDFText_ClosePage")(self.textpage)
        self.textpage = None


def _given(handle: Any) -> Any:
    if handle:
        return handle
    from pypdfium2 import PdfiumError

    raise PdfiumError("pdfium can't read the page")


@cache
def quick(name: str) -> Any:
    """Return pdfium's function of that name without the checks of arguments, which take two thirds of a call's time.

    Handles are passed as pdfium returned them, places for results by `byref`, whole numbers of 32 bits as they are.
    """
    checked = getattr(pdfium, name)
    return ctypes.CFUNCTYPE(checked.restype)(ctypes.cast(checked, ctypes.c_void_p).value or 0)


def drawn(page: Any) -> Iterator[Drawn]:
    """Yield what is drawn on the page and in its forms, in that order."""
    count = quick("FPDFPage_CountObjects")(page.raw)
    return _drawn(count, partial(quick("FPDFPage_GetObject"), page.raw), Drawn(0, None), 0)


def _drawn(count: int, give: Callable[[int], Any], outer: Drawn, depth: int) -> Iterator[Drawn]:
    kind_of, form, matrix = quick("FPDFPageObj_GetType"), outer.handle, outer.matrix
    for at in range(count):
        handle = give(at)
        kind = kind_of(handle)
        if kind == pdfium.FPDF_PAGEOBJ_FORM and depth < _DEPTH:
            within = Drawn(kind, handle, None, _times(matrix_of(handle), matrix))
            inner = pdfium.FPDFFormObj_CountObjects(handle)
            yield from _drawn(inner, partial(pdfium.FPDFFormObj_GetObject, handle), within, depth + 1)
        else:
            yield Drawn(kind, handle, form, matrix)


def matrix_of(handle: Any) -> Matrix:
    """Return the matrix of an object."""
    found = pdfium.FS_MATRIX()
    pdfium.FPDFPageObj_GetMatrix(handle, found)
    return found.a, found.b, found.c, found.d, found.e, found.f


def on_page(each: Drawn) -> Matrix:
    """Return the matrix from the object's own places to the page's."""
    return _times(matrix_of(each.handle), each.matrix)


def bounds(each: Drawn) -> tuple[float, float, float, float]:
    """Return left, bottom, right and top on the page."""
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    quick("FPDFPageObj_GetBounds")(each.handle, *map(ctypes.byref, (left, bottom, right, top)))
    if each.form is None:
        return left.value, bottom.value, right.value, top.value
    a, b, c, d, e, f = each.matrix
    corners = [(x, y) for x in (left.value, right.value) for y in (bottom.value, top.value)]
    xs, ys = [a * x + c * y + e for x, y in corners], [b * x + d * y + f for x, y in corners]
    return min(xs), min(ys), max(xs), max(ys)


def remove(page: Any, each: Drawn) -> None:
    """Take the object off the page."""
    if each.form is None:
        removed = pdfium.FPDFPage_RemoveObject(page.raw, each.handle)
    else:
        removed = pdfium.FPDFFormObj_RemoveObject(each.form, each.handle)
    if removed:
        pdfium.FPDFPageObj_Destroy(each.handle)


def _times(inner: Matrix, outer: Matrix) -> Matrix:
    a, b, c, d, e, f = inner
    g, h, i, j, k, m = outer
    return a * g + b * i, a * h + b * j, c * g + d * i, c * h + d * j, e * g + f * i + k, e * h + f * j + m
