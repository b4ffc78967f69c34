import io

import pytest
from PIL import Image

from services.ingest_worker.extract import Hints
from services.ingest_worker.extract.page_picture import page_picture
from shared.errors import Rejected
from tests.unit.services.ingest_worker.files import a_drawn_pdf, a_pdf, locked

_HINTS = Hints(filename="tide.pdf")


def test_the_picture_shows_what_is_on_the_page() -> None:
    data = a_drawn_pdf([(72, 700, "The tide")], [], lines="1 0 0 rg 0 0 306 792 re f 0 g")

    picture = Image.open(io.BytesIO(page_picture(data, 2, _HINTS))).convert("RGB")

    width, height = picture.size
    assert 600 < width < height
    assert picture.getpixel((width // 4, height // 2)) == (255, 0, 0)
    assert picture.getpixel((3 * width // 4, height // 2)) == (255, 255, 255)


@pytest.mark.parametrize(
    ("data", "page", "code"),
    [
        (a_pdf("The tide"), 2, "empty"),
        (a_pdf("The tide"), 0, "empty"),
        (b"The tide", 1, "unsupported"),
        (b"%PDF-1.4 tide", 1, "damaged"),
        (locked(a_pdf("The tide"), "x"), 1, "password"),
    ],
)
def test_what_has_no_such_page_is_refused(data: bytes, page: int, code: str) -> None:
    with pytest.raises(Rejected) as refused:
        page_picture(data, page, _HINTS)

    assert refused.value.code == code
