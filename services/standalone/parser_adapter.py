"""Gives the API a file reader made of the ingest worker's parsers, since services don't import each other."""

from contextlib import AsyncExitStack
from functools import cache
from typing import TYPE_CHECKING, Final

from services.query_api.ingest.upload import FileText
from shared.runtime.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Callable

    from services.ingest_worker.parsers import ParserPool


# The client waits for the reply, and its request holds memory. Images take seconds of CPU time each, and they queue.
_WAIT_S: Final = 60.0


class FileReader:
    """Reads files with parsers; a file waits for one for at most `wait_s` seconds."""

    def __init__(self, parsers: "Callable[[], ParserPool]", wait_s: float = _WAIT_S) -> None:
        self._parsers = parsers
        self._wait_s = wait_s

    async def __call__(self, body: bytes, *, tenant: str, name: str | None, media_type: str | None) -> FileText:
        """Return the text. Raises as `ReadFile`."""
        from services.ingest_worker.extract import Hints  # noqa: PLC0415 - as in `api_reader`

        hints = Hints(filename=name, media_type=media_type)
        extraction = await self._parsers().extract(body, hints, tenant=tenant, wait_s=self._wait_s)
        known = {
            "source": name,
            "title": extraction.title,
            "documentType": extraction.document_type,
            "language": extraction.language,
            "pages": len(extraction.pages) or None,
            "notes": "; ".join(each.message for each in extraction.notes) or None,
        }
        return FileText(
            text=extraction.text, metadata={key: value for key, value in known.items() if value is not None}
        )

    async def pdf_copy(
        self, body: bytes, *, tenant: str, name: str | None, password: str | None = None, page: int | None = None
    ) -> bytes:
        """Return the file without its lock, or its page as PNG. Raises as `ReadFile`."""
        return await self._parsers().pdf_copy(
            body, tenant=tenant, filename=name, password=password, page=page, wait_s=self._wait_s
        )


def api_reader(base: Resources, stack: AsyncExitStack) -> FileReader:
    """Return the file reader of an API that runs as its own process; its parsers start with the first file."""

    @cache
    def parsers() -> "ParserPool":
        from services.ingest_worker.parsers import parser_pool  # noqa: PLC0415 - most APIs never read a file

        made = parser_pool(base.settings)
        stack.push_async_callback(made.close)
        return made

    return FileReader(parsers)
