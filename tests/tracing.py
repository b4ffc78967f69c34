"""Traces that stay in memory."""

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from shared import tracing
from shared.tracing.otel import Otel


@contextmanager
def traced() -> Iterator[InMemorySpanExporter]:
    """Give the spans that end in the block."""
    spans = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(spans))
    tracing.tracer = Otel(provider)
    try:
        yield spans
    finally:
        tracing.tracer = None
