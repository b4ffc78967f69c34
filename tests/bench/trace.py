"""Counts the functions and files of the product that one document and one search pass through.

Run: python -m tests.bench.trace (--names lists the functions)

The parts of `sluice serve` run in this process with all its threads; the children of store and parsers are not traced.
A document counts from its request until its reply says that it can be searched, a search from its request to its
reply. Of several, the one that passed through the fewest counts: work in the background takes part in the others, and
the first ones do what is only done once.
"""

import argparse
import asyncio
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final, cast

import httpx

from services.query_api.serving_api import ServingApi
from services.standalone.serve import start
from shared.settings import Settings

ROOT: Final = Path(__file__).parents[2]
PRODUCT: Final = tuple(f"{ROOT / room}/" for room in ("services", "shared"))
TEXT: Final = "Sluice is a lock of a canal.\n\nThe gate opens at seven in the morning, and the keeper has its key.\n"
REPEATS: Final = 8
PAUSE_S: Final = 1.0  # the work that follows a document, such as a commit of offsets, is over


class Trace:
    """Notes the functions that run; comprehensions and lambdas belong to the function around them."""

    def __init__(self) -> None:
        """Watch this thread, and the threads that start from now on."""
        self._codes: set[CodeType] | None = None
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    @contextmanager
    def noted(self) -> Iterator[list[str]]:
        """Give a list that has, at the end, the functions that ran in between, as `file:name`."""
        functions: list[str] = []
        codes: set[CodeType] = set()
        self._codes = codes
        try:
            yield functions
        finally:
            self._codes = None
            functions += sorted(
                f"{Path(code.co_filename).relative_to(ROOT)}:{code.co_qualname}"
                for code in codes
                if code.co_filename.startswith(PRODUCT) and not code.co_name.startswith("<")
            )

    def _note(self, frame: FrameType, event: str, _arg: object) -> None:
        if event == "call" and self._codes is not None:
            self._codes.add(frame.f_code)


async def traced(data: Path) -> dict[str, list[str]]:
    """Return what a document and a search passed through."""
    trace = Trace()
    async with AsyncExitStack() as stack:
        parts = await start(Settings(data=data, samples="off", chat="extractive:"), stack)
        transport = httpx.ASGITransport(
            cast("Any", ServingApi(parts).app)
        )  # Litestar's types are narrower than httpx's
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            documents, searches = list[list[str]](), list[list[str]]()
            for number in range(REPEATS):
                with trace.noted() as functions:
                    await _added(client, number)
                documents.append(functions)
                await asyncio.sleep(PAUSE_S)
                with trace.noted() as functions:
                    await _searched(client, number)
                searches.append(functions)
    return {"a document until searchable": min(documents, key=len), "a search": min(searches, key=len)}


async def _added(client: httpx.AsyncClient, number: int) -> None:
    body = {"source": "trace", "path": f"{number}.md", "text": f"{TEXT}\nNumber {number}.\n"}
    reply = await client.post("/rag/ingest", json=body)
    assert reply.status_code == 200, reply.text


async def _searched(client: httpx.AsyncClient, number: int) -> None:
    reply = await client.post("/rag/search", json={"query": f"When is gate {number} open in the morning?"})
    assert reply.json()["results"], reply.text


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.trace", description=__doc__)
    parser.add_argument("--names", action="store_true", help="list the functions")
    names = parser.parse_args().names
    with tempfile.TemporaryDirectory() as folder:
        found = asyncio.run(traced(Path(folder)))
    for what, functions in found.items():
        if names:
            print(*functions, sep="\n")
        files = {each.partition(":")[0] for each in functions}
        print(f"{what}: {len(functions)} functions in {len(files)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
