import pytest

from shared.log.kafka.topics import ExistingTopic, configs, inspection
from shared.topics import DAY, EXTRACTED, FEEDBACK, SUBMITTED, Topic, TopicInspection, pipeline_topics

TRUTH = Topic(name=EXTRACTED, partitions=8, cleanup="compact", retention_ms=None)
INBOX = Topic(name=SUBMITTED, partitions=8, retention_ms=7 * DAY)


def looked_at(topic: Topic, partitions: int = 8, copies: int = 1, **differing: str) -> TopicInspection:
    """Return what is said of a topic that was made as asked for, but for what differs."""
    as_made = {**configs(topic), "retention.bytes": "-1", "min.insync.replicas": "1"}
    renamed = {name.replace("_", "."): value for name, value in differing.items()}
    found = ExistingTopic(partitions=partitions, copies=copies, configs={**as_made, **renamed})
    return inspection(topic, found, "one:9092,two:9092")


@pytest.mark.parametrize("topic", pipeline_topics("g1"), ids=lambda topic: topic.name)
def test_a_topic_that_we_made_is_as_asked_for(topic: Topic) -> None:
    assert looked_at(topic, partitions=topic.partitions).differences == ()


def test_the_logs_own_clock_stamps_every_topic() -> None:
    assert {configs(topic)["message.timestamp.type"] for topic in pipeline_topics("g1")} == {"LogAppendTime"}


def test_a_compacted_topic_may_have_a_retention_too() -> None:
    [thumbs] = [configs(topic) for topic in pipeline_topics("g1") if topic.name == FEEDBACK]

    assert (thumbs["cleanup.policy"], thumbs["retention.ms"]) == ("compact,delete", str(90 * DAY))


def test_new_topics_get_what_is_asked_for_and_those_read_in_one_piece_a_single_partition() -> None:
    topics = pipeline_topics("g1", partitions=12, replication=3)

    assert [topic.partitions for topic in topics] == [12, 12, 12, 1, 1, 1, 1, 1]
    assert {topic.replication for topic in topics} == {3}


def test_all_that_makes_it_unfit_is_in_one_sentence() -> None:
    found = looked_at(
        TRUTH, cleanup_policy="delete", message_timestamp_type="CreateTime", max_message_bytes="1000", retention_ms="-1"
    )

    assert not found.fit
    [sentence] = found.sentences("unfit")
    assert sentence == (
        "the topic documents.extracted has cleanup.policy delete, not compact; message.timestamp.type CreateTime, not "
        "LogAppendTime; max.message.bytes 1000, not 1048576 or more"
    )


def test_every_difference_names_the_command_that_mends_it() -> None:
    [clock] = looked_at(TRUTH, message_timestamp_type="CreateTime").differences

    assert clock.mend == (
        "kafka-configs.sh --bootstrap-server one:9092,two:9092 --alter --entity-type topics "
        "--entity-name documents.extracted --add-config message.timestamp.type=LogAppendTime"
    )


def test_a_larger_limit_and_a_longer_memory_are_nobody_s_business() -> None:
    assert looked_at(INBOX, max_message_bytes="5000000", retention_ms=str(30 * DAY)).differences == ()
    assert looked_at(INBOX, retention_ms="-1").differences == ()


@pytest.mark.parametrize(
    ("topic", "differing", "says"),
    [
        (INBOX, {"retention_ms": "60000"}, "retention.ms 60000, not 604800000 or more"),
        (INBOX, {"retention_bytes": "1000"}, "retention.bytes 1000, not -1"),
        (INBOX, {"copies": 3}, "min.insync.replicas 1, not 2 or more"),
        (Topic(name="d", retention_ms=None), {"retention_ms": "60000"}, "retention.ms 60000, not -1"),
        (Topic(name="d", replication=3), {}, "replication factor 1, not 3"),
    ],
)
def test_what_can_lose_records_is_a_risk_that_an_operator_may_take(
    topic: Topic, differing: dict[str, str | int], says: str
) -> None:
    found = looked_at(topic, **differing)  # type: ignore[arg-type]  # each of its own type

    assert [(each.weight, str(each)) for each in found.differences] == [("risk", says)]
    assert found.fit


def test_a_topic_that_compacts_forgets_nothing_by_age_or_size() -> None:
    assert looked_at(TRUTH, retention_ms="60000", retention_bytes="1000").differences == ()


def test_what_was_erased_is_compacted_away_in_known_time() -> None:
    assert {configs(topic)["segment.ms"] for topic in pipeline_topics("g1")} == {str(DAY)}
    [lag] = looked_at(TRUTH, max_compaction_lag_ms=str(2**63 - 1)).differences

    assert (lag.weight, str(lag)) == ("note", f"max.compaction.lag.ms {2**63 - 1}, not {7 * DAY} or less")
    assert lag.mend is not None
    assert lag.mend.endswith(f"--add-config max.compaction.lag.ms={7 * DAY}")
    assert looked_at(TRUTH, max_compaction_lag_ms=str(DAY)).differences == ()


def test_partitions_are_what_the_cluster_has() -> None:
    grown, short, other = looked_at(INBOX, 12), looked_at(INBOX, 4), looked_at(TRUTH, 4)

    assert [each.differences[0].weight for each in (grown, short, other)] == ["note"] * 3
    assert str(grown.differences[0]) == "partitions 12, not 8"
    # Only the topic whose records are keyed again may grow.
    assert [each.differences[0].mend for each in (grown, short, other)] == [
        None,
        "kafka-topics.sh --bootstrap-server one:9092,two:9092 --alter --topic documents.submitted --partitions 8",
        None,
    ]


def test_the_truth_keeps_replaced_versions_and_a_shorter_lag_is_named() -> None:
    truth = next(topic for topic in pipeline_topics("g1", compaction_lag_ms=30 * DAY) if topic.name == EXTRACTED)
    assert configs(truth)["min.compaction.lag.ms"] == configs(truth)["max.compaction.lag.ms"] == str(30 * DAY)
    assert looked_at(truth, min_compaction_lag_ms=str(60 * DAY)).differences == ()

    [lag] = looked_at(truth, min_compaction_lag_ms="0").differences

    assert (lag.weight, str(lag)) == ("note", f"min.compaction.lag.ms 0, not {30 * DAY} or more")
    assert lag.mend is not None
    assert lag.mend.endswith(f"min.compaction.lag.ms={30 * DAY},max.compaction.lag.ms={30 * DAY}")
