"""Decides which documents a list shows, and in what order. Pure."""

import heapq
import operator
from collections.abc import Callable, Iterable
from typing import Final, Literal, get_args

import msgspec

from shared.state.ledger import Entry
from shared.store import Filter, Match

State = Literal["accepted", "ready", "failed", "deleted"]  # `ready`: a version is searchable
STATES: Final[tuple[str, ...]] = get_args(State)
Sort = Literal["-updatedAt", "updatedAt", "-createdAt", "createdAt", "path", "-path", "title", "-title"]
SORTS: Final[tuple[str, ...]] = get_args(Sort)
LONGEST_SEARCH: Final = 200  # characters of `q`
DELETED: Final = (Match("last.status", ("deleted",)),)

_KEYS: Final[dict[str, Callable[[Entry], int | str]]] = {
    "updatedAt": lambda entry: entry.updated_at,
    "createdAt": lambda entry: entry.created_at,
    "path": lambda entry: entry.path,
    "title": lambda entry: (entry.title or entry.path).casefold(),
}


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """A requested list. The store evaluates `where`; the other conditions are evaluated here, because it can't."""

    where: Filter
    path_prefix: str = ""
    words: tuple[str, ...] = ()  # casefolded; each must occur in the title, the path or the description
    state: str | None = None
    sort: str = "-updatedAt"

    @property
    def looks(self) -> bool:
        """Return whether entries have to be checked one by one."""
        return bool(self.path_prefix or self.words or self.state)

    def key(self, entry: Entry) -> int | str:
        """Return what the entry is ordered by."""
        return _KEYS[self.sort.removeprefix("-")](entry)

    def fits(self, entry: Entry) -> bool:
        """Return whether the entry matches the words; its `state` is checked with the index."""
        if not entry.path.startswith(self.path_prefix):
            return False
        if not self.words:
            return True
        description = entry.accepted.given.description if entry.accepted.given is not None else None
        text = f"{entry.title or ''}\n{entry.path}\n{description or ''}".casefold()
        return all(word in text for word in self.words)


class ListCursor(msgspec.Struct, frozen=True, array_like=True):
    """Where a list continues: at this key of its order."""

    sort: str
    key: int | str
    seen: tuple[str, ...]  # documents of equal key that were shown; of a list that isn't ordered by update, the last


def of_tenant(tenant: str) -> Filter:
    """Return the filter of the tenant's documents, without deleted ones."""
    return Filter(must=(Match("tenant", (tenant,)),), must_not=DELETED)


def first(entries: Iterable[Entry], listing: Listing, limit: int, cursor: ListCursor | None) -> list[Entry]:
    """Return the first `limit` entries after the cursor, in the list's order; ties are ordered by id."""
    take, behind = (heapq.nlargest, operator.lt) if listing.sort.startswith("-") else (heapq.nsmallest, operator.gt)
    keyed = ((listing.key(entry), entry.document_id, entry) for entry in entries)
    left = (each for each in keyed if cursor is None or behind(each[:2], (cursor.key, cursor.seen[-1])))
    return [each[2] for each in take(limit, left, key=lambda each: each[:2])]
