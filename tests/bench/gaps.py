"""How long a body of any shape holds up the event loop of a running server, as the server itself measures it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import httpx

from shared.settings import Settings
from tests.bench.report import Row
from tests.fuzz.target import Target, over_http
from tests.request_shapes import LARGEST_BODIES, ShapedBody, limit_of, shaped

UP_TO_1_MB_S, LARGEST_S = 0.05, 0.15
LARGEST: Final = Settings.model_fields["max_body"].default
_NAMES: Final = {"{document_id}": "8f9f8a3e-0f7e-5a0e-9d7e-1f2e3d4c5b6a", "{id_}": "documents"}
_TRIES = 3


class _Bodies(NamedTuple):
    """What is sent to a route in turn."""

    method: str
    path: str
    bodies: list[ShapedBody]
    bar_s: float


def measure(row: Row, *, quick: bool) -> None:
    """Show the longest gap of each route for bodies in all shapes at its limits of up to 1 MB, then the largest ones.

    Documents that a route brings are processed meanwhile, so such routes come last.
    """
    with tempfile.TemporaryDirectory() as folder, over_http(Path(folder)) as target:
        for each in sorted(_up_to_1_mb(target, 41 if quick else 5), key=lambda each: "/ingest" in each.path):
            _show(row, target, each)
        for kind, made in LARGEST_BODIES.items():
            path, bodies = made(LARGEST)
            _show(row, target, _Bodies("post", path, bodies[:: 20 if quick else 1], LARGEST_S), f" with large {kind}")


def _up_to_1_mb(target: Target, every: int) -> Iterator[_Bodies]:
    for path, methods in target.spec["paths"].items():
        for method, operation in methods.items():
            if "requestBody" in operation:
                sizes = {min(size, limit_of(operation)) for size in (100_000, 1_000_000)}
                bodies = [body for size in sizes for body in shaped(target.spec, operation, size, every=every)]
                yield _Bodies(method, path, bodies, UP_TO_1_MB_S)


def _show(row: Row, target: Target, sent: _Bodies, kind: str = "") -> None:
    seconds, name = _gap(target, sent)
    what = f"longest gap beside {sent.method.upper()} {sent.path}{kind}"
    row(f"{what}, {len(sent.bodies)} bodies", f"{seconds:.3f} s {name}", f"≤ {sent.bar_s:g} s")


def _gap(target: Target, sent: _Bodies) -> tuple[float, str]:
    """Return the longest gap, and beside which body it was if it is above the bar.

    Each body is then sent alone, up to three times: what else the machine did doesn't repeat itself.
    """
    if (seconds := _held(target, sent, sent.bodies)) <= sent.bar_s:
        return seconds, ""
    worst = (0.0, "")
    for body in sent.bodies:
        least = seconds
        for _ in range(_TRIES):
            least = min(least, _held(target, sent, [body]))
            if least <= sent.bar_s:
                break
        worst = max(worst, (least, body.name))
    return worst


def _held(target: Target, sent: _Bodies, bodies: list[ShapedBody]) -> float:
    path = sent.path
    for name, instead in _NAMES.items():
        path = path.replace(name, instead)
    target.held()
    for body in bodies:
        headers = {"Content-Type": body.media_type, "Prefer": "wait=0"}
        url = f"http://127.0.0.1{path}"
        target.send_or_fail(httpx.Request(sent.method.upper(), url, content=body.content, headers=headers))
    return target.held()[0]
