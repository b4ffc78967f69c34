import pytest

from services.ingest_worker.extract import Hints, extract
from services.ingest_worker.extract.unlock import unlocked
from shared.errors import Rejected
from tests.unit.services.ingest_worker.files import a_pdf, locked

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
