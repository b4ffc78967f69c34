import msgspec
import pytest

from shared.log.kafka.topics import Found, configs, conflict, remark
from shared.topics import DAY, EXTRACTED, SUBMITTED, Topic, pipeline_topics

TRUTH = Topic(name=EXTRACTED, partitions=8, cleanup="compact", retention_ms=None)


def as_made(topic: Topic, **differing: str) -> Found:
    return Found(topic.partitions, {**configs(topic), **differing})


@pytest.mark.parametrize("topic", pipeline_topics("g1"), ids=lambda topic: topic.name)
def test_a_topic_that_we_made_is_fit(topic: Topic) -> None:
    assert conflict(topic, as_made(topic)) is None
    assert remark(topic, as_made(topic)) is None


def test_the_logs_own_clock_stamps_every_topic() -> None:
    assert {configs(topic)["message.timestamp.type"] for topic in pipeline_topics("g1")} == {"LogAppendTime"}


def test_all_that_differs_is_in_one_sentence() -> None:
    found = Found(4, {"cleanup.policy": "delete", "message.timestamp.type": "CreateTime", "max.message.bytes": "1000"})

    assert conflict(TRUTH, found) == (
        "the topic documents.extracted has 4 partitions, not 8, cleanup delete, not compact, message.timestamp.type "
        "CreateTime, not LogAppendTime, max.message.bytes 1000, less than 1048576"
    )


def test_a_larger_limit_is_fit() -> None:
    assert conflict(TRUTH, as_made(TRUTH, **{"max.message.bytes": "5000000"})) is None


def test_only_the_topic_whose_records_are_keyed_again_may_have_grown() -> None:
    submitted = Topic(name=SUBMITTED, partitions=8)

    assert conflict(submitted, msgspec.structs.replace(as_made(submitted), partitions=12)) is None
    assert conflict(submitted, msgspec.structs.replace(as_made(submitted), partitions=4)) is not None
    assert conflict(TRUTH, msgspec.structs.replace(as_made(TRUTH), partitions=12)) is not None


def test_how_long_records_are_kept_is_the_operators_choice() -> None:
    submitted = Topic(name=SUBMITTED, retention_ms=7 * DAY)
    longer = as_made(submitted, **{"retention.ms": str(30 * DAY)})

    assert conflict(submitted, longer) is None
    assert remark(submitted, longer) == f"the topic {SUBMITTED} has retention.ms {30 * DAY}, not {7 * DAY}"
