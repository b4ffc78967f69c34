"""The topics of a pipeline, their configuration, and the differences of existing topics from it."""

from collections.abc import Iterable, Iterator
from typing import Final, Literal

import msgspec

from shared.settings import ConfigurationError

SUBMITTED = "documents.submitted"
EXTRACTED = "documents.extracted"
STATUS = "documents.status"
DEAD_LETTERS = "dead.letters"
AUDIT = "audit.trail"  # who changed what (shared/log/audit_trail.py)
FEEDBACK = "answers.feedback"  # thumbs under answers (services/query_api/ops/feedback.py)
PAIRING = "index.pairing"  # which store belongs to this log (shared/state/pairing.py)

_MOVED = "log.moved."
_CHUNKS = "chunks."
_FORWARD = "forward."

DAY = 24 * 3600 * 1000
COMPACTION_LAG_MS: Final = 7 * DAY
PARTITIONS: Final = 8


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic to create or check at start."""

    name: str
    partitions: int = PARTITIONS  # of a new topic; an existing one keeps its own, so ask the log
    replication: int | None = None  # replicas of a new topic; None: the cluster's default
    cleanup: Literal["delete", "compact"] = "delete"
    retention_ms: int | None = 7 * DAY  # None: for ever; of a compacted topic, too
    compaction_lag_ms: int = 0  # of a compacted topic: the age at which a record replaces or deletes others
    max_record_bytes: int = 1024 * 1024  # key, value and headers together, as Kafka's message.max.bytes


Weight = Literal["unfit", "risk", "note"]


class TopicDifference(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One property of a topic that isn't as wanted."""

    weight: Weight  # unfit: prevents a start; risk: may lose records; note: harmless
    what: str  # the log's name of the property, such as retention.ms
    found: str
    wanted: str
    why: str  # the consequence
    mend: str | None = None  # what to do; None: nothing

    def __str__(self) -> str:
        """Return a phrase with what was found and wanted."""
        return f"{self.what} {self.found}, not {self.wanted}"


class TopicInspection(msgspec.Struct, frozen=True, kw_only=True):
    """A topic as found on the log, with its differences from what is wanted."""

    topic: str
    partitions: int | None = None  # None: the topic doesn't exist
    differences: tuple[TopicDifference, ...] = ()

    @property
    def fit(self) -> bool:
        """Return whether the topic can be used; True if it doesn't exist."""
        return not any(difference.weight == "unfit" for difference in self.differences)

    def sentences(self, weight: Literal["unfit", "risk"]) -> Iterator[str]:
        """Yield one sentence that lists all differences of this weight; nothing if there are none."""
        if chosen := [str(difference) for difference in self.differences if difference.weight == weight]:
            yield f"the topic {self.topic} has {'; '.join(chosen)}"


def moved_topic(moves: int) -> Topic:
    """Return the topic that marks the log of the `moves`th move. ADR 0012."""
    return Topic(name=f"{_MOVED}{moves}", partitions=1, cleanup="compact", retention_ms=None)


def moves_of(topics: Iterable[str]) -> int:
    """Return how many moves from log to log the records of a log with these topics have behind them."""
    numbers = [name.removeprefix(_MOVED) for name in topics if name.startswith(_MOVED)]
    return max((int(number) for number in numbers if number.isascii() and number.isdigit()), default=0)


def chunks_topic(generation: str) -> str:
    """Return the name of a generation's topic of chunked versions."""
    return f"{_CHUNKS}{generation}"


def is_chunks_topic(name: str) -> bool:
    """Return whether the topic is some generation's topic of chunked versions."""
    return name.startswith(_CHUNKS)


def readers(generation: str) -> dict[str, str]:
    """Return the consumer group that reads each topic, in pipeline order."""
    return {SUBMITTED: "ingest", EXTRACTED: f"chunk.{generation}", chunks_topic(generation): f"embed.{generation}"}


def forwarding_group(topic: str) -> str:
    """Return the consumer group that forwards a tenant's own topic to documents.submitted."""
    return f"{_FORWARD}{topic}"


def check_tenant_topics(topics: Iterable[str]) -> None:
    """Check that no tenant's own topic is one of the pipeline's.

    Raises:
        ConfigurationError: one is.
    """
    own = {SUBMITTED, EXTRACTED, STATUS, DEAD_LETTERS, AUDIT, FEEDBACK, PAIRING}
    for topic in topics:
        if topic in own or is_chunks_topic(topic):
            raise ConfigurationError(f"SLUICE_TENANT_TOPICS: {topic} is a topic of Sluice's own; choose another name")


def topic_of(group: str) -> str | None:
    """Return the topic that one of our consumer groups reads; None if the group isn't one of ours."""
    if group.startswith(_FORWARD):
        return group.removeprefix(_FORWARD) or None
    stage, _, generation = group.partition(".")
    found = {group_: topic for topic, group_ in readers(generation).items()}
    return found.get(group) if generation or stage == "ingest" else None


def audit_topic(retention_ms: int | None, *, replication: int | None = None) -> Topic:
    """Return the topic of the audit trail; a `retention_ms` of None keeps it for ever."""
    return Topic(name=AUDIT, partitions=1, replication=replication, retention_ms=retention_ms)


def pipeline_topics(
    generation: str,
    *,
    partitions: int = PARTITIONS,
    replication: int | None = None,
    submitted_retention_ms: int = 7 * DAY,
    audit_retention_ms: int | None = None,
    compaction_lag_ms: int = COMPACTION_LAG_MS,
) -> tuple[Topic, ...]:
    """Return every topic of a pipeline with one generation; `partitions` and `replication` are for new topics.

    `compaction_lag_ms` is how long documents.extracted keeps versions that newer ones have replaced.
    """
    many = Topic(name=SUBMITTED, partitions=partitions, replication=replication, retention_ms=submitted_retention_ms)
    compacted = Topic(name=PAIRING, partitions=1, replication=replication, cleanup="compact", retention_ms=None)
    like = msgspec.structs.replace
    return (
        many,
        like(compacted, name=EXTRACTED, partitions=partitions, compaction_lag_ms=compaction_lag_ms),
        like(many, name=chunks_topic(generation), retention_ms=7 * DAY),
        Topic(name=STATUS, partitions=1, replication=replication, retention_ms=DAY),
        # Compacted: a dead letter stays until it is settled (docs/adr/0005-retries-dead-letters-replay.md).
        like(compacted, name=DEAD_LETTERS),
        audit_topic(audit_retention_ms, replication=replication),
        # Compacted, so that an erasure's null records delete on every log.
        like(compacted, name=FEEDBACK, retention_ms=90 * DAY),
        compacted,
    )


def partitions_differ(topic: Topic, found: int, grow: str | None) -> Iterator[TopicDifference]:
    """Yield the difference if a topic doesn't have the wanted number of partitions; `grow` is a command that adds some.

    `documents.submitted` may grow: a record in the wrong partition is published again to the right one. Any other
    topic must not grow: a document's records would end up in two partitions, and nothing could detect that later.
    """
    if found == topic.partitions:
        return
    if topic.name == SUBMITTED:
        why = "a new topic would get the wanted number; this one may grow at any time"
        mend = grow if found < topic.partitions else None
    else:
        why = "a new topic would get the wanted number; this one must not grow: a document's records belong together"
        mend = None
    yield TopicDifference(
        weight="note", what="partitions", found=str(found), wanted=str(topic.partitions), why=why, mend=mend
    )
