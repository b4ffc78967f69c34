"""`sluice COMMAND` whose reader and chunker some texts kill: python -m tests.faults.deadly_texts COMMAND [ARGUMENT…].

With a number as its argument it is one of its own parsers.
"""

import os
import signal
import sys
from typing import Any, Final

from services.ingest_worker import extract, parser_child
from services.ingest_worker.chunk import chunker
from services.ingest_worker.extract import Extraction, Format, Hints
from services.ingest_worker.parsers import ParserPool
from services.operator_cli.main import main
from tests.faults.hasty_store import set_default

TO_READERS: Final = "This text kills whoever reads it."
TO_CHUNKERS: Final = "This text kills whoever chunks it."


def read(data: bytes, _: Hints) -> Extraction:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError(data)


DEADLY = Format(
    text_format="plain",
    document_type="deadly",
    media_types=frozenset(),
    suffixes=frozenset(),
    sniff=lambda data: data.startswith(TO_READERS.encode()),
    read=read,
    light=True,  # the worker reads it itself
)


def arm() -> None:
    """Have this process, and its parsers, die of these texts."""
    make = vars(chunker)["chunks"]

    def chunks(text: str, **options: Any) -> Any:
        if text.startswith(TO_CHUNKERS):
            os.kill(os.getpid(), signal.SIGKILL)
        return make(text, **options)

    vars(extract)["FORMATS"] = (DEADLY, *extract.FORMATS)
    vars(chunker)["chunks"] = chunks
    set_default(ParserPool.__init__, "program", __spec__.name)


if __name__ == "__main__":
    arm()
    if sys.argv[1].isdigit():
        parser_child.main()
    else:
        main()
