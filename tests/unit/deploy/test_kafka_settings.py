"""The one server of compose.yaml that can be started here: a real Kafka takes its settings."""

import re
from pathlib import Path
from typing import Final

import pytest

from shared.errors import Unavailable
from shared.log.kafka import KafkaLog, kafka_address
from shared.topics import Topic
from tests.selection import CI_ONLY
from tests.servers import kafka
from tests.servers.cache import run
from tests.servers.choice import own
from tests.servers.ports import free_port
from tests.unit.deploy.files import raw_compose

PASSWORD: Final = re.compile(r"\$\{KAFKA_PASSWORD[^}]*\}")
CONTAINER_ONLY = {"CLUSTER_ID", "KAFKA_HEAP_OPTS", "KAFKA_LOG_DIRS"}


def properties(environment: dict[str, str]) -> dict[str, object]:
    """Return the properties that Kafka's image makes of its variables."""
    return {
        name.removeprefix("KAFKA_").lower().replace("_", "."): value
        for name, value in environment.items()
        if name not in CONTAINER_ONLY
    }


@CI_ONLY
@pytest.mark.slow
@pytest.mark.server
async def test_a_real_kafka_starts_with_the_settings_and_asks_both_outer_listeners_for_the_password(
    tmp_path: Path,
) -> None:
    environment = raw_compose()["services"]["kafka"]["environment"]
    clients, controller, host, inside = (f"127.0.0.1:{free_port()}" for _ in range(4))
    here = {
        "://kafka:9092": f"://{clients}",
        "://:9092": f"://{clients}",
        "://127.0.0.1:9094": f"://{host}",
        "://:9094": f"://{host}",
        "://127.0.0.1:9093": f"://{controller}",
        "@127.0.0.1:9093": f"@{controller}",
        "://127.0.0.1:9095": f"://{inside}",
    }
    told = {name: PASSWORD.sub("secret", str(value)) for name, value in properties(environment).items()}
    for there, instead in here.items():
        told = {name: value.replace(there, instead) for name, value in told.items()}
    built = own("Kafka", kafka.RECIPE, kafka.missing())
    server = kafka.KafkaServer(built, tmp_path, told)
    run(
        [
            *("java", *kafka.JVM, "-cp", server.classpath, "kafka.tools.StorageTool", "format"),
            *(f"--cluster-id={environment['CLUSTER_ID']}", "-c", server.write_properties()),
        ]
    )
    server.address = inside
    with server:
        assert f"cluster.id={environment['CLUSTER_ID']}" in (tmp_path / "data/meta.properties").read_text()
        for listener in (clients, host):
            log = KafkaLog(kafka_address(f"kafka://sluice:secret@{listener}"))
            await log.start()
            await log.ensure_topics([Topic(name="events", partitions=1)])
            await log.stop()
            for login in ("sluice:guess@", ""):
                refused = KafkaLog(kafka_address(f"kafka://{login}{listener}"), patience_s=0)
                with pytest.raises(Unavailable, match=listener):
                    await refused.start()
