"""`sluice init` on a real cluster."""

import shlex
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from services.operator_cli.provisioning import InitStep, initialise, lines
from shared.settings import Settings
from shared.topics import AUDIT, DAY, DEAD_LETTERS, EXTRACTED, FEEDBACK, PAIRING, STATUS, SUBMITTED
from tests.contract.kafka_harness import create, empty
from tests.selection import CI_ONLY
from tests.servers.cache import run
from tests.servers.kafka import JVM, KafkaServer

pytestmark = pytest.mark.server

# What the scripts of Kafka's own distribution start.
SCRIPTS = {"kafka-configs.sh": "kafka.admin.ConfigCommand", "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand"}


def settings_for(address: str, folder: Path, **more: int) -> Settings:
    return Settings(log=f"kafka://{address}", data=folder / "data", **more)  # type: ignore[arg-type]  # pydantic's own


SINGLE = (STATUS, DEAD_LETTERS, AUDIT, FEEDBACK, PAIRING)


@pytest.fixture
async def admin(kafka_address: str) -> AsyncIterator[AIOKafkaAdminClient]:
    await empty(kafka_address)
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka_address)
    await admin.start()
    yield admin
    await admin.close()


async def settings_of(admin: AIOKafkaAdminClient, topic: str) -> dict[str, str]:
    [answer] = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    [(_, _, _, _, entries)] = answer.resources
    return {entry[0]: entry[1] for entry in entries}


def states(parts: tuple[InitStep, ...]) -> Counter[str]:
    return Counter(part.state for part in parts)


async def test_topics_are_made_as_the_pipeline_needs_them(
    kafka_address: str, admin: AIOKafkaAdminClient, tmp_path: Path
) -> None:
    settings = settings_for(kafka_address, tmp_path, partitions=3, replication=1)

    looked = await initialise(settings, dry_run=True)
    before = [name for name in await admin.list_topics() if not name.startswith("__")]
    made = await initialise(settings, dry_run=False)

    assert states(looked) == {"missing": 12}
    assert before == []
    assert states(made) == {"created": 12}
    assert all(part.differences == () for part in made)
    described = await admin.describe_topics([part.name for part in made if part.kind == "topic"])
    partitions = {topic["topic"]: len(topic["partitions"]) for topic in described}
    assert partitions == dict.fromkeys((SUBMITTED, EXTRACTED, made[2].name), 3) | dict.fromkeys(SINGLE, 1)
    for topic, cleanup, kept in (
        (SUBMITTED, "delete", "604800000"),
        (EXTRACTED, "compact", "-1"),
        (made[2].name, "delete", "604800000"),
        (STATUS, "delete", "86400000"),
        (DEAD_LETTERS, "compact", "-1"),
        (FEEDBACK, "compact,delete", str(90 * DAY)),
    ):
        found = await settings_of(admin, topic)
        assert (found["cleanup.policy"], found["retention.ms"]) == (cleanup, kept)
        assert (found["message.timestamp.type"], found["max.message.bytes"]) == ("LogAppendTime", "1048576")


@CI_ONLY
@pytest.mark.slow
async def test_the_commands_that_it_prints_mend_what_they_stand_under(kafka: KafkaServer, tmp_path: Path) -> None:
    settings = settings_for(kafka.address, tmp_path)
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.address)
    await admin.start()
    small = {"max.message.bytes": "1000"}  # and clients' clocks, as Kafka has them by itself
    await create(admin, NewTopic(SUBMITTED, 2, 1, topic_configs=small))
    await admin.close()

    found = await initialise(settings, dry_run=False)
    assert (found[0].state, states(found)["missing"]) == ("unfit", 11)
    commands = [line.partition("mend: ")[2] for line in lines(found, dry_run=False) if "mend: " in line]
    assert len(commands) == len(found[0].differences) == 3
    for command in commands:
        script, *arguments = shlex.split(command)
        run(["java", *JVM, "-cp", kafka.classpath, SCRIPTS[script], *arguments])

    mended = await initialise(settings, dry_run=False)
    assert states(mended) == {"there": 1, "created": 11}
    assert (mended[0].partitions, mended[0].differences) == (8, ())


@CI_ONLY
async def test_what_an_operator_may_choose_is_a_remark_and_no_obstacle(
    kafka_address: str, admin: AIOKafkaAdminClient, tmp_path: Path
) -> None:
    chosen = {"message.timestamp.type": "LogAppendTime", "retention.ms": "60000", "max.message.bytes": "5000000"}
    await create(admin, NewTopic(SUBMITTED, 12, 1, topic_configs=chosen))

    parts = await initialise(settings_for(kafka_address, tmp_path), dry_run=False)

    assert states(parts) == {"there": 1, "created": 11}
    assert [(each.weight, str(each)) for each in parts[0].differences] == [
        ("risk", "retention.ms 60000, not 604800000 or more"),
        ("note", "partitions 12, not 8"),
    ]
