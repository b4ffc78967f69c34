"""Answers that are meant to hurt cost the worker neither its memory nor its time."""

import asyncio
import json
import os
import sys

import pytest

from services.ingest_worker.fetch import FetchLimits
from tests.selection import CI_ONLY
from tests.servers.loopback import running
from tests.servers.website import Website, a_page
from tests.unit.services.ingest_worker.fetch import bombs

MOST_MB = 100
PATIENCE_S = float(os.environ.get("FETCH_PATIENCE", "3"))  # the product's own takes as long as it says
WITHOUT_AN_END = {"fetch_failed", "too_large"}


@CI_ONLY
@pytest.mark.timeout(300)
async def test_bombs_on_the_wire_are_refused_within_memory_and_time() -> None:
    armed = bombs.bombs()
    assert len(armed) >= 20
    async with running(Website(armed | {"/harmless": a_page("Harmless")})) as website:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", bombs.__name__, website.url, str(PATIENCE_S), *armed),
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            out, _ = await asyncio.wait_for(child.communicate(), 240)
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()

    seen = json.loads(out.splitlines()[-1])  # the log comes before
    print(json.dumps(seen, indent=1))
    codes = {name: code for name, (code, _) in seen["ends"].items()}
    assert seen["most"] - seen["idle"] <= MOST_MB
    assert {name for name, code in codes.items() if code == "taken"} == set()
    packed = ("/gzip", "/gzip-in-gzip", "/deflate", "/brotli", "/zstd", "/moved")
    assert {codes[name] for name in packed} == {"too_large"}
    assert codes["/error"] == "http_404"
    assert {codes[name] for name in codes if "endless" in name} <= WITHOUT_AN_END
    # Far above what any of them may take; the bar itself is printed.
    assert max(seconds for _, seconds in seen["ends"].values()) < 5 * 12 + FetchLimits().patience_s
