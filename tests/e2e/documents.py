"""Documents that a load writes, as their only writer knows them."""

from dataclasses import dataclass, field
from typing import NamedTuple

from shared.ids import document_id

SOURCE = "load"
Content = tuple[str, ...]  # paragraphs; empty: deleted


class Version(NamedTuple):
    """What a document is to hold."""

    texts: Content = ()
    title: str = ""
    tags: tuple[str, ...] = ()
    shelf: int = 0  # of its own metadata


GONE = Version()


@dataclass
class Document:
    """One document's history as its only writer knows it."""

    tenant: str
    number: int
    tried: set[Version] = field(default_factory=lambda: {GONE})  # everything that was ever sent
    wanted: Version = GONE  # what was sent last, answered or not
    settled: Version | None = GONE  # what a 200 has confirmed; None while something else is under way
    came: bool = False  # whether the log ever took something of it
    taken: bool = True  # whether the log is known to have what was sent last
    epoch: int = 0  # counts sends: a reader's look is judged only when none began meanwhile

    @property
    def path(self) -> str:
        return f"{self.number}.md"

    @property
    def id(self) -> str:
        return document_id(self.tenant, SOURCE, self.path)

    def begin(self, version: Version) -> Version | None:
        """Note that it is about to be sent; return what was settled before."""
        before = self.settled
        self.tried.add(version)
        # In this order: who reads the new epoch must not find what was settled in the old one.
        self.settled, self.taken = None, False
        self.epoch += 1
        return before
