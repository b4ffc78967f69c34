"""`sluice demo`: the main job from beginning to end, on a temporary folder and a free port.

Every claim is checked; the first that doesn't hold ends it with exit code 1 and the server's last lines.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from services.operator_cli.client import Away, Client, CommandError
from services.operator_cli.files import Found, found
from services.operator_cli.loading import Outcome, load
from services.operator_cli.terminal import console, hit_lines, source_lines
from services.standalone.samples import NOT_LOADED, SAMPLES

SOURCE: Final = "demo"
START_S: Final = 120.0  # a slow disk on its first read of the model; usually 2
STOP_S: Final = 15.0
POLL_S: Final = 0.05
LOG_LINES: Final = 15

SEARCH: Final = "tickets for the boat"
HITS: Final = 2
CHANGED: Final = "keepers-handbook.md"
BEFORE: Final = "One winding lasts three hours and ten minutes."
AFTER: Final = "Since the new rope, one winding lasts exactly five hours."
WINDING: Final = "How long does one winding of the clockwork last?"
DELETED: Final = "lens.md"
LENS: Final = "Who made the Fresnel lens of the lighthouse?"


class Failed(CommandError):  # noqa: N818 - reads as what happened to the demo
    """A claim of the demo doesn't hold."""


def run() -> None:
    """Print the transcript.

    Raises:
        CommandError: something was not as it should be; the server's last lines have been printed.
    """
    out = console()
    with tempfile.TemporaryDirectory(prefix="sluice-demo-") as folder:
        log = Path(folder, "server.log")
        try:
            _tell(out, Path(folder), log)
        except (CommandError, KeyboardInterrupt):
            lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:] if log.exists() else []
            for line in lines:
                console(stderr=True).print(f"  server: {line}", markup=False, style="dim")
            raise


def _tell(out: Console, folder: Path, log: Path) -> None:
    library = folder / "library"
    shutil.copytree(SAMPLES, library)
    began = time.monotonic()
    with _server(folder / "data", log) as url, Client(url) as client:
        _heading(out, "Start", f"one process, one folder, one port: ready in {time.monotonic() - began:.1f} s")

        files = found([library], exclude=sorted(NOT_LOADED))
        outcomes, embedded, seconds = _loaded(client, files)
        chunks = sum(each.chunk_count or 0 for each in outcomes)
        _check(all(each.status == "created" for each in outcomes), f"not every document was created: {outcomes}")
        _check(embedded == chunks, f"{chunks} chunks were stored, but {embedded} texts embedded")
        _heading(out, "Load", f"{len(files)} documents -> {chunks} chunks, {embedded} embedded, in {seconds:.1f} s")
        out.print("  " + ", ".join(each.name for each in files), markup=False, style="dim")

        outcomes, embedded, seconds = _loaded(client, files)
        _check(all(each.status == "unchanged" for each in outcomes), f"not every document is unchanged: {outcomes}")
        _check(embedded == 0, f"{embedded} texts were embedded though nothing changed")
        _heading(out, "Load again", f"nothing changed -> 0 embedded, in {seconds:.1f} s")

        _heading(out, "Search", SEARCH)
        hits = client.search(SEARCH, top_k=HITS, filters={"source": SOURCE})["results"]
        _check(len(hits) == HITS, f"{HITS} passages were asked for, {len(hits)} came")
        for line in hit_lines(hits):
            out.print("  ", line)

        _heading(out, "Ask", WINDING)
        _check("three hours and ten minutes" in _answer(out, client, WINDING), f"the answer misses {CHANGED}")

        _change(library / CHANGED)
        _outcomes, embedded, _ = _loaded(client, [each for each in files if each.name == CHANGED])
        _check(_outcomes[0].status == "updated", f"{CHANGED} is {_outcomes[0].status} after its change")
        _check(embedded in (1, 2), f"one paragraph changed, but {embedded} chunks were embedded")
        of = _outcomes[0].chunk_count
        _heading(out, "Change one paragraph", f"{CHANGED}: {embedded} of {of} chunks embedded, the rest reused")
        out.print(f"  - {BEFORE}\n  + {AFTER}", markup=False, style="dim")
        answer = _answer(out, client, WINDING)
        _check("exactly five hours" in answer, "the answer misses the change")
        _check("three hours and ten minutes" not in answer, "the answer holds the text from before the change")

        _heading(out, "Ask", LENS)
        _check("Barbier" in _answer(out, client, LENS), f"the answer misses {DELETED}")
        gone = next(each.document_id for each in _loaded(client, files)[0] if each.path == DELETED)
        _check(gone is not None, f"{DELETED} has no id")
        status = client.delete(str(gone))["status"]
        left = client.search(LENS, top_k=1000, filters={})["results"]
        _check(status == "deleted", f"{DELETED} is {status} after it was deleted")
        _check(all(each["metadata"]["documentId"] != gone for each in left), f"{DELETED} still answers")
        _heading(out, "Delete a document", f"{DELETED}: not one of the {len(left)} passages left is from it")
        _check("Barbier" not in _answer(out, client, LENS), f"{DELETED} still answers")
    out.print("\nAll of it held. Now yours: `make run`, then `.venv/bin/sluice ingest FOLDER`.", markup=False)


def _heading(out: Console, title: str, said: str) -> None:
    out.print(f"\n[bold cyan]{title}[/]", end="  ")
    out.print(said, markup=False)


def _answer(out: Console, client: Client, question: str) -> str:
    reply: dict[str, Any] = client.ask(question, top_k=3, filters={"source": SOURCE})
    text = str(reply["response"])
    for line in text.splitlines():
        out.print(f"  {line}", markup=False)
    for line in source_lines(reply):
        out.print(f"    {line}", markup=False, style="dim")
    return text


def _change(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    _check(text.count(BEFORE) == 1, f"{file.name} doesn't hold the sentence that is to change")
    file.write_text(text.replace(BEFORE, AFTER), encoding="utf-8")


def _loaded(client: Client, files: list[Found]) -> tuple[list[Outcome], int, float]:
    """Return the outcomes, how many texts the server embedded for them, and the seconds it took."""
    before, began = client.metric("sluice_embedded_texts_total"), time.monotonic()
    outcomes = load(files, client.upload, source=SOURCE, done=_unheard)
    embedded = client.metric("sluice_embedded_texts_total") - before
    return outcomes, round(embedded), time.monotonic() - began


def _unheard(_outcome: Outcome) -> None:
    """Say nothing: the demo tells of all of them at once."""


def _check(held: bool, otherwise: str) -> None:
    if not held:
        raise Failed(otherwise)


@contextmanager
def _server(data: Path, log: Path) -> Iterator[str]:
    """Give the address of a server of our own once it is ready, and stop it whatever happens."""
    settings = {"SLUICE_DATA": str(data), "SLUICE_PORT": "0", "SLUICE_SAMPLES": "off", "SLUICE_CHAT": "extractive:"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "services.operator_cli", "serve"],
            env=kept | settings,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
        )
    try:
        yield _ready(data / "serve.json", process.poll)
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _ready(state: Path, ended: Callable[[], int | None]) -> str:
    """Return the address the server wrote down, once it says that it is ready."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if (code := ended()) is not None:
            raise Failed(f"the server ended with code {code} before it was ready")
        try:
            url = str(json.loads(state.read_text())["url"])
            with Client(url) as client:
                if client.readiness().get("status") == "ready":
                    return url
        except (OSError, ValueError, Away):
            pass  # not written yet, half written, or not listening yet
        time.sleep(POLL_S)  # another process: there is nothing to wait on
    raise Failed(f"the server was not ready in {START_S:.0f} s")
