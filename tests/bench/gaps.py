"""How long a body of any shape holds up the event loop of a running server, as the server itself measures it."""

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import msgspec

from shared.settings import Settings
from tests.bench.report import Row
from tests.e2e.cluster import cluster
from tests.e2e.harness import served
from tests.request_shapes import DOCUMENTS, LARGEST_BODIES, ShapedBody, limit_of, shaped

UP_TO_1_MB_S, LARGEST_S = 0.05, 0.15
LARGEST: Final = Settings.model_fields["max_body"].default
_NAMES: Final = {"{document_id}": "8f9f8a3e-0f7e-5a0e-9d7e-1f2e3d4c5b6a", "{id_}": "documents"}
_GAP = "sluice_event_loop_longest_gap_seconds"
_TRIES = 3
_AGAIN = 3  # bodies of a route that are sent so often


class _Bodies(NamedTuple):
    """What is sent to a route in turn."""

    method: str
    path: str
    bodies: list[ShapedBody]
    bar_s: float
    kind: str = ""
    wait: int = 0  # seconds for the documents' end


def measure(row: Row, *, quick: bool) -> None:
    """Show the longest gap of each route for bodies in all shapes: at its limits of up to 1 MB, then the largest ones.

    An API without workers takes these, because otherwise those of 200 documents would be all that is measured. Then
    a whole server takes what costs most on its way to the index.
    """
    with tempfile.TemporaryDirectory() as folder:
        loopback = {"METRICS_ALLOW": "127.0.0.0/8"}
        with cluster(Path(folder) / "api", **loopback) as api, api.client(timeout=180) as client:
            for role in ("ingest-worker", "embed-worker"):  # they have made the index
                api.processes[f"{role}-1"].kill()
            for sent in _up_to_1_mb(client.get("/openapi.json").json(), 41 if quick else 7):
                _show(row, client, sent)
            every = 20 if quick else 2
            for number, (kind, made) in enumerate(LARGEST_BODIES.items()):
                path, bodies = made(LARGEST)
                _show(row, client, _Bodies("post", path, bodies[number % every :: every], LARGEST_S, f" {kind}"))
        with served(Path(folder) / "all") as server, server.client(timeout=180) as client:
            for kind, document in DOCUMENTS.items():
                body = ShapedBody(kind, msgspec.json.encode({"source": "s", "path": kind, **document}))
                _show(
                    row, client, _Bodies("post", "/rag/ingest", [body], UP_TO_1_MB_S, f" {kind} to its end", wait=150)
                )


def _up_to_1_mb(spec: dict[str, Any], every: int) -> Iterator[_Bodies]:
    for path, methods in spec["paths"].items():
        for method, operation in methods.items():
            if "requestBody" in operation:
                # A batch is read item by item: a megabyte of mistakes takes as long at a time, ten times as often.
                largest = 100_000 if path == "/rag/ingest/batch" else min(1_000_000, limit_of(operation))
                sizes = {min(100_000, largest), largest}
                bodies = [body for size in sizes for body in shaped(spec, operation, size, every=every)]
                yield _Bodies(method, path, bodies, UP_TO_1_MB_S)


def _show(row: Row, client: httpx.Client, sent: _Bodies) -> None:
    """Show the longest gap, and beside which body it was if it is above the bar.

    Then each body has been sent alone, and the worst ones again: what else the machine did doesn't repeat itself.
    """
    seconds, name = _held(client, sent, sent.bodies), ""
    if seconds > sent.bar_s:
        alone = sorted(((_held(client, sent, [body]), body) for body in sent.bodies), key=lambda each: -each[0])
        seconds, name = 0.0, ""
        for least, body in alone[:_AGAIN]:
            again = min([least, *(_held(client, sent, [body]) for _ in range(_TRIES - 1))])
            seconds, name = max((seconds, name), (again, body.name))
    what = f"{sent.method.upper()} {sent.path}{sent.kind}, {len(sent.bodies)} bodies"
    row(f"longest gap of the loop: {what}", f"{seconds:.3f} s {name}", f"≤ {sent.bar_s:g} s")


def _held(client: httpx.Client, sent: _Bodies, bodies: list[ShapedBody]) -> float:
    path = sent.path
    for name, instead in _NAMES.items():
        path = path.replace(name, instead)
    _longest(client)
    for body in bodies:
        headers = {"Content-Type": body.media_type, "Prefer": f"wait={sent.wait}"}
        with suppress(httpx.HTTPError):  # a body that is refused may not have been read
            client.request(sent.method, path, content=body.content, headers=headers)
    return _longest(client)


def _longest(client: httpx.Client) -> float:
    """Return the seconds of the longest gap since this was last asked."""
    lines = client.get("/metrics").text.splitlines()
    return max(float(line.split()[1]) for line in lines if line.startswith(_GAP))
