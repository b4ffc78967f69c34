"""Whether a record is as it was written (docs/adr/0017-records-carry-their-hash.md)."""

from collections.abc import Mapping
from typing import Final

from shared.errors import Rejected
from shared.ids import bytes_hash
from shared.log import Record
from shared.log.headers import header

HASH_HEADER: Final = "sluice-hash"  # xxh3_128 of the value


def sealed(value: bytes | None, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with the value's hash, where they bring none: a record that goes on keeps its own."""
    return dict(headers) if value is None else {HASH_HEADER: bytes_hash(value), **headers}


def check_intact(record: Record) -> None:
    """Return where the record's value is what its hash says, or nobody gave a hash, as foreign producers don't.

    Raises:
        Rejected: code `altered`.
    """
    told = header(record, HASH_HEADER)
    if told is None or record.value is None:
        return
    if (seen := bytes_hash(record.value)) != told:
        raise Rejected(f"the record was altered after it was written: its hash is {seen}, not {told}", "altered")
