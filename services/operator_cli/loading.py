"""Loads many files at once, a few at a time, and tells how each one ended."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from services.operator_cli.client import Away, Refused
from services.operator_cli.files import Found

AT_ONCE: Final = 8  # the server embeds on all cores anyway; more would only wait there


class Upload(Protocol):
    """Sends one file and returns how it ended; `Client.upload`."""

    def __call__(self, file: Path, *, source: str, path: str, tags: Sequence[str]) -> dict[str, Any]:
        """Raise Refused for this file, Away for all of them."""
        ...


class Outcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """How one file ended: created, updated, unchanged, accepted (still in work), or failed."""

    path: str
    status: str
    document_id: str | None = None
    chunk_count: int | None = None
    error: str | None = None


def load(
    files: Sequence[Found], upload: Upload, *, source: str, tags: Sequence[str] = (), done: Callable[[Outcome], None]
) -> list[Outcome]:
    """Return every file's outcome, in the order given; `done` hears of each as it ends, on the caller's thread.

    Raises:
        Away: the server went away; what was not sent yet isn't.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        running = [pool.submit(_one, each, upload, source, tags) for each in files]
        try:
            for future in as_completed(running):
                done(future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        return [future.result() for future in running]


def _one(found: Found, upload: Upload, source: str, tags: Sequence[str]) -> Outcome:
    try:
        reply = upload(found.file, source=source, path=found.name, tags=tags)
    except Away:
        raise
    except UnicodeEncodeError:
        # printable, but not the name: that one can't be said in UTF-8
        shown = found.name.encode(errors="replace").decode()
        return Outcome(path=shown, status="failed", error="its name is not UTF-8")
    except (Refused, OSError) as error:
        return Outcome(path=found.name, status="failed", error=str(error))
    return Outcome(
        path=found.name,
        status=reply["status"],
        document_id=reply.get("documentId"),
        chunk_count=reply.get("chunkCount"),
    )
