"""The pictures of the console in docs/images. `make screenshots`; ALL=yes writes all pages into build/screenshots."""

import io
import os
import sys
import tempfile
from pathlib import Path

import httpx
from PIL import Image
from playwright.sync_api import Page, expect

from tests.e2e.browser import DESK, PHONE, Scheme, chromium, launched, opened
from tests.e2e.harness import Server, served

ROOT = Path(__file__).resolve().parents[1]
SIZES: tuple[tuple[str, tuple[int, int], Scheme], ...] = (
    ("desk", DESK, "light"),
    ("desk", DESK, "dark"),
    ("phone", PHONE, "light"),
    ("phone", PHONE, "dark"),
)
SHOWN = ("ask", "search", "documents", "document")  # by README.md and docs/console.md, on a light desk
SAMPLES = 12
QUESTION = "How long does one winding of the clockwork last?"


def main() -> None:
    """Write the pictures anew."""
    executable = chromium()
    if executable is None:
        sys.exit("no Chromium on the path: apt install chromium, or set SLUICE_TEST_CHROMIUM")
    everything = bool(os.environ.get("ALL"))
    pictures = ROOT / ("build/screenshots" if everything else "docs/images")
    pictures.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        served(Path(folder) / "data", SAMPLES="on", CHAT="extractive:") as server,
        launched(executable) as browser,
    ):
        passage = _loaded(server)
        for name, size, scheme in SIZES if everything else SIZES[:1]:
            context = opened(browser, size, scheme, base_url=server.url)
            page = context.new_page()
            for view in (*SHOWN, "overview", "generations", "dead-letters") if everything else SHOWN:
                _open(page, view, passage)
                _write(page, pictures / f"{view}-{name}-{scheme}.png")
            context.close()


def _loaded(server: Server) -> str:
    """Return the address of a passage, once the samples are there, and something that can't be read."""
    with server.client() as client:
        while client.get("/rag/stats").json()["documents"]["created"] < SAMPLES:
            client.get("/rag/documents")
        client.post("/rag/ingest/upload", files={"file": ("timetable-1911.pdf", b"%PDF-1.7 torn")})
        return _passage(client)


def _passage(client: httpx.Client) -> str:
    found = client.post("/rag/search", json={"query": QUESTION, "topK": 1}).json()["results"][0]["metadata"]
    return f"/documents/{found['documentId']}?chunk={found['chunkId']}"


def _open(page: Page, view: str, passage: str) -> None:
    if view == "ask":
        page.goto("/")
        page.get_by_label("Your question").fill(QUESTION)
        page.keyboard.press("Enter")
        expect(page.locator(".sources .passage").first).to_be_visible()
        page.mouse.move(0, 0)
    elif view == "search":
        page.goto("/search?q=tickets+for+the+boat")
        page.locator(".why summary").first.click()
    else:
        page.goto(passage if view == "document" else f"/{view}")
    shown = {"documents": ".document", "document": ".chunk.hit", "overview": ".tile", "dead-letters": ".letter"}
    if view in shown:
        expect(page.locator(shown[view]).first).to_be_visible()
    expect(page.locator("[aria-busy=true]")).to_have_count(0)


def _write(page: Page, file: Path) -> None:
    """Write what the page shows in 256 colours: a fifth of the size, and nobody sees it."""
    picture = Image.open(io.BytesIO(page.screenshot(animations="disabled")))
    picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(file, optimize=True)
    print(f"{file.relative_to(ROOT)}  {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
