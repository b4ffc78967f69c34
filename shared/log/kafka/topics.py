"""What a topic must be on Kafka, and how one that is there differs. No I/O."""

from collections.abc import Mapping
from typing import Final

import msgspec

from shared.topics import SUBMITTED, Topic

CLEANUP: Final = "cleanup.policy"
RETENTION: Final = "retention.ms"
TIMESTAMPS: Final = "message.timestamp.type"
MAX_BYTES: Final = "max.message.bytes"


class Found(msgspec.Struct, frozen=True):
    """A topic as the cluster describes it."""

    partitions: int
    configs: Mapping[str, str]


def configs(topic: Topic) -> dict[str, str]:
    """Return the topic's settings, by Kafka's names."""
    return {
        CLEANUP: topic.cleanup,
        RETENTION: str(-1 if topic.retention_ms is None else topic.retention_ms),
        # A client's clock decides nothing, and retention can't eat a record dated 1970.
        TIMESTAMPS: "LogAppendTime",
        MAX_BYTES: str(topic.max_record_bytes),
    }


def conflict(topic: Topic, found: Found) -> str | None:
    """Return what makes the topic unfit, in words for an operator; None where it will do.

    `documents.submitted` may have grown: its records are keyed again where they don't belong. In any other topic
    a change of partitions would tear a document's records apart.
    """
    wanted = configs(topic)
    differs = [
        f"{called} {found.configs.get(name)}, not {wanted[name]}"
        for called, name in (("cleanup", CLEANUP), (TIMESTAMPS, TIMESTAMPS))
        if found.configs.get(name) != wanted[name]
    ]
    if found.partitions != topic.partitions and not (topic.name == SUBMITTED and found.partitions > topic.partitions):
        differs.insert(0, f"{found.partitions} partitions, not {topic.partitions}")
    if int(found.configs.get(MAX_BYTES, 0)) < topic.max_record_bytes:
        differs.append(f"{MAX_BYTES} {found.configs.get(MAX_BYTES)}, less than {wanted[MAX_BYTES]}")
    return f"the topic {topic.name} has {', '.join(differs)}" if differs else None


def remark(topic: Topic, found: Found) -> str | None:
    """Return what an operator chose otherwise, and may: how long records are kept."""
    kept, ours = found.configs.get(RETENTION), configs(topic)[RETENTION]
    return f"the topic {topic.name} has {RETENTION} {kept}, not {ours}" if kept != ours else None
