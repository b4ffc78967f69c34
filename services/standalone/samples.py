"""Loads the sample library once per data folder, through the same door as everybody."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import httpx
import structlog

from shared.settings import Settings

log = structlog.get_logger(__name__)

SAMPLES = Path(__file__).resolve().parents[2] / "deploy" / "samples"
DONE_FILE = "samples.loaded"
NOT_LOADED = frozenset({"README.md"})
WAIT_S = 120
TRIES = 5


async def load_samples(settings: Settings, url: str, *, progress: Callable[[int, int, str], None]) -> int:
    """Return how many samples are in; 0 when they were loaded before, or are switched off.

    A crash in between loads them again, which changes nothing.
    """
    done = settings.data / DONE_FILE
    if settings.samples == "off" or done.exists() or not SAMPLES.is_dir():
        return 0
    files = sorted(path for path in SAMPLES.rglob("*") if path.is_file() and path.name not in NOT_LOADED)
    key = next((key.key for key in settings.keys if key.roles & {"ingest", "admin"}), None)
    if key is None and settings.needs_key:
        log.warning("samples_not_loaded", reason="no key in SLUICE_API_KEYS has the role ingest")
        return 0
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    headers["Prefer"] = f"wait={WAIT_S}"
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=WAIT_S + 30) as client:
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
            "/rag/ingest/upload", data={"source": "samples", "path": name}, files={"file": (path.name, data)}
        )
        if reply.status_code != 503 or attempt == TRIES:
            break
        await asyncio.sleep(attempt)
    if reply.status_code not in (200, 202):
        log.warning("sample_not_loaded", path=name, status=reply.status_code, reason=reply.text[:200])
