"""A page of another site, in a real Chromium, against an install without keys: it writes nothing and reads nothing."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Route, sync_playwright

from tests.e2e.browser import ARGUMENTS, ingested, needed_chromium
from tests.e2e.harness import Server, served

pytestmark = pytest.mark.slow

SECRET = "The heron sleeps behind the boathouse."
EVIL = "evil.example"  # by the resolver's rule, this machine: as if the attacker's name had been rebound to it
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})

# Sends every request in every way that needs no permission, and those that need one; returns what the page could read.
ATTACK = """
async ({base, targets, body, fields}) => {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.append(name, value);
  form.append("file", new Blob([fields.text], {type: "text/plain"}), "evil.txt");
  const kinds = {
    form: new URLSearchParams(fields),
    multipart: form,
    text: new Blob([body], {type: "text/plain"}),
    untyped: new Blob([body]),
    json: new Blob([body], {type: "application/json"}),
  };
  const read = [];
  const one = async (method, path, kind) => {
    const bodyless = method === "GET" || method === "HEAD";
    for (const mode of ["no-cors", "cors"]) {
      if (mode === "no-cors" && (kind === "json" || !["GET", "HEAD", "POST"].includes(method))) continue;
      try {
        const reply = await fetch(base + path, {method, mode, body: bodyless ? undefined : kinds[kind]});
        const text = await reply.text();
        if (reply.ok && text) read.push(`${method} ${path} ${kind}: ${text.slice(0, 80)}`);
      } catch {}  // the browser refused
    }
  };
  const all = targets.flatMap(([method, path]) => Object.keys(kinds).map((kind) => [method, path, kind]));
  while (all.length) await Promise.all(all.splice(0, 32).map((each) => one(...each)));
  return read;
}
"""
FORMS = """
async ({base, paths, fields}) => {
  for (const enctype of ["application/x-www-form-urlencoded", "multipart/form-data", "text/plain"])
    for (const path of paths) {
      const frame = Object.assign(document.createElement("iframe"), {name: "f" + Math.random()});
      const form = Object.assign(document.createElement("form"), {
        action: base + path, method: "POST", enctype, target: frame.name});
      for (const [name, value] of Object.entries(fields))
        form.append(Object.assign(document.createElement("input"), {name, value}));
      document.body.append(frame, form);
      const loaded = new Promise((done) => { frame.onload = done; setTimeout(done, 5000); });
      form.submit();
      await loaded;
    }
}
"""


@dataclass
class Victim:
    """A server without keys, with one document."""

    server: Server
    document: str

    @property
    def port(self) -> int:
        return urlsplit(self.server.url).port or 0

    def targets(self) -> list[tuple[str, str]]:
        """Return method and path of every route, with the document's id in it."""
        with self.server.client() as client:
            paths = client.get("/openapi.json").json()["paths"]
        routes = [(method.upper(), path) for path, item in paths.items() for method in item]
        routes += [("POST", "/console/session"), ("DELETE", "/console/session"), ("POST", "/mcp"), ("GET", "/")]
        routes += [("POST", "/api/rag/ingest"), ("POST", "/api/ops/erase"), ("POST", "/api/chat")]
        return [(method, re.sub(r"\{[^}]*\}", self.document, path)) for method, path in routes]

    def answers(self) -> dict[tuple[str, str, int], float]:
        """Return how often each method and route was answered with each status."""
        pattern = re.compile(r'sluice_requests_total\{method="(\w+)",route="([^"]*)",status="(\d+)"\} (\S+)')
        with self.server.client() as client:
            found = pattern.findall(client.get("/metrics").text)
        return {(method, route, int(status)): float(count) for method, route, status, count in found}

    def state(self) -> Any:
        with self.server.client() as client:
            stats = client.get("/rag/stats").json()
            text = client.get(f"/rag/documents/{self.document}/text").text
        return stats["documents"], stats["sources"], text


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    rule = f"--host-resolver-rules=MAP {EVIL} 127.0.0.1"
    # Newer browsers ask before a page may reach this machine. The attack is tried as older ones let it through.
    old = "--disable-features=LocalNetworkAccessChecks,PrivateNetworkAccessSendPreflights"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=needed_chromium(), args=[*ARGUMENTS, rule, old])
        try:
            yield browser
        finally:
            browser.close()


def victim_of(server: Server) -> Victim:
    with server.client() as client:
        return Victim(server, ingested(client, [{"source": "s", "path": "secret.md", "text": SECRET}])[0])


def attack(browser: Browser, targets: list[tuple[str, str]], site: str, base: str) -> list[str]:
    """Return what a page of `site` could read, after it has sent everything to `base`."""
    fields = {"source": "s", "path": "evil.md", "text": "written by another site", "message": "x", "query": "heron"}
    body = '{"source": "s", "path": "evil.md", "text": "written by another site", "query": "heron", "message": "heron"}'

    def page_of_the_attacker(route: Route) -> None:
        route.fulfill(body="<!doctype html><title>kittens</title>", content_type="text/html")

    with browser.new_context() as context:
        context.route(f"{site}/kittens", page_of_the_attacker)
        page = context.new_page()
        page.goto(f"{site}/kittens")
        read: list[str] = page.evaluate(ATTACK, {"base": base, "targets": targets, "body": body, "fields": fields})
        paths = [path for method, path in targets if (method == "POST" and "/ops/" in path) or path == "/rag/ingest"]
        page.evaluate(FORMS, {"base": base, "paths": paths, "fields": fields})
        page.close()
    return read


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    needed_chromium()
    with served(tmp_path_factory.mktemp("victim") / "data", CHAT="extractive:") as server:
        yield victim_of(server)


@pytest.mark.parametrize(
    ("site", "rebound"),
    [
        pytest.param("http://attacker.example", False, id="another site"),
        pytest.param("http://127.0.0.1:1", False, id="another port"),
        pytest.param("http://localhost:1", False, id="another name of this machine"),
        pytest.param(f"http://{EVIL}", True, id="rebinding"),
    ],
)
def test_a_page_of_another_site_writes_and_reads_nothing(
    browser: Browser, victim: Victim, site: str, rebound: bool
) -> None:
    state, before = victim.state(), victim.answers()
    if rebound:
        site = base = f"{site}:{victim.port}"
    else:
        base = victim.server.url

    read = attack(browser, victim.targets(), site, base)

    after = victim.answers()
    new = {key: count - before.get(key, 0) for key, count in after.items() if count > before.get(key, 0)}
    assert read == []
    assert {key for key in new if key[0] in WRITES and key[1] != "unmatched" and key[2] != 403} == set()
    assert sum(count for key, count in new.items() if key[2] == 403) > 100, "the attack never reached the server"
    assert victim.state() == state


def test_the_attack_would_work_if_nothing_refused_it(browser: Browser, tmp_path: Path) -> None:
    with served(tmp_path / "data", CHAT="extractive:", CORS_ORIGINS="http://attacker.example") as server:
        victim_of(server)

        few = [("POST", "/rag/ingest"), ("GET", "/rag/documents")]
        read = attack(browser, few, "http://attacker.example", server.url)

        with server.client() as client:
            paths = {item["path"] for item in client.get("/rag/documents").json()["items"]}
    assert "evil.md" in paths
    assert any(each.startswith("GET /rag/documents ") for each in read), read
