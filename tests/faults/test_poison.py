"""Records of forty-odd bad kinds between good ones: each is set aside once with its reason, and delays nobody."""

import asyncio
import base64
import gzip
import io
import json
import random
import time
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from services.ingest_worker import parsers
from services.ingest_worker.parsers import ParserPool
from shared.contracts import BlobRef, DocumentSubmitted, encode
from shared.log.headers import HASH_HEADER
from shared.state.ledger import Entry
from shared.topics import SUBMITTED
from tests.e2e.faults import rounds
from tests.e2e.load import new_seed
from tests.e2e.text import paragraph
from tests.integration.pipeline import Pipeline, running
from tests.unit.services.ingest_worker.files import a_pdf, locked

LATE_GUARD_S = 75.0  # a hang guard: five times what a neighbour may be late
HANG_S = 240.0
HANGS_EVERY_S = 0.5


class Poison(NamedTuple):
    """A record that no stage can take."""

    value: bytes | None
    code: str
    headers: Mapping[str, str] = {}
    hangs: bool = False


def submission(path: str, **fields: Any) -> bytes:
    """Return a submission as any producer would write it."""
    return json.dumps({"source": "poison", "path": path, **fields}).encode()


def file(path: str, content: bytes, **fields: Any) -> bytes:
    """Return a submission with a body in base64."""
    return submission(path, content=base64.b64encode(content).decode(), **fields)


def rough(path: str, command: str, folder: Path) -> bytes:
    """Return a submission of a file that does something to its parser; too large to be read in the worker itself."""
    return file(path, f"ROUGH {command} {folder / 'touched'} 0 ".encode() + b"." * (65 * 1024))


def zipped(name: str) -> bytes:
    """Return an archive with one file."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr(name, "<xml/>" * 100)
    return held.getvalue()


def kinds(folder: Path) -> dict[str, Callable[[str], Poison]]:
    """Return each kind by name, made for the path it is given."""
    missing = as_written(BlobRef(sha256="0" * 64, size=9))
    good = partial(submission, text="A text that could be read.")
    return {
        "not JSON": lambda _: Poison(b"hello", "undecodable"),
        "nothing at all": lambda _: Poison(b"", "undecodable"),
        "a JSON array": lambda _: Poison(b"[1, 2]", "undecodable"),
        "a JSON string": lambda _: Poison(b'"text"', "undecodable"),
        "JSON's null": lambda _: Poison(b"null", "undecodable"),
        "cut JSON": lambda path: Poison(good(path)[:-5], "undecodable"),
        "no UTF-8": lambda path: Poison(good(path).replace(b"text that", b"t\xff\xfet"), "undecodable"),
        "UTF-16": lambda path: Poison(good(path).decode().encode("utf-16"), "undecodable"),
        "no source": lambda path: Poison(json.dumps({"path": path, "text": "x"}).encode(), "undecodable"),
        "no path": lambda _: Poison(b'{"source": "poison", "text": "x"}', "undecodable"),
        "a list as source": lambda path: Poison(good(path, source=["x"]), "undecodable"),
        "tags in an object": lambda path: Poison(good(path, tags={"a": 1}), "undecodable"),
        "metadata in a list": lambda path: Poison(good(path, metadata=[1]), "undecodable"),
        "NaN": lambda path: Poison(good(path, metadata={"a": float("nan")}), "undecodable"),
        "nested without end": lambda path: Poison(
            good(path, metadata={"a": 0}).replace(b"0", b"[" * 100_000 + b"]" * 100_000), "undecodable"
        ),
        "a time before time": lambda path: Poison(good(path, submittedAt=-1), "undecodable"),
        "a number beyond all": lambda path: Poison(good(path, submittedAt=10**40), "undecodable"),
        "broken base64": lambda path: Poison(submission(path, content="%%%"), "undecodable"),
        "an event without a document": lambda _: Poison(
            json.dumps({"specversion": "1.0", "data": {"x": 1}}).encode(), "undecodable"
        ),
        "a null for nobody": lambda _: Poison(None, "tombstone"),
        "an altered record": lambda path: Poison(good(path), "altered", {HASH_HEADER: "0" * 32}),
        "an erasure of no id": lambda path: Poison(good(path, deleted=True, erases="all"), "undecodable"),
        "no body": lambda path: Poison(submission(path), "no_body"),
        "an empty text": lambda path: Poison(submission(path, text=""), "empty"),
        "a blank text": lambda path: Poison(submission(path, text=" \n\t "), "empty"),
        "an empty file": lambda path: Poison(file(f"{path}.bin", b""), "empty"),
        "a lost blob": lambda path: Poison(submission(path, blob=missing), "blob_missing"),
        "random bytes": lambda path: Poison(file(f"{path}.txt", random.Random(1).randbytes(5_000)), "unsupported"),
        "NUL bytes": lambda path: Poison(file(f"{path}.txt", b"\0" * 5_000), "empty"),
        "an image": lambda path: Poison(
            file(f"{path}.png", b"\x89PNG\r\n\x1a\n" + random.Random(2).randbytes(900)), "damaged"
        ),
        "an archive": lambda path: Poison(file(f"{path}.zip", zipped("a.xml")), "empty"),
        "a gzip": lambda path: Poison(file(f"{path}.gz", gzip.compress(b"x" * 9_000)), "unsupported"),
        "a word processor's": lambda path: Poison(file(f"{path}.docx", zipped("word/document.xml")), "damaged"),
        "a PDF's head alone": lambda path: Poison(file(f"{path}.pdf", b"%PDF-1.7\n" + b"x" * 900), "damaged"),
        "a PDF's garbage": lambda path: Poison(
            file(f"{path}.pdf", b"%PDF-1.7\n" + random.Random(3).randbytes(9_000)), "damaged"
        ),
        "a PDF without text": lambda path: Poison(file(f"{path}.pdf", a_pdf("")), "empty"),
        "a locked PDF": lambda path: Poison(file(f"{path}.pdf", locked(a_pdf("A secret."), "x")), "password"),
        "a page of scripts": lambda path: Poison(
            file(f"{path}.html", b"<html><script>let a = 1</script></html>"), "empty"
        ),
        "a page nested without end": lambda path: Poison(
            file(f"{path}.html", b"<!doctype html>" + b"<div>" * 60_000), "empty"
        ),
        "what crashes its reader": lambda path: Poison(rough(path, "crash", folder), "damaged"),
        "what fills the memory": lambda path: Poison(rough(path, "balloon", folder), "too_large"),
        "what hangs": lambda path: Poison(rough(path, "hang", folder), "timeout", hangs=True),
        "what never stops": lambda path: Poison(rough(path, "spin", folder), "timeout", hangs=True),
    }


def as_written(ref: BlobRef) -> dict[str, Any]:
    """Return the reference as it stands in a record."""
    found: dict[str, Any] = json.loads(encode(ref))
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_poison_is_set_aside_once_with_its_reason_and_delays_no_neighbour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(new_seed())
    program = "tests.integration.rough_parser"
    # Three tries of a third each hold the parsers for as long as one of ten seconds.
    pool = partial(ParserPool, program=program, cpu_s=10.0 / 3, wall_factor=1.0, patience_s=1.0, again_s=1.0)

    def rough(*limits: int, **options: Any) -> ParserPool:
        return pool(*limits, **options | {"memory_mb": 250, "confined": False})  # its readers write notes

    monkeypatch.setattr(parsers, "ParserPool", rough)
    makers = kinds(tmp_path)
    names = [name for _ in range(rounds(ci=1)) for name in rng.sample(list(makers), len(makers))]
    expected: dict[tuple[int, int], tuple[str, str]] = {}
    late: list[float] = []
    async with running(tmp_path / "data", partitions=1) as pipeline:
        watched: list[asyncio.Task[Entry]] = []
        for number, name in enumerate(names):
            poison = makers[name](f"{number}")
            written = await pipeline.parts.publish(
                SUBMITTED, poison.value, key=f"poison {number}".encode(), headers=dict(poison.headers)
            )
            # What can be read is sent on under its document's key before it is found to be bad.
            expected[written.partition, written.offset] = (name, poison.code)
            watched.append(asyncio.create_task(_neighbour(pipeline, number, late)))
            if poison.hangs:
                await asyncio.sleep(HANGS_EVERY_S)  # as fast as they may come, says the bar
            if number % len(makers) == 0:
                await asyncio.gather(*watched)  # a backlog that only grows is no neighbour's delay
        ended = [await task for task in watched]

        async with asyncio.timeout(HANG_S):
            while len(letters := await pipeline.dead_letters()) < len(names):  # noqa: ASYNC110 - another topic
                await asyncio.sleep(1)
        checks = await pipeline.parts.readiness()

    print(f"{len(names)} records of {len(makers)} kinds; neighbours late by {max(late):.1f} s at most")
    told = [(letter.place.partition, letter.place.offset) for letter in letters]
    wrong = {
        expected[place][0]: (letter.code, letter.sentence)
        for place, letter in zip(told, letters, strict=True)
        if expected[place][1] != letter.code
    }
    assert wrong == {}
    assert Counter(told) == Counter(expected.keys())
    assert {entry.last.status for entry in ended} == {"created"}
    assert max(late) < LATE_GUARD_S
    assert {name: said for name, said in checks.items() if said is not None} == {}


async def _neighbour(pipeline: Pipeline, number: int, late: list[float]) -> Entry:
    """Return how a good document of the same partition ended."""
    began = time.monotonic()
    document = DocumentSubmitted(source="good", path=f"{number}.md", text=paragraph(number, 0, 0, of=1))
    entry = await pipeline.send(document, within_s=HANG_S)
    late.append(time.monotonic() - began)
    return entry
