"""The topics and what each one promises."""

from typing import Literal

import msgspec

SUBMITTED = "documents.submitted"
EXTRACTED = "documents.extracted"
STATUS = "documents.status"
DEAD_LETTERS = "dead.letters"

DAY = 24 * 3600 * 1000


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic to be created, or checked, at start."""

    name: str
    partitions: int = 8
    cleanup: Literal["delete", "compact"] = "delete"
    retention_ms: int | None = 7 * DAY  # None: for ever
    max_record_bytes: int = 1024 * 1024  # key, value and headers together, as Kafka's message.max.bytes


def chunks_topic(generation: str) -> str:
    """Return the name of a generation's own topic of chunked versions."""
    return f"chunks.{generation}"


def pipeline_topics(generation: str) -> tuple[Topic, ...]:
    """Return every topic of a pipeline with one generation."""
    return (
        Topic(name=SUBMITTED),
        Topic(name=EXTRACTED, cleanup="compact", retention_ms=None),
        Topic(name=chunks_topic(generation)),
        Topic(name=STATUS, partitions=1, retention_ms=DAY),
        Topic(name=DEAD_LETTERS, partitions=1, retention_ms=None),
    )
