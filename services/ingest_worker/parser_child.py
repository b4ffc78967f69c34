"""A parser process: takes one document at a time from stdin and writes its text, or its chunks, to stdout.

Run by `ParserPool` as `python -m services.ingest_worker.parser_child PARENT_PID BYTES BYTES_FOR_IMAGES on|off`; `on`
confines it (see `shared.sandbox`). A frame is its length in four big-endian bytes, then MessagePack; a job's `data`
follows it in the same way, so that neither side holds it twice. What a document makes large comes in parts, so that the
parent never decodes more than `MOST_FRAME` bytes at a time. The process ends with its parent, even in a parse.
"""

import ctypes
import importlib
import logging
import os
import pickle
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import BinaryIO, TextIO

import msgspec

from services.ingest_worker.extract import Extraction, Hints, extract, limits
from services.ingest_worker.extract.pdf_conversion import page_picture, unlocked
from shared import sandbox
from shared.contracts import PreparedChunk
from shared.errors import Rejected

LENGTH_BYTES = 4
MOST_FRAME = 256 * 1024 + 64  # bytes of a reply; the worst shapes of so many, empty lists in lists, decode in 30 ms
PART_TEXT = 64 * 1024  # characters, at most four bytes each
_PART_LINKS = 25  # 2,000 characters each
_MOST_SENTENCE = 10_000  # characters
_MOST_PLACES = 10
_MOST_MESSAGE = 200  # characters: it may quote the document
_LARGE_CALL = 4 << 20  # bytes; with such a text, making chunks may need as much memory as page images
# What reading imports. The other library for PDF is needed for one file in a hundred, and takes 15 MB.
_LIBRARIES = ("lxml.html", "trafilatura", "python_calamine", "pypdfium2")
_PR_SET_PDEATHSIG = 1  # prctl(2)


class ParserJob(msgspec.Struct, frozen=True):
    """A document to read."""

    data: bytes
    hints: Hints
    cpu_s: float  # the limit before pages add to it
    most_text: int = limits.MOST_TEXT  # characters
    password: str | None = None  # the text is the unlocked file, its bytes as Latin-1
    page: int | None = None  # the text is a picture of this page, from 1, its bytes as Latin-1
    chunks: bool = False  # `data` is our parent's pickled function that makes them; the text is their JSON, one a line


class ParserReady(msgspec.Struct, frozen=True, tag=True):
    """The libraries are loaded."""

    means: tuple[str, ...] = ()  # mechanisms that confine the process


class ParserBegun(msgspec.Struct, frozen=True, tag=True):
    """The document's page counts: every page adds time to the limit, page images for OCR also memory."""

    pages: int
    scans: int = 0


class ParserPart(msgspec.Struct, frozen=True, tag=True):
    """The next part of what the document holds."""

    text: str = ""
    links: tuple[str, ...] = ()
    chunks: tuple[PreparedChunk, ...] = ()


class ParserRead(msgspec.Struct, frozen=True, tag=True):
    """The document has been read. Its text, links and chunks came in parts before."""

    extraction: Extraction


class ParserRefused(msgspec.Struct, frozen=True, tag=True):
    """The document is at fault."""

    sentence: str
    code: str


class ParserOutOfMemory(msgspec.Struct, frozen=True, tag=True):
    """The document needs more memory than a parser may have."""


class ParserFailed(msgspec.Struct, frozen=True, tag=True):
    """A reader has a bug."""

    traceback: str


Reply = ParserReady | ParserBegun | ParserPart | ParserRead | ParserRefused | ParserOutOfMemory | ParserFailed


def main(warm: Sequence[str] = _LIBRARIES) -> None:
    """Serve until stdin ends. The modules `warm`, which reading imports, are loaded before the first file."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides when to stop
    _end_with(int(sys.argv[1]))
    statm = open("/proc/self/statm", encoding="ascii") if sys.platform == "linux" else None  # noqa: PTH123, SIM115 - see `_limit_memory`
    means = sandbox.confine(sandbox.PARSER, read=sandbox.libraries()) if sys.argv[4] == "on" else ()
    # Frames use a descriptor of their own, so that a library's prints can't corrupt them.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    logging.disable()
    jobs: queue.SimpleQueue[ParserJob] = queue.SimpleQueue()
    # A thread reads stdin, so that the parent's end is noticed in the middle of a parse, on any system.
    threading.Thread(target=_receive, args=(sys.stdin.buffer, jobs), daemon=True).start()
    try:
        for module in warm:
            importlib.import_module(module)
        _limit_memory(statm, int(sys.argv[2]), int(sys.argv[3]))
    except Exception as error:  # noqa: BLE001 - the parent logs it
        _send(out, ParserFailed(_trace(error)))
        return
    _send(out, ParserReady(means))
    while True:
        job = jobs.get()
        limits.begin(job.cpu_s, partial(_announce, out))
        for reply in _replies(job):
            frame = msgspec.msgpack.encode(reply)
            if len(frame) > MOST_FRAME:
                sentence = (
                    f"{job.hints.name} has a chunk, or properties, of {len(frame):,} bytes; {MOST_FRAME:,} may be"
                )
                _send(out, ParserRefused(sentence, "too_large"))
                break
            _write(out, frame)
        out.flush()
        del job, reply, frame  # or the file would stay until the next one comes
        _trim()


def _announce(out: BinaryIO, pages: int, scans: int) -> None:
    if scans:
        _allow_all_memory()
    _send(out, ParserBegun(pages, scans))


def _replies(job: ParserJob) -> Iterator[Reply]:
    try:
        read = _read(job)
    except Rejected as error:
        yield ParserRefused(error.sentence[:_MOST_SENTENCE], error.code)
    except MemoryError:
        yield ParserOutOfMemory()
    except Exception as error:  # noqa: BLE001 - the parent raises it
        yield ParserFailed(_trace(error))
    else:
        for at in range(0, len(read.text), PART_TEXT):
            yield ParserPart(text=read.text[at : at + PART_TEXT])
        for at in range(0, len(read.links), _PART_LINKS):
            yield ParserPart(links=read.links[at : at + _PART_LINKS])
        for chunk in read.chunks:
            yield ParserPart(chunks=(chunk,))
        yield ParserRead(msgspec.structs.replace(read, text="", links=(), chunks=()))


def _read(job: ParserJob) -> Extraction:
    if job.chunks:
        if len(job.data) > _LARGE_CALL:
            limits.earn(scans=1)
        made = map(msgspec.json.encode, pickle.loads(job.data)())  # noqa: S301 - of our parent
        return Extraction(text=b"\n".join(made).decode(), document_type="chunks")
    if job.password is not None:
        opened = unlocked(job.data, job.password, job.hints)
        return Extraction(text=opened.decode("latin-1"), document_type="unlocked")
    if job.page is not None:
        return Extraction(text=page_picture(job.data, job.page, job.hints).decode("latin-1"), document_type="picture")
    return extract(job.data, job.hints, job.most_text)


def _trace(error: Exception) -> str:
    """Return where it came from, the newest call last, then the exception as short as a log may tell it."""
    last = traceback.extract_tb(error.__traceback__)[-_MOST_PLACES:]
    places = (f"  {each.filename}:{each.lineno} in {each.name}" for each in last)
    return "\n".join((*places, f"  {type(error).__qualname__}: {str(error)[:_MOST_MESSAGE]}"))


def _send(out: BinaryIO, reply: Reply) -> None:
    _write(out, msgspec.msgpack.encode(reply))
    out.flush()


def _write(out: BinaryIO, frame: bytes) -> None:
    out.write(len(frame).to_bytes(LENGTH_BYTES, "big"))
    out.write(frame)


def _receive(source: BinaryIO, jobs: "queue.SimpleQueue[ParserJob]") -> None:
    decoder = msgspec.msgpack.Decoder(ParserJob)
    while len(length := source.read(LENGTH_BYTES)) == LENGTH_BYTES:
        job = decoder.decode(source.read(int.from_bytes(length, "big")))
        size = int.from_bytes(source.read(LENGTH_BYTES), "big")
        jobs.put(msgspec.structs.replace(job, data=source.read(size)))
    os._exit(0)


def _trim() -> None:
    """Give free memory back, in 0.5 ms: a page of 4 MB left 75 MB to an idle process, now 11."""
    with suppress(AttributeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def _end_with(parent: int) -> None:
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before prctl was called
        os._exit(0)


def _limit_memory(statm: TextIO | None, memory: int, for_images: int) -> None:
    """Keep the address space from growing by more than twice `memory` bytes.

    An allocation can be faster than the parent's polling. Twice, because more is mapped than resident. `statm` was
    opened before the process was confined; None where the system has no such file.
    """
    if statm is None:
        return
    import resource  # not on every system

    with statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + 2 * memory, mapped + 2 * for_images))


def _allow_all_memory() -> None:
    if sys.platform != "linux":
        return
    import resource

    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


if __name__ == "__main__":
    main()
