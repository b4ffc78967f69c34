"""How long a body of any shape holds up the event loop of a running server, as the server itself measures it."""

import math
import tempfile
from pathlib import Path
from typing import Final

import httpx

from shared.settings import Settings
from tests.bench.report import Row
from tests.fuzz.target import Target, over_http
from tests.request_shapes import LARGEST_BODIES, ShapedBody, shaped

_SHORT_S: Final = 0.05
_NAMES: Final = {"{document_id}": "8f9f8a3e-0f7e-5a0e-9d7e-1f2e3d4c5b6a", "{id_}": "documents"}


def measure(row: Row, *, quick: bool) -> None:
    """Send each route bodies in all shapes of up to 1 MB, then the largest ones, and show the longest gaps."""
    every = 40 if quick else 3
    with tempfile.TemporaryDirectory() as folder, over_http(Path(folder)) as target:
        gaps: list[tuple[float, str]] = []
        for path, methods in target.spec["paths"].items():
            for method, operation in methods.items():
                if "requestBody" in operation:
                    for size in (100_000, 1_000_000):
                        bodies = shaped(target.spec, operation, size, every=every)
                        gaps += [_gap(target, method, path, body) for body in bodies]
        row(f"longest gap of the loop, {len(gaps)} bodies of up to 1 MB", _worst(gaps), "< 0.05 s")
        most = Settings.model_fields["max_body"].default
        largest = [(path, body) for made in LARGEST_BODIES.values() for path, bodies in [made(most)] for body in bodies]
        gaps = [_gap(target, "post", path, body) for path, body in largest[:: 20 if quick else 1]]
        row(f"longest gap of the loop, {len(gaps)} bodies of {most // 1_000_000} MB", _worst(gaps), "< 0.15 s")


def _gap(target: Target, method: str, path: str, body: ShapedBody) -> tuple[float, str]:
    """Return the longest gap; if it is long, the least of three: what else the machine did doesn't repeat itself."""
    for name, instead in _NAMES.items():
        path = path.replace(name, instead)
    headers = {"Content-Type": body.media_type, "Prefer": "wait=0"}
    least = math.inf
    for _ in range(3):
        target.held()
        url = f"http://127.0.0.1{path}"
        target.send_or_fail(httpx.Request(method.upper(), url, content=body.content, headers=headers))
        least = min(least, target.held()[0])
        if least < _SHORT_S:
            break
    return least, f"{method} {path} {body.name}"


def _worst(gaps: list[tuple[float, str]]) -> str:
    return "; ".join(f"{seconds:.3f} s {what}" for seconds, what in sorted(gaps, reverse=True)[:3])
