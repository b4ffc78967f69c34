import pytest

from shared.topics import (
    SUBMITTED,
    Topic,
    TopicDifference,
    TopicInspection,
    partitions_differ,
    pipeline_topics,
    readers,
)


@pytest.mark.parametrize(
    ("name", "found", "mend"), [(SUBMITTED, 4, "grow it"), (SUBMITTED, 16, None), ("chunks.g", 4, None)]
)
def test_only_submissions_may_grow(name: str, found: int, mend: str | None) -> None:
    [difference] = partitions_differ(Topic(name=name, partitions=8), found, "grow it")

    assert (difference.weight, difference.mend) == ("note", mend)
    assert list(partitions_differ(Topic(name=name, partitions=found), found, "grow it")) == []


def test_an_inspection_lists_its_differences_by_weight() -> None:
    risk = TopicDifference(weight="risk", what="retention.ms", found="1", wanted="2", why="records are lost")
    inspection = TopicInspection(topic="t", partitions=8, differences=(risk,))

    assert inspection.fit
    assert list(inspection.sentences("risk")) == ["the topic t has retention.ms 1, not 2"]
    assert list(inspection.sentences("unfit")) == []


def test_every_topic_that_a_stage_reads_belongs_to_the_pipeline() -> None:
    assert set(readers("g1")) <= {topic.name for topic in pipeline_topics("g1")}
