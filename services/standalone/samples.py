"""Loads the sample library once per data folder, through the public API."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx
import structlog

from shared.settings import Settings

log = structlog.get_logger(__name__)

SAMPLES = Path(__file__).resolve().parents[2] / "deploy" / "samples"
DONE_FILE = "samples.loaded"
SOURCE = "samples"
NOT_LOADED = frozenset({"README.md"})
WAIT_S = 120
TRIES = 5


async def load_samples(settings: Settings, url: str, *, progress: Callable[[int, int, str], None]) -> int:
    """Return how many samples were loaded; 0 if they were loaded before, are switched off, or aren't wanted.

    They aren't wanted if there are API keys or other documents. After a crash they are loaded again, which changes
    nothing.
    """
    done = settings.data / DONE_FILE
    if settings.samples == "off" or done.exists() or settings.needs_key or not SAMPLES.is_dir():
        return 0
    files = sorted(path for path in SAMPLES.rglob("*") if path.is_file() and path.name not in NOT_LOADED)
    headers = {"Prefer": f"wait={WAIT_S}"}
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=WAIT_S + 30) as client:
        stats = await client.get("/rag/stats")
        if stats.is_success and any(each["source"] != SOURCE for each in stats.json()["sources"]):
            return 0
        for number, path in enumerate(files, start=1):
            await _upload(client, path)
            progress(number, len(files), path.name)
    done.touch()
    return len(files)


async def _upload(client: httpx.AsyncClient, path: Path) -> None:
    data = await asyncio.to_thread(path.read_bytes)
    name = path.relative_to(SAMPLES).as_posix()
    for attempt in range(1, TRIES + 1):
        reply = await client.post(
            "/rag/ingest/upload", data={"source": SOURCE, "path": name}, files={"file": (path.name, data)}
        )
        if reply.status_code != 503 or attempt == TRIES:
            break
        await asyncio.sleep(attempt)
    if reply.status_code not in (200, 202):
        log.warning("sample_not_loaded", path=name, status=reply.status_code, reason=reply.text[:200])
