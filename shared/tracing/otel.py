"""Adapter: OpenTelemetry, the extra `otel`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points

import structlog
from opentelemetry import context, trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from shared.tracing import HEADER

_FORMAT = TraceContextTextMapPropagator()


class Otel:
    """Makes spans with OpenTelemetry's SDK."""

    def __init__(self, provider: TracerProvider) -> None:
        self._tracer = provider.get_tracer("sluice")

    @contextmanager
    def step(self, name: str, parent: str | None, *, apart: bool, current: bool) -> Iterator[None]:
        """Run the block in a span; the arguments are those of `shared.tracing.step`."""
        within = context.get_current() if parent is None else _FORMAT.extract({HEADER: parent}, context.Context())
        around = trace.get_current_span(within).get_span_context()
        links = [trace.Link(around)] if apart and around.is_valid else None
        span = self._tracer.start_span(name, context.Context() if apart else within, links=links)
        try:
            if not current:
                yield
                return
            # The SDK would record the message of an exception, which may quote a document.
            bare = trace.use_span(span, record_exception=False, set_status_on_exception=False)
            id_ = trace.format_trace_id(span.get_span_context().trace_id)
            with bare, structlog.contextvars.bound_contextvars(trace=id_):
                yield
        except Exception as error:
            span.set_status(trace.StatusCode.ERROR)
            span.set_attribute("error.type", str(getattr(error, "code", type(error).__name__)))
            raise
        finally:
            span.end()

    def note(self, name: str, value: str | int) -> None:
        """Set an attribute of the current span."""
        trace.get_current_span().set_attribute(name, value)

    def headers(self) -> dict[str, str]:
        """Return the current span as `HEADER`; empty without one."""
        found: dict[str, str] = {}
        _FORMAT.inject(found)
        return {HEADER: found[HEADER]} if HEADER in found else {}


def exported(service: str) -> Otel:
    """Return a tracer whose spans go where the variables say. Raises ImportError if an exporter isn't installed.

    Of the variables, the SDK itself reads those of sampling, batches, addresses and names.
    """
    resource = Resource.create()
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: f"sluice-{service}"}))
    provider = TracerProvider(resource=resource)
    for name in (os.environ.get("OTEL_TRACES_EXPORTER") or "otlp").split(","):
        if (kind := name.strip()) == "none":
            continue
        if kind == "otlp":
            asked = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
            protocol = next(filter(None, map(os.environ.get, asked)), "http/protobuf")
            kind = f"otlp_proto_{protocol.partition('/')[0]}"
        found = [*entry_points(group="opentelemetry_traces_exporter", name=kind)]
        if not found:
            raise ImportError(f"there is no exporter {kind} of traces")
        provider.add_span_processor(BatchSpanProcessor(found[0].load()()))
    return Otel(provider)
