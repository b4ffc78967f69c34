"""Says loudly when aiokafka's insides, which `shared.log.kafka` relies on, have changed."""

import inspect
from importlib.metadata import version

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.client import AIOKafkaClient
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.producer.message_accumulator import MessageAccumulator
from aiokafka.producer.sender import Sender


def test_the_version_is_the_one_that_was_read() -> None:
    assert version("aiokafka") == "0.14.0"


def test_every_commit_still_goes_through_the_last_step_before_its_request() -> None:
    assert [*inspect.signature(GroupCoordinator._do_commit_offsets).parameters] == ["self", "assignment", "offsets"]
    assert "self._do_commit_offsets(" in inspect.getsource(GroupCoordinator.commit_offsets)
    assert "self.generation" in inspect.getsource(GroupCoordinator._do_commit_offsets)


def test_a_producer_still_has_the_parts_that_are_ended_one_by_one() -> None:
    made = inspect.getsource(AIOKafkaProducer.__init__)
    for expected in ("self.client = ", "self._message_accumulator = ", "self._sender = "):
        assert expected in made
    assert [*inspect.signature(MessageAccumulator.fail_all).parameters] == ["self", "exception"]
    assert inspect.iscoroutinefunction(Sender.close)


def test_a_consumer_still_has_the_parts_that_a_start_and_an_end_need() -> None:
    made = inspect.getsource(AIOKafkaConsumer.__init__) + inspect.getsource(AIOKafkaConsumer.start)
    for expected in ("self._client = ", "self._subscription = ", "self._fetcher = ", "self._coordinator = "):
        assert expected in made
    coordinator = inspect.getsource(GroupCoordinator)
    for expected in ("self._coordination_task = ", "self._heartbeat_task = ", "self._commit_refresh_task = "):
        assert expected in coordinator
    assert inspect.iscoroutinefunction(AIOKafkaClient._wait_on_metadata)
