"""`sluice demo`: loads, searches, asks, changes and deletes documents, on a temporary folder and free ports.

Every claim is checked. The first one that doesn't hold ends the demo with exit code 1 and the last lines of the logs.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.console import Console

from services.operator_cli.bulk_load import LoadOutcome, load
from services.operator_cli.client import Client
from services.operator_cli.errors import CommandError
from services.operator_cli.local_files import FoundFile, files_at
from services.operator_cli.terminal import console, hit_lines, source_lines
from services.standalone.samples import NOT_LOADED, SAMPLES
from shared.version import CHECKOUT

START_S: Final = 120.0  # seconds; usually 2, but a slow disk may take long to read the model
STOP_S: Final = 15.0
POLL_S: Final = 0.05

_LISTENS: Final = re.compile(r"^Sluice \S+ listens on (\S+)", re.MULTILINE)

SOURCE: Final = "demo"
LOG_LINES: Final = 15

SEARCH: Final = "price of a family ticket"  # the passages after these two score far less, on every CPU
HITS: Final = 2
CHANGED: Final = "keepers-handbook.md"
BEFORE: Final = "One winding lasts three hours and ten minutes."
AFTER: Final = "Since the new rope, one winding lasts exactly five hours."
WINDING: Final = "How long does one winding of the clockwork last?"
DELETED: Final = "lens.md"
LENS: Final = "Who made the Fresnel lens of the lighthouse?"


class DemoServer(msgspec.Struct, frozen=True):
    """A running Sluice."""

    url: str
    what: str  # a description for the transcript
    metric: Callable[[str], float]  # returns the sum of a metric's samples, by the metric's name


@contextmanager
def one_process(folder: Path) -> Iterator[DemoServer]:
    """Run a standalone server on a free port for the block; its log is in `folder`. Raises CommandError."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    own = {"DATA": str(folder / "data"), "PORT": "0", "SAMPLES": "off", "CHAT": "extractive:", "CONFIG": ""}
    log = folder / "serve.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(  # noqa: S603 - our own interpreter, a role of ours
            [sys.executable, "-m", str(__package__), "serve"],
            env=kept | {f"SLUICE_{name}": value for name, value in own.items()},
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
        )
    try:
        with Client(_address(process, log)) as client:
            yield DemoServer(client.url, "one process, one folder, one port", client.metric)
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _address(process: "subprocess.Popen[bytes]", log: Path) -> str:
    """Return the server's address once its log has it. Raises CommandError if the process ends or takes too long."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if found := _LISTENS.search(log.read_text(errors="replace")):
            return found[1]
        if (code := process.poll()) is not None:
            raise CommandError(f"the server ended with code {code} before it was ready")
        time.sleep(POLL_S)  # polling, because another process gives no signal
    raise CommandError(f"the server was not ready in {START_S:.0f} s")


Started = Callable[[Path], AbstractContextManager[DemoServer]]


def run(started: Started = one_process) -> None:
    """Run the demo on a server that `started` starts in a folder, and print the transcript.

    Raises:
        CommandError: a claim didn't hold; the last lines of the logs have been printed.
    """
    out = console()
    with tempfile.TemporaryDirectory(prefix="sluice-demo-") as name:
        folder = Path(name)
        try:
            _tell(out, folder, started)
        except (CommandError, KeyboardInterrupt):
            for log in sorted(folder.glob("*.log")):
                for line in log.read_text(errors="replace").splitlines()[-LOG_LINES:]:
                    console(stderr=True).print(f"  {log.stem}: {line}", markup=False, style="dim")
            raise


def _tell(out: Console, folder: Path, started: Started) -> None:
    library = folder / "library"
    shutil.copytree(SAMPLES, library)
    began = time.monotonic()
    with started(folder) as stage, Client(stage.url) as client:
        _heading(out, "Start", f"{stage.what}: ready in {time.monotonic() - began:.1f} s")

        files = files_at([library], exclude=sorted(NOT_LOADED))
        outcomes, embedded, seconds = _loaded(stage, client, files)
        chunks = sum(each.chunk_count or 0 for each in outcomes)
        _check(all(each.status == "created" for each in outcomes), f"not every document was created: {outcomes}")
        _check(embedded == chunks, f"{chunks} chunks were stored, but {embedded} texts embedded")
        _heading(out, "Load", f"{len(files)} documents -> {chunks} chunks, {embedded} embedded, in {seconds:.1f} s")
        out.print("  " + ", ".join(each.name for each in files), markup=False, style="dim")

        outcomes, embedded, seconds = _loaded(stage, client, files)
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

        changed = library / CHANGED
        text = changed.read_text(encoding="utf-8")
        _check(text.count(BEFORE) == 1, f"{CHANGED} doesn't hold the sentence that is to change")
        changed.write_text(text.replace(BEFORE, AFTER), encoding="utf-8")
        _outcomes, embedded, _ = _loaded(stage, client, [each for each in files if each.name == CHANGED])
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
        gone = next(each.document_id for each in _loaded(stage, client, files)[0] if each.path == DELETED)
        _check(gone is not None, f"{DELETED} has no id")
        status = client.delete(str(gone))["status"]
        left = client.search(LENS, top_k=1000, filters={})["results"]
        _check(status == "deleted", f"{DELETED} is {status} after it was deleted")
        _check(all(each["metadata"]["documentId"] != gone for each in left), f"{DELETED} still answers")
        _heading(out, "Delete a document", f"{DELETED}: not one of the {len(left)} passages left is from it")
        _check("Barbier" not in _answer(out, client, LENS), f"{DELETED} still answers")
    run, sluice = ("make run", ".venv/bin/sluice") if CHECKOUT else ("sluice serve", "sluice")
    out.print(f"\nAll of it held. Now yours: `{run}`, then `{sluice} ingest FOLDER`.", markup=False)


def _heading(out: Console, title: str, text: str) -> None:
    out.print(f"\n[bold cyan]{title}[/]", end="  ")
    out.print(text, markup=False)


def _answer(out: Console, client: Client, question: str) -> str:
    reply: dict[str, Any] = client.ask(question, top_k=3, filters={"source": SOURCE})
    text = str(reply["response"])
    for line in text.splitlines():
        out.print(f"  {line}", markup=False)
    for line in source_lines(reply):
        out.print(f"    {line}", markup=False, style="dim")
    return text


def _loaded(stage: DemoServer, client: Client, files: list[FoundFile]) -> tuple[list[LoadOutcome], int, float]:
    """Return the outcomes, how many texts were embedded for them, and the seconds it took."""
    before, began = stage.metric("sluice_embedded_texts_total"), time.monotonic()
    outcomes: list[LoadOutcome] = []
    load(files, client, {"source": SOURCE}, outcomes.append)
    embedded = stage.metric("sluice_embedded_texts_total") - before
    return outcomes, round(embedded), time.monotonic() - began


def _check(held: bool, otherwise: str) -> None:
    if not held:
        raise CommandError(otherwise)
