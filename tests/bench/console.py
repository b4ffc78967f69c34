"""`make bench ONLY=console`: how soon each page of the console is painted, in a real Chromium."""

import os
import statistics
import tempfile
from pathlib import Path

from tests.bench.report import Row
from tests.e2e.browser import Watched, chromium, ingested, launched, opened
from tests.e2e.harness import served

DOCUMENTS = 5000
LOADS = 10
_PAINT = """() => new Promise(done => new PerformanceObserver((list, observer) => {
  const entry = list.getEntriesByName('first-contentful-paint')[0];
  if (entry) { observer.disconnect(); done(entry.startTime); }
}).observe({type: 'paint', buffered: true}))"""


def measure(row: Row, *, quick: bool) -> None:
    """Print for each page the median of its paint entries once it is warm, and the requests that left the machine."""
    executable = chromium()
    if executable is None:
        row("console: first paint", "no Chromium on the path", "-")
        return
    texts = [
        {"source": "manual", "path": f"{number}.md", "title": f"Lantern {number}", "text": f"Lantern {number} burns."}
        for number in range(10 if quick else DOCUMENTS)
    ]
    with tempfile.TemporaryDirectory() as folder, served(Path(folder, "data"), CHAT="extractive:") as server:
        with server.client() as client:
            for at in range(0, len(texts), 500):
                first = ingested(client, texts[at : at + 500])[0]
        one, lists = f"/documents/{first}", ["/documents", "/overview", "/generations", "/dead-letters"]
        with launched(executable) as browser:
            context = opened(browser, base_url=server.url)
            watched = Watched(context.new_page())
            for path in ["/", "/search?q=lantern", one, *lists]:
                seen = []
                for _ in range(1 + (2 if quick else LOADS)):
                    watched.page.goto(path)
                    seen.append(watched.page.evaluate(_PAINT))
                name = "/documents/{id}" if path == one else path
                load = os.getloadavg()[0]
                figures = f"{statistics.median(seen[1:]):.0f} ms (first {seen[0]:.0f}, load {load:.1f})"
                row(f"console {name}: first contentful paint, median of {len(seen) - 1}", figures, "<= 150 ms, idle")
            left = [url for url in watched.asked if not url.startswith(server.url)]
            row("console: requests that left the machine", str(len(left)), "0")
            context.close()
