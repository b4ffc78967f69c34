"""`sluice inspect`: shows what the index would get of a file. Nothing is stored, and no server is needed."""

import asyncio
import time
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any, Final

import msgspec

from services.ingest_worker.chunk import CHUNKER, from_prepared, version_chunks
from services.ingest_worker.extract import Extraction, Hints
from services.ingest_worker.parsers import parser_pool
from services.ingest_worker.text_blocks import blocks
from services.operator_cli.errors import CommandError, Misuse
from services.operator_cli.terminal import note_line
from shared.contracts import DEFAULT_TENANT, Chunk, DocumentVersion, Note, like
from shared.embedder.open import open_embedder
from shared.errors import PipelineError
from shared.ids import document_id
from shared.runtime.logging_setup import configure_logging
from shared.runtime.resources import wanted_generation
from shared.settings import Settings, load_settings
from shared.state.ledger import NOWHERE

_WARM: Final = b"<!doctype html><p>starts a parser</p>"


class Inspection(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What was read of a file, and the chunks that it would have."""

    name: str
    document_type: str
    title: str | None
    language: str | None
    file: dict[str, Any]  # what it says about itself
    notes: Sequence[Note]
    note_count: int
    seconds: dict[str, float]  # by step: start, read, chunk
    pages: Sequence[dict[str, int]]  # page, its number from 1, and where its text is: start, end
    tables: Sequence[dict[str, Any]]  # of tables, or rows in a row, as they are in the text: start, end, text
    chunks: Sequence[Chunk]
    text: str


def inspect_file(file: Path) -> Inspection:
    """Return what this installation reads of the file, with its own settings.

    Raises:
        Misuse: the file can't be opened. CommandError: it can't be read; the sentence says why.
        ConfigurationError: a setting can't work.
    """
    settings = load_settings()
    configure_logging(settings.log_format, "error")
    try:
        data = file.read_bytes()
    except OSError as error:
        raise Misuse(f"{file} can't be opened: {error.strerror}") from None
    try:
        return asyncio.run(_inspected(file.name, data, settings))
    except PipelineError as error:
        raise CommandError(f"{error.sentence} ({error.code})") from None


async def _inspected(name: str, data: bytes, settings: Settings) -> Inspection:
    began = time.perf_counter()
    parsers, embedder = parser_pool(settings), open_embedder(settings.embedder, settings.openai_api_key)
    try:
        await asyncio.gather(embedder.start(), parsers.extract(_WARM, Hints(filename="a.pdf"), tenant=DEFAULT_TENANT))
        started = time.perf_counter()
        found = await parsers.extract(data, Hints(filename=name), tenant=DEFAULT_TENANT)
        read = time.perf_counter()
        if found.chunks:
            chunks = from_prepared(found.chunks, embedder.tokens)
        else:
            generation = wanted_generation(settings, CHUNKER, embedder.model)
            version, tokens = _version(name, found), embedder.tokens
            chunks = version_chunks(version, found.text, found.pages, found.parts, generation=generation, tokens=tokens)
        steps = {"start": started - began, "read": read - started, "chunk": time.perf_counter() - read}
    finally:
        await embedder.close()
        await parsers.close()
    return like(
        Inspection,
        found,
        name=name,
        seconds={step: round(seconds, 4) for step, seconds in steps.items()},
        pages=[
            {"page": number, "start": start, "end": end}
            for number, (start, end) in enumerate(pairwise([*found.pages, len(found.text)]), 1)
        ],
        tables=list(_tables(found)),
        chunks=chunks,
    )


def _version(name: str, found: Extraction) -> DocumentVersion:
    return DocumentVersion(
        document_id=document_id(DEFAULT_TENANT, "", name),
        version=1,
        place=msgspec.structs.replace(NOWHERE, partition=0, offset=0, time=0),
        tenant=DEFAULT_TENANT,
        source="",
        path=name,
        title=found.title,
        outcome="created",
        text_format=found.text_format,
    )


def _tables(found: Extraction) -> Iterator[dict[str, Any]]:
    every = blocks(found.text, structured=found.text_format != "plain", pages=found.pages)
    for of_table, run in groupby(every, key=lambda block: block.kind in ("table", "record")):
        first, *more = run
        if of_table:
            start, end = first.start, (more or [first])[-1].end
            yield {"start": start, "end": end, "text": found.text[start:end]}


def markdown(seen: Inspection) -> Iterator[str]:
    """Yield the blocks of a report in Markdown."""
    yield f"# {seen.name}"
    about = {"type": seen.document_type, "title": seen.title, "language": seen.language}
    for name, value in seen.file.items():
        about[f"file.{name}"] = value if isinstance(value, str) else "; ".join(value)
    about["seconds"] = ", ".join(f"{step} {seconds:g}" for step, seconds in seen.seconds.items())
    yield "\n".join(f"- {name}: {value}" for name, value in about.items() if value)
    yield f"## {seen.note_count} notes"
    if seen.notes:
        yield "\n".join(f"- {note_line(msgspec.to_builtins(each))} ({each.code})" for each in seen.notes)
    yield f"## {len(seen.pages)} pages"
    if seen.pages:
        rows = (f"| {each['page']} | {each['start']} | {each['end'] - each['start']} |" for each in seen.pages)
        yield "\n".join(["| page | begins at | characters |", "| --- | --- | --- |", *rows])
    yield f"## {len(seen.tables)} tables"
    for each in seen.tables:
        yield f"From {each['start']} to {each['end']}:"
        yield _fenced(each["text"])
    yield f"## {len(seen.chunks)} chunks"
    for chunk in seen.chunks:
        page = f"page {chunk.page}" if chunk.page else None
        named = [page, chunk.section, chunk.type, f"{chunk.tokens} tokens", f"{chunk.start}–{chunk.end}"]
        yield f"### {chunk.order + 1}: {', '.join(filter(None, named))}"
        yield _fenced("\n".join(filter(None, [chunk.table_header, chunk.text])))
    yield "## Text"
    yield _fenced(seen.text)


def _fenced(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"
