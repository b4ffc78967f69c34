"""The settings that a topic must have on Kafka, and the differences of an existing one. No I/O."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from shared.topics import DAY, Topic, TopicDifference, TopicInspection, Weight, partitions_differ

CLEANUP: Final = "cleanup.policy"
RETENTION: Final = "retention.ms"
RETENTION_BYTES: Final = "retention.bytes"
TIMESTAMPS: Final = "message.timestamp.type"
MAX_BYTES: Final = "max.message.bytes"
MIN_IN_SYNC: Final = "min.insync.replicas"
SEGMENT: Final = "segment.ms"
COMPACTION_LAG: Final = "max.compaction.lag.ms"
LEAST_LAG: Final = "min.compaction.lag.ms"
_LAG_MS: Final = 7 * DAY


class ExistingTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A topic as the cluster describes it."""

    partitions: int
    copies: int  # of the partition that has the fewest
    configs: Mapping[str, str]


def configs(topic: Topic) -> dict[str, str]:
    """Return the topic's settings, by Kafka's names."""
    return {
        CLEANUP: "compact,delete" if topic.cleanup == "compact" and topic.retention_ms is not None else topic.cleanup,
        RETENTION: str(-1 if topic.retention_ms is None else topic.retention_ms),
        # So a client's clock decides nothing, and retention can't delete a record dated 1970.
        TIMESTAMPS: "LogAppendTime",
        MAX_BYTES: str(topic.max_record_bytes),
        # Erased data must be gone in a known time (docs/erasure.md). By default, the segment being written stays a week
        # longer, and a compacted topic is cleaned only once half of it is old.
        SEGMENT: str(DAY),
        **({COMPACTION_LAG: str(_longest_lag(topic))} if topic.cleanup == "compact" else {}),
        **({LEAST_LAG: str(topic.compaction_lag_ms)} if topic.compaction_lag_ms else {}),
    }


def _longest_lag(topic: Topic) -> int:
    return max(_LAG_MS, topic.compaction_lag_ms)  # Kafka refuses a longest lag that is shorter than the least one


def least_lag_ms(found: Mapping[str, str]) -> int:
    """Return the age that a record reaches before compaction looks at it."""
    return int(found.get(LEAST_LAG, "0"))


def retention_ms(found: Mapping[str, str]) -> int | None:
    """Return the age in ms at which records are deleted; None: never."""
    kept = int(found[RETENTION])
    return kept if kept >= 0 and "delete" in found[CLEANUP] else None


def inspection(topic: Topic, found: ExistingTopic, servers: str) -> TopicInspection:
    """Return how the topic differs, and the commands that fix it; `servers` is the address in them."""
    return TopicInspection(
        topic=topic.name, partitions=found.partitions, differences=tuple(_differences(topic, found, servers))
    )


def _differences(  # noqa: C901 - a branch for each setting
    topic: Topic, found: ExistingTopic, servers: str
) -> Iterator[TopicDifference]:
    here = f"--bootstrap-server {servers} --alter"
    grow = f"kafka-topics.sh {here} --topic {topic.name} --partitions {topic.partitions}"
    change = f"kafka-configs.sh {here} --entity-type topics --entity-name {topic.name} --add-config"
    wanted, there = configs(topic), found.configs

    def differs(weight: Weight, name: str, wish: str, why: str, *, value: str = "") -> TopicDifference:
        mend = f"{change} {name}={value or wanted[name]}"
        return TopicDifference(weight=weight, what=name, found=there.get(name, "0"), wanted=wish, why=why, mend=mend)

    for name, why in (
        (CLEANUP, "old versions would stay for ever, or the newest would go"),
        (TIMESTAMPS, "clients' clocks would decide which version is newer"),
    ):
        if there[name] != wanted[name]:
            yield differs("unfit", name, wanted[name], why)
    if int(there[MAX_BYTES]) < topic.max_record_bytes:
        why = "records that the pipeline makes would be refused"
        yield differs("unfit", MAX_BYTES, f"{wanted[MAX_BYTES]} or more", why)
    kept = retention_ms(there)
    if kept is not None and (topic.retention_ms is None or kept < topic.retention_ms):
        wish = f"{wanted[RETENTION]} or more" if topic.retention_ms is not None else wanted[RETENTION]
        yield differs("risk", RETENTION, wish, "what isn't read in that time is lost")
    if int(there[RETENTION_BYTES]) >= 0 and "delete" in there[CLEANUP]:
        yield differs("risk", RETENTION_BYTES, "-1", "a burst of that size pushes out what wasn't read", value="-1")
    if found.copies >= 3 and int(there[MIN_IN_SYNC]) < 2:
        why = f"a record is acknowledged with one copy of {found.copies}, and lost with it"
        yield differs("risk", MIN_IN_SYNC, "2 or more", why, value="2")
    longest = _longest_lag(topic)
    if least_lag_ms(there) < topic.compaction_lag_ms:
        why = "`sluice reindex start --as-of` reaches less far back"
        both = f"{topic.compaction_lag_ms},{COMPACTION_LAG}={longest}"
        yield differs("note", LEAST_LAG, f"{topic.compaction_lag_ms} or more", why, value=both)
    if topic.cleanup == "compact" and int(there.get(COMPACTION_LAG, _LAG_MS)) > longest:
        yield differs("note", COMPACTION_LAG, f"{longest} or less", "what was erased may stay longer")
    if topic.replication is not None and found.copies != topic.replication:
        yield TopicDifference(
            weight="risk" if found.copies < topic.replication else "note",
            what="replication factor",
            found=str(found.copies),
            wanted=str(topic.replication),
            why="a new topic would get so many copies",
            mend="move it with kafka-reassign-partitions.sh",
        )
    yield from partitions_differ(topic, found.partitions, grow)
