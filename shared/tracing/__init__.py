"""Traces. One for each document, from its door through every record's header to the index, and one a question.

OpenTelemetry's standard variables say where they go; by default there are none, and a step costs a look at a variable.
Of what comes from outside only `traceparent` is read, so nobody's baggage travels on.
"""

import os
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Final

import structlog

from shared.version import how_to_add

if TYPE_CHECKING:
    from shared.tracing.otel import Otel

HEADER: Final = "traceparent"  # of a request, and of a record
_ASKING: Final = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_NOTHING: Final = nullcontext()

log = structlog.get_logger(__name__)


tracer: "Otel | None" = None


def start_tracing(service: str) -> None:
    """Export traces as OpenTelemetry's variables ask; log a warning if they ask for what isn't installed."""
    global tracer  # noqa: PLW0603 - a process has one, and starts it once
    if not any(map(os.environ.get, _ASKING)) or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return
    try:
        from shared.tracing.otel import exported  # an extra, and slow to import

        tracer = exported(service)
    except ImportError as error:
        log.warning("traces_not_exported", reason=f"{error}; add the extra otel with: {how_to_add('otel')}")


def step(
    name: str, parent: str | None = None, *, apart: bool = False, current: bool = True
) -> AbstractContextManager[None]:
    """Return the context of one step, a child of `parent`, a traceparent or "" for none, or else of the current step.

    With `apart` it begins a trace of its own, which is linked to the parent. A generator's step mustn't be `current`,
    because its reader would be in that step, too. `name` and an exception's type or code are told, its message isn't.
    """
    return _NOTHING if tracer is None else tracer.step(name, parent, apart=apart, current=current)


def note(name: str, value: str | int) -> None:
    """Set an attribute of the current step: an id, a number or a code, never a name, a query or a text."""
    if tracer is not None:
        tracer.note(name, value)


def about(tenant: str, document_id: str) -> None:
    """Set the document that the current step and its log lines are about; the tenant's name is for these only."""
    structlog.contextvars.bind_contextvars(tenant=tenant, document_id=document_id)
    note("sluice.document_id", document_id)


def headers() -> dict[str, str]:
    """Return the current step as a record's header; empty without one."""
    return {} if tracer is None else tracer.headers()
