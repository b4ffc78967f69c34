"""`make bench ONLY=answers`: how long answers take, without a language model and with one, while nothing is ingested.

The documents are this project's pages. The questions are made from their headings and sentences, and each is asked
once, because the vector of a repeated one is kept. `python -m tests.bench.answers FOLDER [QUESTIONS]` measures answers
without a model over any folder; QUESTIONS is a file with an object on each line, its question under `text`.
"""

import argparse
import asyncio
import json
import os
import random
import re
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from shared.answers.sentences import plain, split
from tests.bench.report import Row
from tests.bench.search import connected
from tests.bench.standalone import cpu_seconds
from tests.e2e.harness import Server, served
from tests.servers import ollama
from tests.servers.fake_ollama import FakeOllama, fake_ollama
from tests.servers.ollama import CHAT_MODEL, OllamaServer, create_models

PROJECT = Path(__file__).resolve().parents[2]
BAR = "p95 ≤ 150 ms"
LAPS = 3
WARM_UP = 10
_HEADINGS = ("How does {} work?", "What does the documentation say about {}?", "When is {} needed?")
_SENTENCES = ("What happens when {}?", "Why is it that {}?", "Where is it written that {}?")
_WORDS_ASKED = 8
_LEAST_WORDS = 12  # of a sentence that a question is made from
_IDLE_S = 2.0  # for the work that follows a load
_HEADING = re.compile(r"^#{1,4}\s+(.+)$", re.MULTILINE)
_FENCED = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)


class Size(msgspec.Struct, frozen=True):
    """How many questions are asked of each kind."""

    questions: int = 120
    of_models: int = 24


QUICK = Size(questions=6, of_models=6)


class Timed(msgspec.Struct, frozen=True):
    """A streamed answer, in ms since the request was sent."""

    first: float  # its first piece
    whole: float


def measure(row: Row, size: Size) -> None:
    """Tell `row` the figures."""
    pages = {path.name: path.read_bytes() for path in (PROJECT / "README.md", *sorted(PROJECT.glob("docs/*.md")))}
    extractive(row, pages, size.questions)
    with _ollama() as url:
        if url is None:
            row("/chat with a model", "not measured: no Ollama here; make servers builds it", "")
        else:
            asyncio.run(_with_model(row, pages, url, size.of_models))


def extractive(row: Row, files: Mapping[str, bytes], count: int, given: Sequence[str] = ()) -> None:
    """Tell `row` the figures of answers without a model over these files; `given` questions are asked before others."""
    with tempfile.TemporaryDirectory() as folder, served(Path(folder) / "data", CHAT="extractive:") as server:
        ids = load(server, files)
        asked = [*given, *questions(files, WARM_UP + 2 * count)]
        with closing(connected(server.url)) as connection:
            for question in asked[-WARM_UP:]:
                _posted(connection, "/chat", {"message": question, "useRag": True})
            for what, some in (("/chat", asked[:count]), ("/rag/query", asked[count : 2 * count])):
                taken, quoted, before = [], 0, cpu_seconds(server)
                for question in some:
                    body = (
                        {"message": question, "useRag": True}
                        if what == "/chat"
                        else {"question": question, "documentIds": ids, "compare": False}
                    )
                    begun = time.perf_counter()
                    reply = _posted(connection, what, body)
                    taken.append(1000 * (time.perf_counter() - begun))
                    quoted += bool(reply["citations"])
                spent = 1000 * (cpu_seconds(server) - before) / len(some)
                row(f"answer without a model, {what}, idle", f"{_shown(taken)}; {quoted} quote", BAR)
                row("… CPU of all processes", f"{spent:.0f} ms an answer, load {os.getloadavg()[0]:.1f}", "")


def load(server: Server, files: Mapping[str, bytes]) -> list[str]:
    """Upload the files; return the ids of those that were taken."""
    ids = []
    with server.client(headers={"Prefer": "wait=300"}, timeout=330) as client:
        for path, content in files.items():
            reply = client.post("/rag/ingest/upload", files={"file": (path, content)}, data={"path": path})
            if reply.status_code == 200:
                ids.append(str(reply.json()["documentId"]))
    assert ids, "no file was taken"
    time.sleep(_IDLE_S)
    return ids


def questions(files: Mapping[str, bytes], count: int) -> list[str]:
    """Return so many different questions about the files' headings and sentences, the same ones each time."""
    rng = random.Random("questions")
    headings: dict[str, None] = {}
    sentences: dict[str, None] = {}
    for content in files.values():
        text = _FENCED.sub("", content.decode(errors="ignore"))
        headings |= dict.fromkeys(plain(match[1]).rstrip(".:") for match in _HEADING.finditer(text))
        for block in text.split("\n\n"):
            if not block.lstrip().startswith(("#", "|", "-", "*", "<", ">", "!", "1.")):
                sentences |= dict.fromkeys(each for each in split(plain(" ".join(block.split()))))
    about = [heading for heading in headings if heading]
    said = [each.split() for each in sentences if len(each.split()) >= _LEAST_WORDS]
    found: dict[str, None] = {}
    while len(found) < count:
        if len(found) % 2 and about:
            found[rng.choice(_HEADINGS).format(about.pop(rng.randrange(len(about))))] = None
        else:
            words = rng.choice(said)
            start = rng.randrange(len(words) - _WORDS_ASKED)
            part = " ".join(words[start : start + _WORDS_ASKED]).strip(".,:;")
            found[rng.choice(_SENTENCES).format(part)] = None
    return list(found)


async def _with_model(row: Row, pages: Mapping[str, bytes], url: str, count: int) -> None:
    """Measure `/chat` with a model of a real Ollama, and Ollama asked directly with the prompts of those answers.

    A second model is a fake server, which records the prompts. Each prompt has a boundary of its own, so Ollama has
    none of them in its cache but for what all have in common.
    """
    async with fake_ollama() as recorder:
        recorder.models[f"{CHAT_MODEL}:latest"] = "completion"
        chat = f"{_model_at(url)},recorded={_model_at(recorder.url)}"
        with tempfile.TemporaryDirectory() as folder:
            await asyncio.to_thread(_measure_model, row, Path(folder), pages, url, chat, count, recorder)


def _measure_model(
    row: Row, folder: Path, pages: Mapping[str, bytes], url: str, chat: str, count: int, recorder: FakeOllama
) -> None:
    plainly: list[float] = []
    streamed: list[Timed] = []
    direct: list[Timed] = []
    with served(folder / "data", CHAT=chat) as server:
        load(server, pages)
        asked = questions(pages, WARM_UP + 2 * count)
        for lap in range(LAPS):  # in turn, because the machine's own speed drifts
            some = asked[count + lap : 2 * count : LAPS]
            before = len(recorder.bodies("/api/chat"))
            with closing(connected(server.url)) as ours:  # anew in each lap: the server closes idle connections
                for question in asked[2 * count :] if lap == 0 else ():
                    _posted(ours, "/chat", {"message": question, "useRag": True, "model": "extractive"})
                for question in asked[lap:count:LAPS]:
                    begun = time.perf_counter()
                    _posted(ours, "/chat", {"message": question, "useRag": True})
                    plainly.append(1000 * (time.perf_counter() - begun))
                for question in some:
                    body = {"message": question, "useRag": True, "stream": True}
                    streamed.append(_streamed(ours, "/chat", body, b"event: token"))
                for question in some:
                    _posted(ours, "/chat", {"message": question, "useRag": True, "model": "recorded"})
            with closing(connected(url)) as theirs:
                prompts = recorder.bodies("/api/chat")[before:]
                direct += [_streamed(theirs, "/api/chat", body, b'"content"') for body in prompts]
    row("/chat with Ollama's model, whole", _shown(plainly), "")
    for what, part in (("time to first token", "first"), ("whole, streamed", "whole")):
        own, model = ([getattr(each, part) for each in timed] for timed in (streamed, direct))
        row(f"/chat with Ollama's model, {what}", _shown(own), "")
        row("… Ollama asked directly with the same prompts", _shown(model), "")
        row("… which Sluice adds to", f"p50 {_added(own, model, 50):.1f} ms, p95 {_added(own, model, 95):.1f} ms", "")


@contextmanager
def _ollama() -> Iterator[str | None]:
    """Give the address of a server that has the tests' models, as the tests find one; None where there is none."""
    if given := os.environ.get("SLUICE_TEST_OLLAMA"):
        create_models(given)
        yield given
    elif ollama.RECIPE.ready:
        with (
            tempfile.TemporaryDirectory() as folder,
            OllamaServer(ollama.RECIPE.folder, Path(folder) / "ollama") as server,
        ):
            yield server.url
    else:
        yield None


def _model_at(url: str) -> str:
    return f"ollama://{urlsplit(url).netloc}/{CHAT_MODEL}"


def _sent(connection: HTTPConnection, path: str, body: Mapping[str, Any]) -> HTTPResponse:
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    reply = connection.getresponse()
    assert reply.status == 200, reply.read()
    return reply


def _posted(connection: HTTPConnection, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(_sent(connection, path, body).read())
    return found


def _streamed(connection: HTTPConnection, path: str, body: Mapping[str, Any], mark: bytes) -> Timed:
    """Return when the first line that has `mark` came, and the end."""
    begun = time.perf_counter()
    reply = _sent(connection, path, body)
    first = None
    while line := reply.readline():
        if first is None and mark in line:
            first = time.perf_counter()
    assert first is not None, "the answer has no piece"
    return Timed(1000 * (first - begun), 1000 * (time.perf_counter() - begun))


def _added(own: Sequence[float], model: Sequence[float], percent: int) -> float:
    return _percentile(own, percent) - _percentile(model, percent)


def _percentile(milliseconds: Sequence[float], percent: int) -> float:
    return statistics.quantiles(milliseconds, n=100)[percent - 1]


def _shown(milliseconds: Sequence[float]) -> str:
    p50, p95 = (_percentile(milliseconds, each) for each in (50, 95))
    return f"p50 {p50:.0f} ms, p95 {p95:.0f} ms, {len(milliseconds)} questions"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.answers", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("questions", type=Path, nargs="?")
    parser.add_argument("--count", type=int, default=Size().questions, help="questions of each route")
    chosen = parser.parse_args()
    files = {
        path.relative_to(chosen.folder).as_posix(): path.read_bytes()
        for path in sorted(chosen.folder.rglob("*"))
        if path.is_file()
    }
    given = [json.loads(line)["text"] for line in chosen.questions.open()] if chosen.questions else []
    extractive(lambda *cells: print(*cells, sep="  "), files, chosen.count, given)


if __name__ == "__main__":
    main()
