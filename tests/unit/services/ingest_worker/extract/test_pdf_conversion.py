import io

import pytest
from PIL import Image

from services.ingest_worker.extract import Hints, extract
from services.ingest_worker.extract.pdf_conversion import page_picture, unlocked
from shared.errors import Rejected
from tests.unit.services.ingest_worker.files import a_drawn_pdf, a_pdf, locked

HINTS = Hints(filename="a.pdf")


def test_a_locked_file_is_opened_and_equal_each_time() -> None:
    data = locked(a_pdf("Low tide.", title="Tides"), "geheim")

    opened = unlocked(data, "geheim", HINTS)

    read = extract(opened, HINTS)
    assert (read.text, read.title) == ("Low tide.", "Tides")
    assert opened == unlocked(data, "geheim", HINTS)


@pytest.mark.parametrize("data", [a_pdf("Low tide."), b"a text", b"%PDF-1.7 damaged"])
def test_what_is_not_locked_stays_as_it_is(data: bytes) -> None:
    assert unlocked(data, "geheim", HINTS) == data


@pytest.mark.parametrize(
    "data",
    [
        locked(a_pdf("Low tide."), "another"),
        b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
    ],
)
def test_a_file_that_it_does_not_open_is_refused_without_the_password(data: bytes) -> None:
    with pytest.raises(Rejected) as caught:
        unlocked(data, "geheim", HINTS)

    assert caught.value.code == "password"
    assert "geheim" not in caught.value.sentence


def test_the_picture_shows_what_is_on_the_page() -> None:
    data = a_drawn_pdf([(72, 700, "The tide")], [], lines="1 0 0 rg 0 0 306 792 re f 0 g")

    picture = Image.open(io.BytesIO(page_picture(data, 2, HINTS))).convert("RGB")

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
        page_picture(data, page, HINTS)

    assert refused.value.code == code
