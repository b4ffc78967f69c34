import io
import json
import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
import structlog

from shared.runtime.logging_setup import MASK, MESSAGE_LIMIT, LogFormat, RateFilter, configure_logging


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """Leave the process' logging as it was found."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    structlog_before = structlog.get_config()
    yield
    root.handlers[:], root.level = handlers, level
    logging.captureWarnings(capture=False)
    structlog.configure(**structlog_before)


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_an_event_is_one_json_object_on_one_line_with_utc_time_and_level() -> None:
    stream = io.StringIO()
    configure_logging("json", stream=stream)

    structlog.get_logger("a.module").warning("document_rejected", reason="two\nlines – and ü", chunks=3)

    [line] = lines(stream)
    time = datetime.fromisoformat(line.pop("time"))
    assert time.utcoffset() == timedelta(0)
    assert line == {
        "event": "document_rejected",
        "level": "warning",
        "logger": "a.module",
        "reason": "two\nlines – and ü",
        "chunks": 3,
    }


def test_the_standard_library_s_records_take_the_same_shape() -> None:
    stream = io.StringIO()
    configure_logging("json", stream=stream)

    logging.getLogger("shared.log").warning("position %d of %s", 7, "topic", extra={"partition": 2})

    [line] = lines(stream)
    assert (line["event"], line["level"], line["partition"]) == ("position 7 of topic", "warning", 2)


def test_what_is_bound_to_the_context_is_in_every_line() -> None:
    stream = io.StringIO()
    configure_logging("json", stream=stream)

    with structlog.contextvars.bound_contextvars(request_id="r1"):
        structlog.get_logger().info("searched")
        logging.getLogger("x").info("and so on")

    assert [line["request_id"] for line in lines(stream)] == ["r1", "r1"]


@pytest.mark.parametrize(
    ("log_format", "stream", "readable"),
    [("auto", io.StringIO(), False), ("auto", Terminal(), True), ("console", io.StringIO(), True)],
)
def test_a_terminal_gets_readable_lines_and_a_pipe_json(
    log_format: LogFormat, stream: io.StringIO, readable: bool
) -> None:
    configure_logging(log_format, stream=stream)

    structlog.get_logger().info("ready", port=3000)

    assert "ready" in stream.getvalue()
    assert stream.getvalue().startswith("{") is not readable


def test_the_level_holds_for_ours_and_libraries_stay_quiet_below_warning() -> None:
    stream = io.StringIO()
    configure_logging("json", "info", stream=stream)

    structlog.get_logger().debug("too much")
    logging.getLogger("httpx").info("HTTP Request: GET …")
    logging.getLogger("aiokafka.consumer").info("Updating …")
    structlog.get_logger().info("said")
    logging.getLogger("httpx").warning("said too")

    assert [line["event"] for line in lines(stream)] == ["said", "said too"]


def test_it_can_be_set_again() -> None:
    first, second = io.StringIO(), io.StringIO()
    configure_logging("json", stream=first)
    logger = structlog.get_logger("made before")
    configure_logging("json", "error", stream=second)

    logger.warning("below")
    logger.error("above")

    assert first.getvalue() == ""
    assert [line["event"] for line in lines(second)] == ["above"]


@pytest.mark.parametrize(
    "fields",
    [
        {"api_key": "hunter2hunter2"},
        {"headers": {"Authorization": "Bearer hunter2hunter2", "X-API-Key": "hunter2hunter2"}},
        {"reason": "got 'Authorization: Bearer hunter2hunter2' and no more"},
        {"url": "https://someone:hunter2hunter2@example.org/a"},
        {"url": "https://example.org/?api_key=hunter2hunter2&x=1"},
        {"tried": ["x", ("Basic hunter2hunter2",)]},
        {"value": "SLUICE_API_KEYS=hunter2hunter2:tenant:admin,hunter2too:other:query"},
        {"reason": "the configured one, anywhere: configured-key-1"},
    ],
)
def test_no_secret_is_in_the_log(fields: dict[str, Any]) -> None:
    stream = io.StringIO()
    configure_logging("json", secrets=["configured-key-1"], stream=stream)

    structlog.get_logger().info("asked", **fields)

    assert MASK in stream.getvalue() or "***" in stream.getvalue()
    assert "hunter2" not in stream.getvalue()
    assert "configured-key-1" not in stream.getvalue()


def test_what_only_looks_like_a_secret_stays() -> None:
    stream = io.StringIO()
    configure_logging("json", stream=stream)
    fields = {"tokens": 254, "key": "document-1", "url": "https://example.org/a@b", "monkey": "x"}

    structlog.get_logger().info("chunked", **fields)

    assert fields.items() <= lines(stream)[0].items()


def test_an_exception_is_told_by_type_short_message_and_places_without_what_the_document_says() -> None:
    stream = io.StringIO()
    configure_logging("json", stream=stream)
    text = "The secret recipe. " * 100

    def parse(document: str) -> int:
        return int(document)

    try:
        try:
            parse(text)
        except ValueError as error:
            raise RuntimeError("page 3 can't be read") from error
    except RuntimeError:
        structlog.get_logger().exception("extraction_failed")

    told = lines(stream)[0]["exception"]
    first, *rest = told.splitlines()
    assert first == "RuntimeError: page 3 can't be read"
    [cause] = [line for line in rest if line.startswith("from ")]
    assert cause.startswith("from ValueError: invalid literal")
    assert len(cause) < MESSAGE_LIMIT + 30
    assert "in test_an_exception_is_told_by_type_short_message_and_places" in told
    assert "parse" in told
    assert "int(document)" not in told


def test_an_endless_chain_of_exceptions_ends() -> None:
    stream = io.StringIO()
    configure_logging("json", stream=stream)
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first

    structlog.get_logger().error("failed", exc_info=ExceptionGroup("both", [first, second]))

    assert lines(stream)[0]["exception"].splitlines() == [
        "ExceptionGroup: both (2 sub-exceptions)",
        "from ValueError: a",
        "from ValueError: b",
    ]


def an_error(values: object, level: int = logging.ERROR, message: str = "no answer from %s") -> logging.LogRecord:
    return logging.LogRecord("aiokafka.conn", level, "", 0, message, (values,), None)


def test_an_outage_is_told_once_in_a_while_and_then_how_often_it_was() -> None:
    now = 0.0
    quiet = RateFilter(every_s=10, clock=lambda: now)
    shown = []

    for now in range(25):
        record = an_error(now)
        if quiet.filter(record):
            shown.append(record.getMessage())

    assert shown == [
        "no answer from 0",
        "no answer from 10 (and 9 more like it)",
        "no answer from 20 (and 9 more like it)",
    ]


def test_other_sentences_and_mere_information_pass() -> None:
    quiet = RateFilter(clock=lambda: 0.0)

    assert quiet.filter(an_error(1))
    assert quiet.filter(an_error(1, message="%s closed the connection"))
    assert all(quiet.filter(an_error(1, level=logging.INFO)) for _ in range(3))
    assert not quiet.filter(an_error(2))
