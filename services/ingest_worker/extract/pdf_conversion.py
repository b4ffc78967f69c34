"""Makes other files of a PDF: without its lock, and a picture of a page. Run it in a process that can be killed."""

import io
import re
import struct
import zlib
from typing import Final

from services.ingest_worker.extract import ole
from services.ingest_worker.extract.format_types import Hints
from services.ingest_worker.extract.pdfium_access import Unopened, opened, pdfium
from shared.errors import Rejected

_ID: Final = re.compile(rb"/ID\s{0,3}\[\s{0,3}<([0-9A-Fa-f]{32})>\s{0,3}<[0-9A-Fa-f]{32}>")
_SCALE: Final = 110 / 72  # pixels per point: small print can be read on a screen
_PIXELS: Final = 4_000_000  # of a picture


def unlocked(data: bytes, password: str, hints: Hints) -> bytes:
    """Return the file without its lock; a file that isn't locked as it is. Equal files give equal bytes.

    The password is used once and kept nowhere.

    Raises:
        Rejected: code `password`: it is another, or the format can't be opened with one.
    """
    if ole.is_locked(data):
        raise Rejected(f"{hints.name} is locked, and a password opens only PDF files", "password")
    if b"%PDF-" not in data[:1024]:
        return data
    try:
        document = opened(data, password)
    except Unopened as unopened:
        if unopened.locked:
            raise Rejected(f"{hints.name} is locked by another password", "password") from None
        return data  # its reader says what is wrong with it
    try:
        if pdfium.FPDF_GetSecurityHandlerRevision(document) < 0:
            return data
        out = io.BytesIO()
        document.save(out, flags=pdfium.FPDF_REMOVE_SECURITY)
    finally:
        document.close()
    # A new id each time would make every submission another version.
    return _ID.sub(rb"/ID[<\1><\1>", out.getvalue())


def page_picture(data: bytes, number: int, hints: Hints) -> bytes:
    """Return the page, counted from 1, as PNG.

    Raises:
        Rejected: code `unsupported`: it is no PDF; `password`, `damaged`; `empty`: it has no such page.
    """
    if b"%PDF-" not in data[:1024]:
        raise Rejected(f"{hints.name} is no PDF, so it has no pages to be shown", "unsupported")
    import pypdfium2  # native code that only parser processes load

    try:
        document = opened(data)
    except Unopened as unopened:
        locked = unopened.locked
        said = ("is locked by a password", "password") if locked else ("is damaged: not a readable PDF", "damaged")
        raise Rejected(f"{hints.name} {said[0]}", said[1]) from None
    try:
        if not 1 <= number <= len(document):
            raise Rejected(f"{hints.name} has {len(document)} pages, so no page {number}", "empty")
        page = document[number - 1]
        width, height = page.get_size()
        scale = min(_SCALE, (_PIXELS / max(width * height, 1.0)) ** 0.5)
        drawn = page.render(scale=scale, rev_byteorder=True, may_draw_forms=False)
        return _png(bytes(drawn.buffer), drawn.width, drawn.height, drawn.stride, drawn.n_channels)
    except pypdfium2.PdfiumError as error:
        raise Rejected(f"{hints.name} is damaged: its page {number} can't be drawn", "damaged") from error
    finally:
        document.close()


def _png(pixels: bytes, width: int, height: int, stride: int, channels: int) -> bytes:
    """Return rows of red, green and blue, and transparency where there are four channels, as a PNG file."""
    rows = b"".join(b"\0" + pixels[at : at + width * channels] for at in range(0, stride * height, stride))
    head = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2, 4: 6}[channels], 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows, 3)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(part)) + kind + part + struct.pack(">I", zlib.crc32(kind + part)) for kind, part in parts
    )
