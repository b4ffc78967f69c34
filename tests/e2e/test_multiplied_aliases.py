"""A kilobyte of front matter whose aliases stand for gigabytes, by every door: each ends, and nobody waits for it."""

import asyncio
import email.message
import io
import itertools
import json
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from shared.contracts import DocumentSubmitted, encode
from shared.log.open import open_log
from shared.log.publish import publish
from shared.topics import SUBMITTED
from tests.e2e.harness import Server, everything_ended, served

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

LEVELS: Final = (20, 25, 30, 40, 60)  # each doubles what the one before stands for; 60 levels have 1 kB
HANG_S: Final = 300.0  # a hang guard
LANTERN: Final = {"source": "good", "path": "lantern.md", "text": "The lantern on the pier is lit at six."}
# Asks from a process of its own, until it is ended; prints the longest wait so far, in seconds, after each reply.
PROBE: Final = """
import sys, time, urllib.request
most = 0.0
while True:
    began = time.monotonic()
    with urllib.request.urlopen(sys.argv[1], timeout=300) as reply:
        assert reply.status == 200
    most = max(most, time.monotonic() - began)
    print(most, flush=True)
    time.sleep(0.02)
"""


def multiplied(levels: int) -> str:
    """Return Markdown whose front matter stands for 2 ** levels values."""
    names = [f"{number:02}" for number in range(levels)]
    lines = [f"{name}: &{name} [*{before},*{before}]" for before, name in itertools.pairwise(names)]
    return "\n".join(("---", "00: &00 [x]", *lines, "---", "# Oil", ""))


def mail(text: str) -> bytes:
    message = email.message.EmailMessage()
    message["Subject"], message["From"] = "Oil", "keeper@example.org"
    message.set_content("See the file.")
    message.add_attachment(text.encode(), maintype="text", subtype="markdown", filename="oil.md")
    return message.as_bytes()


def archive(text: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("oil.md", text)
    return packed.getvalue()


@contextmanager
def website(texts: dict[str, str]) -> Iterator[str]:
    """Give the address of a server of these pages."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = texts.get(self.path, "").encode()
            self.send_response(200 if body else 404)
            self.send_header("Content-Type", "text/markdown")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name in the library
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def probed(server: Server) -> Iterator[Callable[[], float]]:
    """Give a function that returns how long another process has waited for /livez at most. All of its asks succeed."""
    process = subprocess.Popen([sys.executable, "-c", PROBE, f"{server.url}/livez"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()  # it has begun
    try:
        yield lambda: float(process.stdout.readline())  # type: ignore[union-attr]
        assert process.poll() is None, "an ask failed"
    finally:
        process.kill()
        process.communicate()


def sent(client: httpx.Client, site: str, levels: int) -> set[tuple[str, str]]:
    """Send the text by each door over HTTP; return the documents' sources and paths."""
    text, expected = multiplied(levels), set[tuple[str, str]]()

    def one(door: str, path: str, route: str, **request: Any) -> None:
        reply = client.post(route, **request)
        assert reply.status_code == 202, (door, levels, reply.text)
        expected.add((door, path))

    name, item = f"{levels}.md", {"path": f"{levels}.md", "text": text}
    one("json", name, "/rag/ingest", json={"source": "json", **item})
    one("form", name, "/rag/ingest", data={"source": "form", **item})
    one("text", name, "/rag/ingest/text", json={"source": "text", "title": name, "text": text})
    one("array", name, "/rag/ingest/batch", json=[{"source": "array", **item}])
    lines = json.dumps({"source": "lines", **item}).encode()
    one("lines", name, "/rag/ingest/batch", content=lines, headers={"Content-Type": "application/x-ndjson"})
    one("url", f"{site}/{name}", "/rag/ingest/url", json={"url": f"{site}/{name}"})
    for suffix in ("md", "mdx", "markdown"):
        file = (f"{levels}.{suffix}", text.encode(), "text/markdown")
        one("upload", file[0], "/rag/ingest/upload", data={"source": "upload"}, files={"file": file})
    one("n8n", name, "/knowledge-base", data={"source": "n8n"}, files={"data": (name, text.encode())})
    raw = {"X-Filename": name, "Content-Type": "text/markdown"}
    one("raw", name, "/rag/ingest/upload?source=raw", content=text.encode(), headers=raw)
    for suffix, packed in (("eml", mail(text)), ("zip", archive(text))):
        file = (f"{levels}.{suffix}", packed, "application/octet-stream")
        one("packed", file[0], "/rag/ingest/upload", data={"source": "packed"}, files={"file": file})
    read = client.put("/process", content=text.encode(), headers=raw)  # of Open WebUI: it keeps nothing
    assert (read.status_code, "&01" in read.text) == (200, True), read.text
    return expected


async def produced(server: Server) -> set[tuple[str, str]]:
    """Write the texts onto the log, as a producer does; return the documents' sources and paths."""
    log = open_log("sqlite:", server.data)
    await log.start()
    try:
        door = log.broker("door")
        await door.start()
        for levels in LEVELS:
            document = DocumentSubmitted(source="producer", path=f"{levels}.md", text=multiplied(levels))
            await publish(door, SUBMITTED, encode(document), key=document.document_id.encode())
        await door.stop()
    finally:
        await log.stop()
    return {("producer", f"{levels}.md") for levels in LEVELS}


def ingested(server: Server, folder: Path) -> set[tuple[str, str]]:
    """Send a folder by the command; return the documents' sources and paths."""
    folder.mkdir()
    for levels in LEVELS:
        (folder / f"{levels}.md").write_text(multiplied(levels))
    command = [sys.executable, "-m", "services.operator_cli", "--url", server.url, "ingest", str(folder)]
    subprocess.run([*command, "--source", "folder"], capture_output=True, timeout=HANG_S, check=True)
    return {("folder", f"{levels}.md") for levels in LEVELS}


def unharmed(server: Server, expected: set[tuple[str, str]]) -> None:
    """Check that each document is there with its note, and that others are found and taken."""
    with server.client(headers={"Prefer": "wait=60"}) as client:
        listed = client.get("/rag/documents", params={"limit": 1000}).json()["items"]
        found = {(each["source"], each["path"]): each for each in listed}
        assert expected <= found.keys(), (expected - found.keys(), found.keys() - expected)
        for key in expected:
            assert found[key]["status"] == "created", found[key]
            told = client.get(f"/rag/documents/{found[key]['documentId']}").json()
            assert "aliases" in json.dumps(told), told  # the note of its front matter
        assert client.post("/rag/search", json={"query": "lantern on the pier"}).json()["results"]
        assert client.post("/rag/ingest", json=LANTERN).json()["status"] in ("created", "unchanged")


def test_aliases_that_stand_for_gigabytes_end_by_every_door_and_hold_up_nobody(tmp_path: Path) -> None:
    assert len(multiplied(60).encode()) < 1100
    with website({f"/{levels}.md": multiplied(levels) for levels in LEVELS}) as site:
        settings = {"CHAT": "extractive:", "FETCH_ALLOW": "127.0.0.1", "FETCH_DELAY": "0"}
        waits = []
        with served(tmp_path / "data", **settings) as server, probed(server) as most:
            with server.client(headers={"Prefer": "wait=60"}) as client:
                client.post("/rag/ingest", json=LANTERN).raise_for_status()
            with server.client(headers={"Prefer": "wait=0"}) as client:
                expected = set[tuple[str, str]]().union(*(sent(client, site, levels) for levels in LEVELS))
            expected |= asyncio.run(produced(server)) | ingested(server, tmp_path / "folder")
            everything_ended(server)
            unharmed(server, expected)
            waits.append(most())
        for _ in range(2):
            with served(tmp_path / "data", **settings) as server, probed(server) as most:
                unharmed(server, expected)
                waits.append(most())

    print(f"{len(expected)} documents; longest wait for /livez, s: {', '.join(f'{each:.3f}' for each in waits)}")
