"""The ledger against a dictionary, on every store that needs no server: two writers at once, and answers that get lost.

Two writers tag a document: each one's tag must be there, and written once, whoever was first, however often they met.
"""

import asyncio
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from uuid import UUID

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule
from qdrant_client import AsyncQdrantClient

from shared.contracts import LogPosition, Status
from shared.errors import Unavailable
from shared.state.ledger import End, Entry, Ledger, Transition, finished
from shared.store import Filter, Ids, Match, Point, Store
from shared.store.edge import EdgeStore
from shared.store.qdrant.address import QdrantAddress
from shared.store.qdrant.store import QdrantStore
from tests.builders import an_entry
from tests.e2e.faults import rounds
from tests.fakes.store import MemoryStore
from tests.property.machines import AsyncMachine, play
from tests.selection import CI_ONLY

IDS = [str(UUID(int=number)) for number in range(1, 4)]
PLACE = LogPosition(partition=0, offset=0, time=0)
STATUSES: tuple[Status, ...] = ("accepted", "created", "failed")
ids = st.sampled_from(IDS)
tags = st.sampled_from("abcdefgh")


class Between:
    """A store whose callers take turns where a test says, and whose next write may not be answered."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.turns: Iterable[int] = ()  # for each call, how often others go first
        self.breaks: str | None = None  # the next write: "before", "after" it is done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def put_if(self, name: str, points: Sequence[Point], *arguments: Any, **named: Any) -> list[Point]:
        await self._write(self._store.put_if, name, points, *arguments)
        return await self._store.retrieve(name, [point.id for point in points], **named)  # as a server is asked

    async def _write(self, write: Callable[..., Any], *arguments: Any, **named: Any) -> None:
        await self._others()
        breaks, self.breaks = self.breaks, None
        if breaks == "before":
            raise Unavailable("refused")
        await write(*arguments, **named)
        if breaks == "after":
            raise Unavailable("the answer was lost")
        await self._others()

    async def _others(self) -> None:
        for _ in range(next(iter(self.turns), 0)):
            await asyncio.sleep(0)


def _tagged(document: str, tag: str) -> Transition:
    """Return what gives the document a new version with one more tag, unless it has it."""

    def transition(entry: Entry | None) -> Entry | None:
        if entry is None:
            return an_entry(document, accepted=1, place=PLACE, tags=(tag,))
        if tag in entry.tags:
            return None
        version = entry.accepted.version + 1
        return msgspec.structs.replace(
            entry,
            accepted=msgspec.structs.replace(entry.accepted, version=version),
            last=msgspec.structs.replace(entry.last, version=version, status="accepted"),
            tags=(*entry.tags, tag),
        )

    return transition


def _bare(entry: Entry | None) -> Entry | None:
    """Return the entry without its writer's name, which is any."""
    return None if entry is None else msgspec.structs.replace(entry, writer="")


class LedgerMachine(AsyncMachine):
    """Two processes' ledgers on one store; `expected` are their entries, but for the writers' names."""

    make: Callable[[Path], Store]

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory(prefix="sluice-ledger-")
        self.expected: dict[str, Entry] = {}

    @initialize()
    def begin(self) -> None:
        self.store = type(self).make(Path(self.folder.name))
        self.between = Between(self.store)
        self.ledgers = [Ledger(self.between), Ledger(self.between)]
        self.wait(self.store.start())
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Payload indexes have no effect in the local Qdrant")
            self.wait(self.ledgers[0].create())

    def teardown(self) -> None:
        self.wait(self.store.close())
        super().teardown()
        self.folder.cleanup()

    async def _both(self, document: str, tags: list[str]) -> list[Entry | None]:
        updates = [
            ledger.update(document, _tagged(document, tag)) for ledger, tag in zip(self.ledgers, tags, strict=False)
        ]
        return list(await asyncio.gather(*updates))

    def _expect(self, document: str, wanted: Entry | None) -> None:
        if wanted is not None:
            before = self.expected.get(document)
            self.expected[document] = msgspec.structs.replace(wanted, rev=before.rev + 1 if before else 1, writer="")

    @rule(document=ids, tags=st.lists(tags, min_size=1, max_size=2), turns=st.lists(st.integers(0, 3), max_size=8))
    def tag(self, document: str, tags: list[str], turns: list[int]) -> None:
        self.between.turns = iter(turns)
        answers = self.wait(self._both(document, tags))
        self.between.turns = ()

        standing = _bare(self.wait(self.ledgers[0].get(document)))
        assert standing is not None
        known = self.expected.get(document)
        added = standing.tags[len(known.tags) if known else 0 :]  # in the order in which they came
        for one in added:
            self._expect(document, _tagged(document, one)(self.expected.get(document)))
        assert standing == self.expected[document]
        assert set(added) == set(tags) - set(known.tags if known else ())
        for entry, asked in zip(answers, tags, strict=True):
            assert entry is not None
            assert asked in entry.tags

    @rule(document=ids, behind=st.integers(0, 1), status=st.sampled_from(STATUSES))
    def end(self, document: str, behind: int, status: Status) -> None:
        """Write a version's end, which only the newest one's may do."""
        entry = self.expected.get(document)
        version = 1 if entry is None else entry.last.version - behind

        def transition(entry: Entry | None) -> Entry | None:
            return finished(entry, version, End(status, version))

        found = self.wait(self.ledgers[1].update(document, transition))

        self._expect(document, transition(entry))
        assert _bare(found) == self.expected.get(document)

    @rule(document=ids, tag=tags, breaks=st.sampled_from(("before", "after")))
    def lose(self, document: str, tag: str, breaks: str) -> None:
        """Lose the store at a write: it is done or not, whole in both cases."""
        wanted = _tagged(document, tag)(self.expected.get(document))
        if wanted is None:
            return
        self.between.breaks = breaks
        with pytest.raises(Unavailable):
            self.wait(self.ledgers[0].update(document, _tagged(document, tag)))
        if breaks == "after":
            self._expect(document, wanted)

    @rule(tag=tags)
    def look(self, tag: str) -> None:
        where = Filter(must=(Match("tags", (tag,)),))
        expected = {name for name, entry in self.expected.items() if tag in entry.tags}
        page, after = self.wait(self.ledgers[0].scan(where, after=None, limit=len(IDS)))

        assert ({entry.document_id for entry in page}, after) == (expected, None)
        assert self.wait(self.ledgers[1].count(where)) == len(expected)

    @invariant()
    def every_entry_is_as_expected(self) -> None:
        if not hasattr(self, "ledgers"):
            return
        found, _ = self.wait(self.ledgers[1].scan(Filter(must=(Ids(tuple(IDS)),)), after=None, limit=len(IDS)))
        assert {entry.document_id: _bare(entry) for entry in found} == self.expected


def _local(_: Path) -> Store:
    return QdrantStore(QdrantAddress(url="local"), prefix="t.", client=AsyncQdrantClient(":memory:"))


STORES: dict[str, Callable[[Path], Store]] = {"edge": EdgeStore, "memory": lambda _: MemoryStore(), "local": _local}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "ci", "here"), [pytest.param("edge", 4, 1, marks=CI_ONLY), ("memory", 60, 8), ("local", 15, 3)]
)
def test_the_ledger_does_what_a_dictionary_would(name: str, ci: int, here: int) -> None:
    machine = type(f"Ledger on {name}", (LedgerMachine,), {"make": staticmethod(STORES[name])})
    play(machine, histories=rounds(ci, here), steps=25)
