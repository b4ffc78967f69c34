"""A parser process with one more format, `ROUGH`, whose files say what they do to their reader."""

import os
import signal
import time
from pathlib import Path

from services.ingest_worker import extract, parser_child
from services.ingest_worker.extract import Extraction, Format, Hints, limits, ocr

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
            ocr.begin(1)
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
        case "environment":
            return Extraction(text=" ".join(sorted(os.environ)), document_type="rough")
    return Extraction(text=str(os.getpid()), document_type="rough")


ROUGH = Format(
    text_format="plain",
    document_type="rough",
    media_types=frozenset(),
    suffixes=frozenset(),
    sniff=lambda data: data.startswith(MARK),
    read=read,
)

if __name__ == "__main__":
    extract.FORMATS = (ROUGH, *extract.FORMATS)
    parser_child.main(warm=(ROUGH,))  # the others' libraries take half a second
