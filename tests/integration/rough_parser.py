"""A parser process with one more format, `ROUGH`, whose files say what they do to their reader, or their chunker."""

import os
import signal
import stat
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from services.ingest_worker import extract, parser_child
from services.ingest_worker.extract import Extraction, Format, Hints, limits
from shared.contracts import PreparedChunk
from tests.fakes.tokens import Words

MARK = b"ROUGH"


def read(data: bytes, hints: Hints) -> Extraction:
    _, command, argument, pages, *_ = data.decode().split(" ")
    limits.earn(pages=int(pages))
    match command:
        case "hang":
            Path(argument).touch()
            while True:
                signal.pause()
        case "hang-once":
            if not Path(argument).exists():
                Path(argument).touch()
                signal.pause()
        case "wait":  # as on a machine that is busy with others
            time.sleep(float(argument))
        case "spin":
            Path(argument).touch()
            while True:
                pass
        case "balloon":
            held = []
            while True:
                held.append(os.urandom(1 << 20))
        case "grab":
            return Extraction(text=str(len(bytearray(1 << 40))), document_type="rough")
        case "image":
            limits.earn(scans=1)
            drawn = os.urandom(200 << 20)
            time.sleep(1.5)
            return Extraction(text=str(len(drawn)), document_type="rough")
        case "crash":
            os.abort()
        case "crash-once":
            if not Path(argument).exists():
                Path(argument).touch()
                os.abort()
        case "bug":
            raise KeyError("a bug of ours")
        case "print":
            print("noise on the standard output", flush=True)
        case "flood":
            _flood(argument)
        case "large":
            number = int(argument)
            return Extraction(
                text="😀x" * number,
                document_type="rough",
                links=tuple(f"https://example.org/{at}" for at in range(number // 10)),
                chunks=tuple(PreparedChunk(text=str(at), embedding="é" * 900) for at in range(number // 200)),
                pages=tuple(range(number // 50)),
            )
        case "environment":
            return Extraction(text=" ".join(sorted(os.environ)), document_type="rough")
    return Extraction(text=str(os.getpid()), document_type="rough")


def _flood(shape: str) -> None:
    """Send what a process that was taken over might, by the descriptor of the replies, for ever."""
    out = next(each for each in range(3, 64) if _is_pipe(each))
    chunk = PreparedChunk(text="x")
    frames = {
        "bytes": lambda: (300 << 20).to_bytes(4, "big") + bytes(1 << 20),
        "rubbish": lambda: _frame(b"\xc1" * 1000),
        "text": lambda: _frame(parser_child.ParserPart(text="x" * 60_000)),
        "links": lambda: _frame(parser_child.ParserPart(links=("x",) * 1000)),
        "long-links": lambda: _frame(parser_child.ParserPart(links=("x" * 250_000,))),
        "chunks": lambda: _frame(parser_child.ParserPart(chunks=(chunk,) * 1000)),
        "long-chunks": lambda: _frame(parser_child.ParserPart(chunks=(PreparedChunk(text="x" * 250_000),))),
        "pages": lambda: _frame(parser_child.ParserRead(Extraction(text="", document_type="x", pages=(0,) * 120_000))),
        "nothing": lambda: _frame(parser_child.ParserPart()),
        "time": lambda: _frame(parser_child.ParserBegun(pages=1)),
    }
    frame = frames[shape]()
    while True:
        os.write(out, frame)


def _is_pipe(descriptor: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(descriptor).st_mode)
    except OSError:
        return False


def _frame(reply: object) -> bytes:
    encoded = reply if isinstance(reply, bytes) else msgspec.msgpack.encode(reply)
    return len(encoded).to_bytes(parser_child.LENGTH_BYTES, "big") + encoded


ROUGH = Format(
    text_format="plain",
    document_type="rough",
    media_types=frozenset(),
    suffixes=frozenset(),
    sniff=lambda data: data.startswith(MARK),
    read=read,
)


class RoughWords(Words):
    """A token counter that does to its process what a text says."""

    def count(self, texts: Sequence[str]) -> list[int]:
        for text in texts:
            if text.encode().startswith(MARK):
                read(text.encode(), Hints())
        return super().count(texts)


if __name__ == "__main__":
    extract.FORMATS = (ROUGH, *extract.FORMATS)
    parser_child.main(warm=())  # the others' libraries take half a second
