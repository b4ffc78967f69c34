"""One trace a document from its door to the index, and one a question."""

from collections.abc import Sequence
from itertools import groupby, pairwise
from uuid import uuid4

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from services.query_api.app import ApiParts
from shared.log.headers import header
from shared.topics import SUBMITTED
from tests.contract.logs import until
from tests.integration.api import ingested
from tests.integration.pipeline import records_of
from tests.tracing import traced

pytestmark = pytest.mark.asyncio(loop_scope="session")

STEPS = ["submit", "ingest", "chunk", "embed"]
SECRETS = ("lantern", "somebody", "key-of", ".md")


@pytest.fixture
def outside() -> dict[str, str]:
    """What n8n or a stranger sends along."""
    return {
        "traceparent": f"00-{uuid4().hex}-b7ad6b7169203331-01",
        "baggage": "who=somebody",
        "tracestate": "a=somebody",
    }


def trace_of(span: ReadableSpan) -> str:
    return f"{span.context.trace_id:032x}"


def document_of(span: ReadableSpan) -> object:
    return (span.attributes or {}).get("sluice.document_id")


async def of_traces(spans: InMemorySpanExporter, count: int, *traces: str) -> Sequence[ReadableSpan]:
    """Return the spans of these traces in the order in which they began, as soon as they are so many."""

    def found() -> list[ReadableSpan]:
        own = [span for span in spans.get_finished_spans() if trace_of(span) in traces]
        return sorted(own, key=lambda each: each.start_time or 0)

    await until(lambda: len(found()) >= count)
    assert not [secret for secret in SECRETS for span in found() if secret in span.to_json()]
    return found()


async def test_a_document_is_one_trace_from_its_caller_to_the_index(
    client: httpx.AsyncClient, parts: ApiParts, outside: dict[str, str]
) -> None:
    trace = outside["traceparent"].split("-")[1]
    with traced() as spans:
        body = {"source": "s", "path": "lantern.md", "text": "A lantern."}
        reply = await client.post("/rag/ingest", json=body, headers=outside)
        steps = await of_traces(spans, 5, trace)

    assert [each.name for each in steps] == ["POST /rag/ingest", *STEPS]
    assert steps[0].parent is not None
    assert f"{steps[0].parent.span_id:016x}" in outside["traceparent"]
    for before, after in pairwise(steps):
        assert after.parent is not None
        assert after.parent.span_id == before.context.span_id
    assert {document_of(each) for each in steps[1:]} == {reply.json()["documentId"]}
    [record] = [each for each in await records_of(parts.log, SUBMITTED) if trace in (header(each, "traceparent") or "")]
    assert "somebody" not in str(record.headers)


async def test_six_documents_of_one_batch_are_six_traces(client: httpx.AsyncClient, outside: dict[str, str]) -> None:
    items = [{"source": "s", "path": f"{n}.md", "text": f"Lantern {n} on the pier."} for n in range(6)]
    with traced() as spans:
        reply = await client.post("/rag/ingest/batch", json=items, headers=outside)
        [door] = await of_traces(spans, 1, outside["traceparent"].split("-")[1])
        submits = [span for span in spans.get_finished_spans() if span.name == "submit"]
        steps = await of_traces(spans, 24, *map(trace_of, submits))

    documents = [[*own] for _, own in groupby(sorted(steps, key=trace_of), trace_of)]
    assert [[each.name for each in own] for own in documents] == [STEPS] * 6
    found = [{document_of(each) for each in own} for own in documents]
    assert all(len(own) == 1 for own in found)
    assert set().union(*found) == {each["documentId"] for each in reply.json()["items"]}
    assert {link.context.span_id for own in documents for link in own[0].links} == {door.context.span_id}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_question_is_one_trace_through_search_and_model(
    client: httpx.AsyncClient, outside: dict[str, str], stream: bool
) -> None:
    await ingested(client)
    with traced() as spans:
        asked = {"message": "When is the lantern lit?", "useRag": True, "stream": stream}
        reply = await client.post("/chat", json=asked, headers=outside)
        steps = await of_traces(spans, 4, outside["traceparent"].split("-")[1])

    assert reply.status_code == 200
    assert [each.name for each in steps][:3] == ["POST /chat", "search", "embed"]
    assert steps[-1].name == "answer"
    assert (steps[0].attributes or {})["http.response.status_code"] == 200
