"""Headers of records: their first log position, their redrives, and others.

After a move to another log, partitions have other numbers in log positions (ADR 0012). So positions of different logs
are never in the same partition.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec
from aiokafka.structs import RecordMetadata

from shared.contracts import MAX_NATURAL, Forwarded, LogPosition
from shared.errors import Rejected
from shared.ids import bytes_hash
from shared.log import Record

PLACE_HEADER = "sluice-place"  # partition/offset/time: where a re-keyed or redriven record first entered the log
REDRIVE_HEADER = "sluice-redrive"  # number of redrives of the record
FORWARDED_HEADER = "sluice-forwarded"  # topic/partition/offset/time of the record of a tenant's own topic
MOVED_HEADER = "sluice-moved"  # of a copy: moves/partition/offset of its record on the previous log
PARTITIONS_PER_LOG = 1_000_000  # partition numbers for the log positions of one log
SKEW_MS = 3_600_000  # largest difference between the clocks of two brokers


def header(record: Record, name: str) -> str | None:
    """Return the header's text, or None; bytes that aren't UTF-8 are replaced, not fatal."""
    for key, value in record.headers:
        if key == name and value is not None:
            text: str = value.decode(errors="replace")
            return text
    return None


def text_headers(record: Record) -> dict[str, str]:
    """Return the record's headers as text, to send it again; bytes that aren't UTF-8 are replaced."""
    return {name: value.decode(errors="replace") for name, value in record.headers if value is not None}


class _Owned(msgspec.Struct):
    tenant: object = None
    data: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # of a CloudEvent
    document: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET  # of a version


_json = msgspec.json.Decoder(_Owned)


def _owned(value: bytes | msgspec.Raw) -> _Owned:
    try:
        return _json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Owned()


def tenants_of(record: Record) -> list[str]:
    """Return the tenants that a record names: its header, its JSON, and what is within; the last one counts."""
    whole = _owned(record.value or b"{}")
    within = [_owned(each).tenant for each in (whole.data, whole.document) if each is not msgspec.UNSET]
    return [str(tenant) for tenant in (header(record, "tenant"), whole.tenant, *within) if tenant is not None]


def position_of(record: Record) -> LogPosition:
    """Return where the record first entered the log: by its header, else its own position."""
    return _first_position(record) or sent_position(record, 0)


def _first_position(record: Record) -> LogPosition | None:
    first = position_from(header(record, PLACE_HEADER) or "")
    # The first position can't be newer than the record: a position in the future would supersede all later submissions.
    return first if first is not None and first.time <= record.timestamp + SKEW_MS else None


def with_position(record: Record, moves: int) -> Record:
    """Return the record as readers get it: after a move of the log, with its log position as a header."""
    if moves == 0 or _first_position(record) is not None:
        return record
    place = sent_position(record, moves)
    others = tuple(each for each in record.headers if each[0] != PLACE_HEADER)
    return replace(record, headers=(*others, (PLACE_HEADER, position_header(place).encode())))


def sent_position(written: RecordMetadata | Record, moves: int) -> LogPosition:
    """Return the log position of a record that was written to a log with this number of moves."""
    return LogPosition(
        partition=partition_number(written.partition, moves), offset=written.offset, time=written.timestamp
    )


def partition_number(partition: int, moves: int) -> int:
    """Return the number that the partition has in log positions."""
    return moves * PARTITIONS_PER_LOG + partition


def partition_here(place: LogPosition, moves: int) -> int | None:
    """Return the partition of this log that the position is in, None if it is a position of an earlier log."""
    log, partition = divmod(place.partition, PARTITIONS_PER_LOG)
    return partition if log == moves else None


def position_from(text: str) -> LogPosition | None:
    """Return the position that `position_header` wrote, None if the text isn't one that the ledger can hold."""
    parts = text.split("/")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts):
        return None
    partition, offset, time = map(int, parts)
    if max(partition, offset, time) > MAX_NATURAL:
        return None
    return LogPosition(partition=partition, offset=offset, time=time)


def position_header(place: LogPosition) -> str:
    """Return the header's text; `position_from` reads it."""
    return f"{place.partition}/{place.offset}/{place.time}"


def forwarded_header(record: Record, moves: int = 0) -> str:
    """Return the header's text for a record of a tenant's own topic; `forwarded_from` reads it."""
    return f"{record.topic}/{partition_number(record.partition, moves)}/{record.offset}/{record.timestamp}"


def forwarded_from(record: Record) -> Forwarded | None:
    """Return which record of a tenant's own topic this one was made from; None if it wasn't."""
    topic, _, position = (header(record, FORWARDED_HEADER) or "").partition("/")
    place = position_from(position)
    return Forwarded(topic=topic, place=place) if topic and place is not None else None


def redrives_of(record: Record) -> int:
    """Return the number of redrives of the record; 0 if the header is missing or not a number."""
    text = header(record, REDRIVE_HEADER) or ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def redriven(record: Record) -> dict[str, str]:
    """Return the headers that pass the number of redrives on to records made from this one."""
    times = redrives_of(record)
    return {REDRIVE_HEADER: str(times)} if times else {}


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
