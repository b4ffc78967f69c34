"""Checks that a record's value wasn't altered (docs/adr/0004-kafka.md)."""

from collections.abc import Mapping
from typing import Final

from shared.errors import Rejected
from shared.ids import bytes_hash
from shared.log import Record
from shared.log.headers import header

HASH_HEADER: Final = "sluice-hash"  # xxh3_128 of the value


def sealed(value: bytes | None, headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with the value's hash added; a forwarded record keeps the hash it has."""
    return dict(headers) if value is None else {HASH_HEADER: bytes_hash(value), **headers}


def check_intact(record: Record) -> None:
    """Check the record's value against its hash; records of foreign producers have none and pass.

    Raises:
        Rejected: code `altered`; the value doesn't match its hash.
    """
    expected = header(record, HASH_HEADER)
    if expected is None or record.value is None:
        return
    if (found := bytes_hash(record.value)) != expected:
        raise Rejected(f"the record was altered after it was written: its hash is {found}, not {expected}", "altered")
