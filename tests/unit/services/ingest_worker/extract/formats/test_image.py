import importlib.util
import io

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from services.ingest_worker.extract import Extraction, Hints, extract, ocr
from shared.errors import Rejected
from tests.selection import CI_ONLY


def _image(text: str = "") -> Image.Image:
    image = Image.new("RGB", (900, 120), "white")
    ImageDraw.Draw(image).text((30, 30), text, "black", ImageFont.load_default(48))
    return image


def _saved(image: Image.Image, kind: str, *more: Image.Image) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **({"save_all": True, "append_images": list(more)} if more else {}))
    return out.getvalue()


def _read(data: bytes, filename: str = "scan.png") -> Extraction:
    return extract(data, Hints(filename=filename))


@pytest.mark.feature(91)
@CI_ONLY
@pytest.mark.slow
@pytest.mark.timeout(600)  # the models take seconds to load, more where others want the cores too
def test_words_in_images_and_in_scanned_pdfs_are_read() -> None:
    first, second = _image("The harbour lantern"), _image("burns amber")

    fax = _read(_saved(first, "TIFF", second))
    scan = _read(_saved(first, "PDF"), "scan.pdf")

    assert (fax.text, fax.pages) == ("The harbour lantern\n\nburns amber", (0, 21))
    assert (fax.document_type, fax.notes) == ("image", ())
    assert (scan.text, scan.document_type) == ("The harbour lantern", "pdf")
    with pytest.raises(Rejected, match=r"^scan\.png holds no readable text in its 1 image$") as caught:
        _read(_saved(_image(), "PNG"))
    assert caught.value.code == "empty"


@pytest.mark.parametrize(
    ("height", "width", "becomes"),
    [(24, 240, 32), (24, 239, 24), (19, 900, 19)],
    ids=["long", "short", "small letters"],
)
def test_a_long_line_of_clear_letters_is_read_from_fewer_pixels(height: int, width: int, becomes: int) -> None:
    line = np.random.default_rng(1).integers(0, 255, (height, width, 3), dtype=np.uint8)

    seen = ocr.smaller(line)

    margin = (becomes - height) // 2
    assert seen.shape == (becomes, width, 3)
    assert np.array_equal(seen[margin : margin + height], line)


@pytest.mark.parametrize("size", [(3000, 1), (1, 3000), (12_100, 100)])
def test_a_strip_that_no_line_of_text_has_is_an_image_without_text(size: tuple[int, int]) -> None:
    assert ocr.text_of(np.asarray(Image.new("RGB", size, "white"))) == ""


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)

    with pytest.raises(
        Rejected,
        match=r"^scan\.png holds no text, only 1 image, readable with the ocr extra: make extras$",
    ) as caught:
        _read(_saved(_image(), "PNG"))

    assert caught.value.code == "empty"


def test_an_image_of_too_many_pixels_is_not_opened() -> None:
    large = bytearray(_saved(_image(), "BMP"))
    large[18:26] = (30_000).to_bytes(4, "little") * 2  # its width and height

    with pytest.raises(
        Rejected, match=r"^a\.bmp has 30000 × 30000 pixels, more than the 40000000 pixels that can be read$"
    ) as caught:
        _read(bytes(large), "a.bmp")

    assert caught.value.code == "too_large"


@pytest.mark.parametrize(
    "data", [b"\x89PNG\r\n\x1a\n" + bytes(99), _saved(_image(), "PNG")[:60], b"GIF89a" + b"\xff" * 9]
)
def test_a_broken_image_is_damaged(data: bytes) -> None:
    with pytest.raises(Rejected, match=r"^scan\.png is damaged: not a readable image$") as caught:
        _read(data)

    assert caught.value.code == "damaged"
