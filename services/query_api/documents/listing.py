"""Which documents a list shows, and in what order. Pure."""

import heapq
from collections.abc import Callable, Iterable
from typing import Final, Literal, get_args

import msgspec

from shared.state.ledger import Entry
from shared.store import Filter

State = Literal["accepted", "ready", "failed", "deleted"]  # what answers for a document
STATES: Final[tuple[str, ...]] = get_args(State)
Sort = Literal["-updatedAt", "updatedAt", "-createdAt", "createdAt", "path", "-path", "title", "-title"]
SORTS: Final[tuple[str, ...]] = get_args(Sort)
LONGEST_SEARCH: Final = 200  # characters of `q`

_KEYS: Final[dict[str, Callable[[Entry], int | str]]] = {
    "createdAt": lambda entry: entry.created_at,
    "path": lambda entry: entry.path,
    "title": lambda entry: (entry.title or entry.path).casefold(),
}


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for. `where` is for the store; the rest is looked at here, because no index holds it."""

    where: Filter
    path_prefix: str = ""
    words: tuple[str, ...] = ()  # casefolded; each must stand in the title, the path or the description
    state: str | None = None
    sort: str = "-updatedAt"

    @property
    def by_update(self) -> bool:
        """Return whether the store's own order serves."""
        return self.sort in ("-updatedAt", "updatedAt")

    @property
    def looks(self) -> bool:
        """Return whether entries have to be looked at one by one."""
        return bool(self.path_prefix or self.words or self.state)

    def fits(self, entry: Entry) -> bool:
        """Return whether the entry's names fit; its `state` is the index's to say."""
        if not entry.path.startswith(self.path_prefix):
            return False
        if not self.words:
            return True
        description = entry.accepted.given.description if entry.accepted.given is not None else None
        text = f"{entry.title or ''}\n{entry.path}\n{description or ''}".casefold()
        return all(word in text for word in self.words)


class SortCursor(msgspec.Struct, frozen=True, array_like=True):
    """Where a list in another order than by update goes on: behind this key, and this document of the same key."""

    sort: str
    key: int | str
    document_id: str


def words_of(text: str) -> tuple[str, ...]:
    """Return what every result of a search for `text` must hold."""
    return tuple(text.casefold().split())


def first(entries: Iterable[Entry], listing: Listing, limit: int, cursor: SortCursor | None) -> list[Entry]:
    """Return the `limit` first of the entries in the listing's order, behind the cursor; ties go by id."""
    key = _KEYS[listing.sort.removeprefix("-")]
    behind = ((key(entry), entry.document_id, entry) for entry in entries)
    if listing.sort.startswith("-"):
        left = (each for each in behind if cursor is None or each[:2] < (cursor.key, cursor.document_id))
        return [each[2] for each in heapq.nlargest(limit, left, key=lambda each: each[:2])]
    left = (each for each in behind if cursor is None or each[:2] > (cursor.key, cursor.document_id))
    return [each[2] for each in heapq.nsmallest(limit, left, key=lambda each: each[:2])]


def after(listing: Listing, entry: Entry) -> SortCursor:
    """Return the cursor of what follows the entry."""
    return SortCursor(listing.sort, _KEYS[listing.sort.removeprefix("-")](entry), entry.document_id)
