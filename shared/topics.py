"""The topics, what each one promises, and how one that is there may differ."""

from collections.abc import Iterator
from typing import Final, Literal

import msgspec

SUBMITTED = "documents.submitted"
EXTRACTED = "documents.extracted"
STATUS = "documents.status"
DEAD_LETTERS = "dead.letters"
PAIRING = "index.pairing"  # which store belongs to this log (shared/state/pairing.py)

DAY = 24 * 3600 * 1000
PARTITIONS: Final = 8


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic to be created, or checked, at start."""

    name: str
    partitions: int = PARTITIONS  # of a new one: what is there keeps what it has, so ask the log
    replication: int | None = None  # copies, of a new one; None: as the cluster does it
    cleanup: Literal["delete", "compact"] = "delete"
    retention_ms: int | None = 7 * DAY  # None: for ever
    max_record_bytes: int = 1024 * 1024  # key, value and headers together, as Kafka's message.max.bytes


class TopicDifference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing in which a topic isn't as it was asked for."""

    weight: Literal["unfit", "risk", "note"]  # nothing starts on it; records can be lost; as its operator likes
    what: str  # by the log's own name, such as retention.ms
    found: str
    wanted: str
    why: str  # what follows
    mend: str | None = None  # what to do, where something can be done

    def __str__(self) -> str:
        """Return what was found and what was wanted."""
        return f"{self.what} {self.found}, not {self.wanted}"


class TopicInspection(msgspec.Struct, frozen=True, kw_only=True):
    """A topic as the log has it, beside what was asked for."""

    topic: str
    partitions: int | None = None  # None: it isn't there
    differences: tuple[TopicDifference, ...] = ()

    @property
    def fit(self) -> bool:
        """Return whether the topic, if it is there, can be worked on."""
        return not any(difference.weight == "unfit" for difference in self.differences)

    def sentences(self, weight: Literal["unfit", "risk"]) -> Iterator[str]:
        """Yield one sentence, with all differences of this weight, if there are any."""
        if chosen := [str(difference) for difference in self.differences if difference.weight == weight]:
            yield f"the topic {self.topic} has {'; '.join(chosen)}"


def chunks_topic(generation: str) -> str:
    """Return the name of a generation's own topic of chunked versions."""
    return f"chunks.{generation}"


def readers(generation: str) -> dict[str, str]:
    """Return by topic the group of the stage that reads it, in the order of the pipeline."""
    return {SUBMITTED: "ingest", EXTRACTED: f"chunk.{generation}", chunks_topic(generation): f"embed.{generation}"}


def pipeline_topics(
    generation: str, *, partitions: int = PARTITIONS, replication: int | None = None
) -> tuple[Topic, ...]:
    """Return every topic of a pipeline with one generation; new ones get so many partitions and copies."""
    return (
        Topic(name=SUBMITTED, partitions=partitions, replication=replication),
        Topic(name=EXTRACTED, partitions=partitions, replication=replication, cleanup="compact", retention_ms=None),
        Topic(name=chunks_topic(generation), partitions=partitions, replication=replication),
        Topic(name=STATUS, partitions=1, replication=replication, retention_ms=DAY),
        # Compacted: a letter stays until it is settled, and then it goes (docs/adr/0012-dead-letters.md).
        Topic(name=DEAD_LETTERS, partitions=1, replication=replication, cleanup="compact", retention_ms=None),
        Topic(name=PAIRING, partitions=1, replication=replication, cleanup="compact", retention_ms=None),
    )


def partitions_differ(topic: Topic, found: int, grow: str | None) -> Iterator[TopicDifference]:
    """Yield what follows where a topic has another number of partitions; `grow` is the command that adds some.

    Records of `documents.submitted` are keyed again where they don't belong. In any other topic a document's records
    would be torn apart, and nothing can tell one that was made so from one that has grown.
    """
    if found == topic.partitions:
        return
    if topic.name == SUBMITTED:
        why = "a new topic would get so many; this one may grow at any time"
        mend = grow if found < topic.partitions else None
    else:
        why = "a new topic would get so many; this one must stay as it was made: a document's records belong together"
        mend = None
    yield TopicDifference(
        weight="note", what="partitions", found=str(found), wanted=str(topic.partitions), why=why, mend=mend
    )
