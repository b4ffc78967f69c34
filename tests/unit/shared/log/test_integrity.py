import pytest

from shared.errors import Rejected
from shared.log.integrity import HASH_HEADER, check_intact, sealed
from tests.builders import a_record


def headers_of(value: bytes | None, **own: str) -> list[tuple[str, bytes]]:
    return [(name, text.encode()) for name, text in sealed(value, own).items()]


def test_what_was_written_is_intact_and_one_bit_is_noticed() -> None:
    headers = headers_of(b"a value", colour="blue")

    check_intact(a_record(value=b"a value", headers=headers))
    with pytest.raises(Rejected, match="altered after it was written") as told:
        check_intact(a_record(value=b"a vaLue", headers=headers))
    assert told.value.code == "altered"


def test_a_record_that_goes_on_keeps_its_hash() -> None:
    assert sealed(b"another value", {HASH_HEADER: "of the first"}) == {HASH_HEADER: "of the first"}


def test_what_nobody_sealed_is_taken_as_it_is() -> None:
    check_intact(a_record(value=b"a foreign producer's", headers=[]))
    check_intact(a_record(value=None, headers=headers_of(None)))
