"""Opens a file that is locked by a password, for its sender. The password is used once and kept nowhere."""

import io
import re

from services.ingest_worker.extract import ole
from services.ingest_worker.extract.format import Hints
from services.ingest_worker.extract.pdf_objects import Unopened, opened, pdfium
from shared.errors import Rejected

_ID = re.compile(rb"/ID\s{0,3}\[\s{0,3}<([0-9A-Fa-f]{32})>\s{0,3}<[0-9A-Fa-f]{32}>")


def unlocked(data: bytes, password: str, hints: Hints) -> bytes:
    """Return the file without its lock; a file that isn't locked as it is. Equal files give equal bytes.

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
