import io
import json
import logging
from collections.abc import Generator, Iterator

import pytest
import structlog
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from shared import tracing
from shared.errors import Rejected
from shared.runtime.logging_setup import configure_logging
from tests.tracing import traced

FROM_OUTSIDE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    with traced() as spans:
        yield spans


@pytest.mark.parametrize(
    ("error", "told"), [(Rejected("a secret", "empty"), "empty"), (ValueError("a secret"), "ValueError")]
)
def test_an_error_is_told_by_its_code_or_type_and_not_by_what_it_quotes(
    spans: InMemorySpanExporter, error: Exception, told: str
) -> None:
    with pytest.raises(type(error)), tracing.step("read", ""):
        raise error

    [span] = spans.get_finished_spans()
    assert not span.status.is_ok
    assert dict(span.attributes or {}) == {"error.type": told}
    assert "secret" not in span.to_json()


def test_a_step_goes_on_from_a_traceparent_and_one_apart_is_only_linked_to_it(spans: InMemorySpanExporter) -> None:
    with tracing.step("door", FROM_OUTSIDE):
        sent = tracing.headers()
        with tracing.step("one of many", apart=True):
            pass
    with tracing.step("wrong", "00-zz"):
        pass

    apart, door, wrong = spans.get_finished_spans()
    assert (door.parent and f"{door.parent.span_id:016x}", f"{door.context.trace_id:032x}") == tuple(
        reversed(FROM_OUTSIDE.split("-")[1:3])
    )
    assert sent == {"traceparent": f"00-{door.context.trace_id:032x}-{door.context.span_id:016x}-01"}
    assert (apart.parent, [link.context.span_id for link in apart.links]) == (None, [door.context.span_id])
    assert wrong.parent is None
    assert len({each.context.trace_id for each in (apart, door, wrong)}) == 3
    assert tracing.headers() == {}


def test_the_reader_of_a_generator_is_not_in_its_step(spans: InMemorySpanExporter) -> None:
    def pieces() -> Generator[dict[str, str], None, None]:
        with tracing.step("answer", current=False):
            yield tracing.headers()
            yield tracing.headers()

    with tracing.step("door", ""):
        door = tracing.headers()
        reading = pieces()
        assert next(reading) == tracing.headers() == door
        reading.close()

    answer, around = spans.get_finished_spans()
    assert answer.parent is not None
    assert answer.parent.span_id == around.context.span_id
    assert answer.status.is_unset


def test_log_lines_in_a_step_have_its_trace_and_its_document(spans: InMemorySpanExporter) -> None:
    lines = io.StringIO()
    root, before = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers[:], root.level
    configure_logging("json", service="ingest-worker", stream=lines)
    try:
        with structlog.contextvars.bound_contextvars(), tracing.step("ingest", FROM_OUTSIDE):
            tracing.about("t", "d1")
            logging.getLogger("x").warning("read")
    finally:
        structlog.contextvars.clear_contextvars()
        root.handlers[:], root.level = handlers, level
        logging.captureWarnings(capture=False)
        structlog.configure(**before)

    line = json.loads(lines.getvalue())
    assert line["trace"] == FROM_OUTSIDE.split("-")[1]
    assert (line["service"], line["tenant"], line["document_id"]) == ("ingest-worker", "t", "d1")
    assert line["instance"]
    assert "tenant" not in str(spans.get_finished_spans()[0].attributes)
