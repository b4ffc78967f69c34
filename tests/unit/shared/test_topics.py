import pytest

from shared.settings import ConfigurationError
from shared.topics import (
    SUBMITTED,
    Topic,
    TopicDifference,
    TopicInspection,
    check_tenant_topics,
    forwarding_group,
    moved_topic,
    moves_of,
    partitions_differ,
    pipeline_topics,
    readers,
    topic_of,
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


def test_a_group_that_forwards_names_the_topic_that_it_reads() -> None:
    assert topic_of(forwarding_group("acme.documents")) == "acme.documents"
    assert topic_of("forward.") is None


@pytest.mark.parametrize("name", ["documents.submitted", "dead.letters", "audit.trail", "chunks.g1"])
def test_a_tenant_s_own_topic_is_none_of_ours(name: str) -> None:
    check_tenant_topics(["acme.documents"])
    with pytest.raises(ConfigurationError, match=f"{name} is a topic of Sluice's own"):
        check_tenant_topics(["acme.documents", name])


def test_a_log_tells_by_its_topics_how_often_its_records_were_moved() -> None:
    assert moves_of(["documents.submitted", "log.moved.x"]) == 0
    assert moves_of([moved_topic(1).name, moved_topic(12).name, SUBMITTED]) == 12
