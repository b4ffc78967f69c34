"""The one server of compose.yaml that can be started here: a real Kafka takes its settings."""

from pathlib import Path

import pytest

from tests.servers import kafka
from tests.servers.cache import CI_ONLY, run
from tests.servers.choice import own
from tests.servers.ports import free_port
from tests.unit.deploy.files import raw_compose

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
def test_a_real_kafka_starts_with_the_settings_and_answers_both_listeners(tmp_path: Path) -> None:
    environment = raw_compose()["services"]["kafka"]["environment"]
    inside, controller, outside = (f"127.0.0.1:{free_port()}" for _ in range(3))
    here = {
        "://kafka:9092": f"://{inside}",
        "://:9092": f"://{inside}",
        "://127.0.0.1:9094": f"://{outside}",
        "://:9094": f"://{outside}",
        "://:9093": f"://{controller}",
        "@localhost:9093": f"@{controller}",
    }
    told = properties(environment)
    for there, instead in here.items():
        told = {name: str(value).replace(there, instead) for name, value in told.items()}
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
        server.address = outside

        assert server.ready()
        assert f"cluster.id={environment['CLUSTER_ID']}" in (tmp_path / "data/meta.properties").read_text()
