"""Reads images with OCR (the `ocr` extra). The frames of a multi-page image, such as a fax, are pages."""

import io

from services.ingest_worker.extract import limits, ocr
from services.ingest_worker.extract.clean import cleaned
from services.ingest_worker.extract.format_types import Extraction, Format, Hints, laid_out
from shared.contracts import Note
from shared.errors import Rejected

_MARKS = (b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF87a", b"GIF89a", b"II*\0", b"MM\0*")
_FORMATS = ("PNG", "JPEG", "GIF", "TIFF", "BMP", "WEBP")
_FRAMES = 100


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the text in the image.

    Raises:
        Rejected: code `empty`: there is no text, or the extra is missing; `damaged` or `too_large`.
    """
    if not ocr.installed():
        raise Rejected(f"{hints.name} holds no text, only 1 image, {ocr.INSTALL}", "empty")
    import numpy as np  # imported here, because only parser processes should load it
    from PIL import Image, ImageOps, ImageSequence

    Image.MAX_IMAGE_PIXELS = None  # the size is checked below
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            if image.width * image.height > ocr.PIXELS:
                size = f"{image.width} × {image.height} pixels"
                raise Rejected(
                    f"{hints.name} has {size}, more than the {ocr.PIXELS} pixels that can be read", "too_large"
                )
            frames = min(getattr(image, "n_frames", 1), _FRAMES) if image.format == "TIFF" else 1
            limits.earn(scans=frames)
            pages: list[str] = []
            for _, frame in zip(range(frames), ImageSequence.Iterator(image), strict=False):
                if limits.spent():
                    break
                pages.append(cleaned(ocr.text_of(np.asarray(ImageOps.exif_transpose(frame).convert("RGB")))))
    except (OSError, SyntaxError, ValueError) as error:  # Pillow raises any of them
        raise Rejected(f"{hints.name} is damaged: not a readable image", "damaged") from error
    if not any(pages) and len(pages) == frames:
        raise Rejected(f"{hints.name} holds no readable text in its {frames} image{'s' if frames > 1 else ''}", "empty")
    text, starts = laid_out(pages)
    left = frames - len(pages)
    late = f"{left} of {frames} images could not be read within {limits.seconds()}"
    return Extraction(
        text=text,
        pages=starts,
        notes=(Note(code="timeout", place=f"page {len(pages) + 1}", message=late),) if left else (),
    )


FORMAT = Format(
    document_type="image",
    text_format="plain",
    media_types=frozenset({"image/png", "image/jpeg", "image/gif", "image/tiff", "image/bmp", "image/webp"}),
    suffixes=frozenset({".png", ".jpg", ".jpeg", ".gif", ".tif", ".tiff", ".bmp", ".webp"}),
    sniff=lambda data: data.startswith(_MARKS) or (data[:4] == b"RIFF" and data[8:12] == b"WEBP"),
    read=read,
    libraries=("rapidocr",),
    extra="ocr",
)
