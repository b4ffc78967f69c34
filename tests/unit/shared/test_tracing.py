import ast
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.selection import CI_ONLY
from tests.unit.deploy.files import ROOT

ONE_STEP = "from shared import tracing as t; t.start_tracing('test')\nwith t.step('a step'): print(t.headers())"


def run(code: str, **variables: str) -> subprocess.CompletedProcess[str]:
    given = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")} | variables
    return subprocess.run([sys.executable, "-c", code], env=given, cwd=ROOT, capture_output=True, text=True, check=True)


def test_by_default_nothing_is_traced_nor_even_imported() -> None:
    told = run(f"{ONE_STEP}\nimport sys\nprint([name for name in sys.modules if 'opentelemetry' in name])")

    assert told.stdout == "{}\n[]\n"
    assert run(ONE_STEP, OTEL_TRACES_EXPORTER="console", OTEL_SDK_DISABLED="true").stdout == "{}\n"


@CI_ONLY
def test_a_step_goes_where_the_standard_variables_say() -> None:
    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            server.got = self.path, self.rfile.read(int(self.headers["Content-Length"]))  # type: ignore[attr-defined]
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Collector) as server, ThreadPoolExecutor() as beside:
        server.timeout = 60
        asked = beside.submit(server.handle_request)
        address = f"http://127.0.0.1:{server.server_port}"
        told = run(ONE_STEP, OTEL_EXPORTER_OTLP_ENDPOINT=address, OTEL_EXPORTER_OTLP_COMPRESSION="none")
        asked.result()
        path, body = server.got  # type: ignore[attr-defined]

    [of_process] = ExportTraceServiceRequest.FromString(body).resource_spans
    [span] = of_process.scope_spans[0].spans
    assert path == "/v1/traces"
    assert (span.name, span.trace_id.hex()) == ("a step", ast.literal_eval(told.stdout)["traceparent"][3:35])
    assert "sluice-test" in {each.value.string_value for each in of_process.resource.attributes}


@CI_ONLY
@pytest.mark.parametrize("variable", ["OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT"])
def test_what_is_not_installed_is_a_warning(variable: str) -> None:
    given = {variable: "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    told = run("from shared import tracing as t; t.start_tracing('test'); print(t.tracer)", **given)

    assert "the extra otel" in told.stdout
    assert told.stdout.endswith("None\n")
