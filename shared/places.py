"""Where a record first entered the log, and its other headers."""

from shared.contracts import Place
from shared.log import Record

PLACE_HEADER = "sluice-place"  # partition/offset/time, carried by re-keying and redrive


def header(record: Record, name: str) -> str | None:
    """Return the header's text, or None; bytes that aren't UTF-8 are replaced, not fatal."""
    for key, value in record.headers:
        if key == name and value is not None:
            text: str = value.decode("utf-8", "replace")
            return text
    return None


def first_place(record: Record) -> Place:
    """Return the place in the record's header where it was carried here, else its own."""
    carried = header(record, PLACE_HEADER)
    if carried is not None:
        parts = carried.split("/")
        if len(parts) == 3 and all(part.lstrip("-").isdigit() for part in parts):
            partition, offset, time = (int(part) for part in parts)
            return Place(partition=partition, offset=offset, time=time)
    return Place(partition=record.partition, offset=record.offset, time=record.timestamp)
