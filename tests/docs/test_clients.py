"""The pages of the clients are true: their snippets and commands work when pasted."""

import asyncio
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs import readme
from tests.docs.readme import ROOT, SHOWN_URL
from tests.e2e.harness import Server, served
from tests.selection import CI_ONLY
from tests.servers.fake_ollama import CHAT_MODEL, fake_ollama

pytestmark = [pytest.mark.slow, CI_ONLY]

PAGES = sorted((ROOT / "docs/clients").glob("*.md"))
SNIPPET = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
WITH_A_MODEL = re.compile(r"^```python model\n(.*?)^```$", re.MULTILINE | re.DOTALL)  # needs a language model
CURL = re.compile(r"^\$ (curl .*)$", re.MULTILINE)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("clients") / "data"
    with served(folder, SAMPLES="on", LOG_LEVEL="error", CHAT="extractive:") as started:
        readme.printed(started, readme.LOADED)
        yield started


def ran(page: Path, server: Server, snippet: re.Pattern[str] = SNIPPET) -> str:
    """Return what the page's snippets print, one after the other in one process."""
    program = "\n".join(snippet.findall(page.read_text(encoding="utf-8"))).replace(SHOWN_URL, server.url)
    command = [sys.executable, "-c", program]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "clients/python")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_snippets_work_when_pasted(page: Path, server: Server) -> None:
    if SNIPPET.search(page.read_text(encoding="utf-8")):
        printed = ran(page, server)

        assert "weekends only" in printed or "prices.md" in printed, printed


async def test_the_snippet_that_needs_a_model_works_when_pasted(tmp_path: Path) -> None:
    def printed(chat: str) -> str:
        with served(tmp_path / "data", SAMPLES="on", LOG_LEVEL="error", CHAT=chat) as server:
            readme.printed(server, readme.LOADED)
            return ran(ROOT / "docs/clients/openai.md", server, WITH_A_MODEL)

    async with fake_ollama() as model:
        model.json_reply = '{"weekday": "Saturday", "hours": [10, 16]}'
        shown = await asyncio.to_thread(printed, f"ollama://{model.url.removeprefix('http://')}/{CHAT_MODEL}")

    assert shown == "weekday='Saturday' hours=[10, 16]\n"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_curl_lines_work_when_pasted(page: Path, server: Server) -> None:
    for line in CURL.findall(page.read_text(encoding="utf-8")):
        command = shlex.split(line.replace(SHOWN_URL, server.url))
        reply = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout

        assert "weekends only" in reply or "prices.md" in reply, reply
