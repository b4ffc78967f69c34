"""A real Chromium, driven by playwright, and documents that try to break a page."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, sync_playwright

PHONE, TABLET, DESK, WIDE = (390, 844), (768, 1024), (1280, 800), (1440, 900)
Scheme = Literal["light", "dark"]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

# What each of them would do, did it run, is seen in `window.ran`.
HOSTILE = (
    "<script>window.ran = 1</script>",
    "<img src=x onerror=window.ran=1>",
    '"><svg onload=window.ran=1>',
    "javascript:window.ran=1",
    "[click](javascript:window.ran=1) ![x](https://elsewhere.example/pixel.png)",
    "{{ 7 * 7 }} ${window.ran=1} <style>*{display:none}</style>",
    "</title></head><body onload=window.ran=1>",
    "W" * 400,
    "\u202eright to left \u202d and back \u2066isolated",
    "\u0645\u0631\u062d\u0628\u0627 " * 12,
    "e" + "\u0301" * 200 + " zalgo",
    "| a | b |\n| --- | --- |\n| " + "x" * 300 + " | <b>bold</b> |",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 family " * 6,
)


def chromium() -> str | None:
    """Return where Chromium is: SLUICE_TEST_CHROMIUM, else what is on the path."""
    named = os.environ.get("SLUICE_TEST_CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


def needed_chromium() -> str:
    """Return where Chromium is, or skip the tests that need it."""
    found = chromium()
    if found is None:
        pytest.skip("no Chromium on the path: the console is not tried in a browser (apt install chromium)")
    return found


@contextmanager
def launched(executable: str) -> Iterator[Browser]:
    """Give a browser, and close it whatever happens."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


def opened(browser: Browser, size: tuple[int, int] = DESK, scheme: Scheme = "light", **options: Any) -> BrowserContext:
    """Return a new context of that size and scheme."""
    viewport: Any = {"width": size[0], "height": size[1]}
    return browser.new_context(viewport=viewport, color_scheme=scheme, locale="en-GB", **options)


def hostile_documents(count: int) -> list[dict[str, Any]]:
    """Return so many documents whose every field tries something."""
    documents = []
    for number in range(count):
        text, title, path, tag, source = (HOSTILE[(number * step + step) % len(HOSTILE)] for step in (1, 2, 3, 5, 7))
        documents.append(
            {
                "source": source[:60] if number % 4 == 0 else "attack",
                "path": f"{path[:300]}-{number}",
                "title": f"{title[:300]} {number}",
                "description": text[:200],
                "tags": [tag.replace(",", " ")[:150]],
                "metadata": {"note": title[:200], "<b>name</b>": 1},
                "text": f"# {title[:200]}\n\nThe harbour says: {text}\n\n- {text}\n\n`{text}`\n\n> {title}",
            }
        )
    return documents


def ingested(client: httpx.Client, documents: list[dict[str, Any]]) -> list[str]:
    """Return the ids of the documents, once all of them can be searched."""
    reply = client.post("/rag/ingest/batch", json=documents, headers={"Prefer": "wait=120"}, timeout=180)
    assert reply.status_code in (200, 202), reply.text[:500]
    failed = [item for item in reply.json()["items"] if item["status"] == "failed"]
    assert not failed, failed[:3]
    return [item["documentId"] for item in reply.json()["items"]]


# Boxes that stand out of the page to the right or the left, but for those that lie in a box that scrolls or cuts.
BEYOND = """() => {
  const wide = document.documentElement.clientWidth;
  const held = (element) => {
    for (let each = element.parentElement; each && each !== document.body; each = each.parentElement)
      if (getComputedStyle(each).overflowX !== 'visible') return true;
    return false;
  };
  const out = [];
  for (const element of document.body.querySelectorAll('*')) {
    const box = element.getBoundingClientRect();
    if (!box.width || !box.height || element.closest('.skip, .hidden') || held(element)) continue;
    if (box.right > wide + 1 || box.left < -1) {
      out.push(`${element.tagName}.${element.className}: ${box.left} to ${box.right}`);
    }
  }
  return {out, scrolls: document.documentElement.scrollWidth - wide, ran: window.ran ?? null};
}"""


class Watched:
    """A page, with what it asked for and what went wrong."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.asked: list[str] = []
        self.wrong: list[str] = []
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("dialog", self._asked_by_dialog)
        page.on("console", self._said)

    def _asked_by_dialog(self, dialog: Dialog) -> None:
        self.wrong.append(f"dialog {dialog.message}")
        dialog.dismiss()

    def _said(self, message: Any) -> None:
        # A 4xx is logged by the browser itself; a refused policy is what must not happen.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.wrong.append(message.text)
