"""A real Kafka node for tests: one JVM, broker and controller in one, from Maven's packages.

`SLUICE_TEST_KAFKA` (host:port of one that tests may empty), else our own build, else a container, else none. Only a
node of our own can be killed, paused and restarted.
"""

import base64
import os
import shutil
import socket
import struct
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest

from tests.servers.cache import Recipe, Say, run
from tests.servers.choice import chosen, own
from tests.servers.ports import free_port
from tests.servers.process import ServerProcess

IMAGE = "confluentinc/cp-kafka:8.1.0"
POM = Path(__file__).with_name("kafka_pom.xml")

JVM = (
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xshare:auto",
    "-Xlog:disable",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
)
PROPERTIES: Mapping[str, object] = {
    "node.id": 1,
    "process.roles": "broker,controller",
    "inter.broker.listener.name": "BROKER",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    # The controller refuses a killed broker until its old session ends, 9 s by default.
    "broker.session.timeout.ms": 1000,
    "broker.heartbeat.interval.ms": 200,
    "log.cleaner.dedupe.buffer.size": 2_097_152,
    "log.cleaner.backoff.ms": 200,
    "log.retention.check.interval.ms": 500,
    "file.delete.delay.ms": 100,
}


def _build(folder: Path, say: Say) -> None:
    say("Kafka: fetching its jars")
    shutil.rmtree(folder / "jars", ignore_errors=True)
    # Maven writes beside the pom that it reads.
    shutil.copy(POM, folder / "pom.xml")
    run(
        [
            *("mvn", "-B", "-q", "-ntp", "-f", folder / "pom.xml", "dependency:copy-dependencies"),
            *("-DincludeScope=runtime", f"-DoutputDirectory={folder / 'jars'}"),
        ]
    )
    say("Kafka: its first start, for what later starts reuse")
    shutil.rmtree(folder / "first", ignore_errors=True)
    node = KafkaServer(folder, folder / "first")
    run(
        [
            *("java", *JVM, "-cp", node.classpath, "kafka.tools.StorageTool", "format"),
            *(f"--cluster-id={_kafka_uuid()}", "-c", node.write_properties()),
        ]
    )
    # Without it, features that every real cluster has stay switched off.
    shutil.copy(folder / "first" / "data" / "bootstrap.checkpoint", folder)
    node.start(f"-XX:ArchiveClassesAtExit={folder / 'classes.jsa'}")
    node.stop(60)
    shutil.rmtree(folder / "first")


RECIPE = Recipe("kafka", [POM.read_bytes(), *JVM, *(f"{name}={value}" for name, value in PROPERTIES.items())], _build)


def missing() -> str | None:
    """Return what a build would lack, or None."""
    for tool, name in (("java", "a JDK, 17 or newer,"), ("mvn", "Maven")):
        if shutil.which(tool) is None:
            return f"{name} is not installed ({tool})"
    return None


class KafkaServer:
    """A node in a folder of its own. Its data outlives a kill; its ports stay the same."""

    def __init__(
        self, built: Path, folder: Path, properties: Mapping[str, object] | None = None, *, also: Sequence[str] = ()
    ) -> None:
        """Take what was built, an empty folder, properties that differ from ours, and listeners besides ours."""
        self.address = f"127.0.0.1:{free_port()}"
        self.classpath = ":".join(str(jar) for jar in sorted((built / "jars").glob("*.jar")))
        self._built = built
        self._folder = folder
        controller = f"127.0.0.1:{free_port()}"
        self._properties = {
            **PROPERTIES,
            "log.dirs": folder / "data",
            "controller.quorum.voters": f"1@{controller}",
            "listeners": ",".join((f"BROKER://{self.address}", f"CONTROLLER://{controller}", *also)),
            **(properties or {}),
        }
        self._process: ServerProcess | None = None

    def advertise(self, addresses: Mapping[str, str]) -> None:
        """Have clients of each listener come back at another address, from the next start on."""
        told = ",".join(f"{name}://{address}" for name, address in addresses.items())
        self._properties["advertised.listeners"] = told

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()  # its data is thrown away: there is nothing to flush, and a kill can't hang

    def start(self, *jvm: str, within_s: float = 60) -> None:
        """Start, also on what an earlier run left, and return when the node lists itself."""
        properties = self.write_properties()
        data = self._folder / "data"
        if not data.exists():
            # What StorageTool does, without a second JVM.
            data.mkdir()
            shutil.copy(self._built / "bootstrap.checkpoint", data)
            (data / "meta.properties").write_text(
                f"version=1\nnode.id=1\ncluster.id={_kafka_uuid()}\ndirectory.id={_kafka_uuid()}\n", "utf-8"
            )
        archive = jvm or (f"-XX:SharedArchiveFile={self._built / 'classes.jsa'}",)
        self._process = ServerProcess(
            ["java", *JVM, *archive, "-cp", self.classpath, "kafka.Kafka", properties],
            self._folder / "server.log",
            cwd=self._folder,
        )
        deadline = time.monotonic() + within_s
        while not self.ready():
            if self._process.ended or time.monotonic() > deadline:
                self._process.kill()
                raise RuntimeError(f"Kafka did not start; its last words:\n{self._process.last_words()}")
            time.sleep(0.05)

    def write_properties(self) -> Path:
        """Return the node's file of settings."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in self._properties.items()), "utf-8")
        return path

    def ready(self) -> bool:
        """Return whether it lists a broker that takes requests: an open port says nothing of the kind."""
        host, _, port = self.address.rpartition(":")
        request = struct.pack(">hhihi", 3, 1, 0, -1, 0)  # Metadata, version 1, of no topics
        with suppress(OSError, struct.error), socket.create_connection((host, int(port)), 1) as connection:
            connection.settimeout(2)
            connection.sendall(struct.pack(">i", len(request)) + request)
            _length, _correlation, brokers = struct.unpack(">iii", connection.makefile("rb").read(12))
            return bool(brokers)
        return False

    def stop(self, within_s: float = 20) -> None:
        """Shut it down in order."""
        self._running.stop(within_s)

    def kill(self) -> None:
        """End it at once (kill -9)."""
        if self._process is not None:
            self._process.kill()

    @property
    def pid(self) -> int:
        return self._running.pid

    def pause(self) -> None:
        self._running.pause()

    def resume(self) -> None:
        self._running.resume()

    def segment(self, topic: str, partition: int) -> bytes:
        """Return the first segment of a partition as it is on disk."""
        [first, *_] = sorted((self._folder / "data" / f"{topic}-{partition}").glob("*.log"))
        return first.read_bytes()

    @property
    def _running(self) -> ServerProcess:
        if self._process is None:
            raise RuntimeError("Kafka was not started")
        return self._process


def _kafka_uuid() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _container() -> Iterator[str]:
    from testcontainers.community.kafka import KafkaContainer  # only where Docker answers

    with KafkaContainer(IMAGE).with_kraft() as container:
        yield container.get_bootstrap_server()


@pytest.fixture(scope="session")
def kafka_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield host:port of a node that tests share, or skip where there is none; in CI, fail."""
    given = os.environ.get("SLUICE_TEST_KAFKA")
    if given:
        yield given
        return
    built = chosen("Kafka", RECIPE, missing(), "SLUICE_TEST_KAFKA")
    if built is None:
        yield from _container()
        return
    with KafkaServer(built, tmp_path_factory.mktemp("kafka")) as server:
        yield server.address


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[KafkaServer]:
    """Yield a node of the test's own, to be killed and paused, or skip where none was built; in CI, fail."""
    with KafkaServer(own("Kafka", RECIPE, missing()), tmp_path / "kafka") as server:
        yield server
