"""What the workers of a generation write while it serves, while it doesn't, and while it takes over."""

import asyncio
from functools import partial
from typing import Any

import msgspec

from shared.contracts import DocumentVersion, LogPosition, truth_key
from shared.state.generation_statuses import GenerationStatuses, truth_guarded
from shared.state.generation_watch import GenerationWatch
from shared.state.generations import begun, change, first_registry, serving, switch_begun, switch_ended, switched
from shared.state.index import Head, Index
from shared.state.ledger import MOST_FAILED, Entry, Ledger, noted
from shared.topics import EXTRACTED
from tests.builders import a_version, an_entry
from tests.fakes.state import GENERATION, ledger_and_index
from tests.fakes.store import MemoryStore


class Two:
    """A generation that serves, another one beside it, and a version that the ledger awaits."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.published: list[tuple[str, bytes]] = []
        self.document = a_version(document_id="11ca04b3-12ec-5b35-8f4b-4ab297c91387")

    async def begin(self) -> "Two":
        self.ledger, self.first = await ledger_and_index(self.store)
        await serving(self.store, first_registry(GENERATION))
        begin = partial(begun, generation=GENERATION, embedder="m", ends={}, now=0)
        registry = await change(self.store, begin)
        self.second = Index(self.store, registry.generations[-1].generation)
        await self.second.create()
        await awaited(self.ledger, self.document)
        return self

    async def publish(self, topic: str, value: bytes | None, *, key: bytes, **_: Any) -> Any:
        self.published.append((topic, key))

    def statuses(self, index: Index) -> GenerationStatuses:
        return self.watched(index)[0]

    def watched(self, index: Index) -> tuple[GenerationStatuses, GenerationWatch]:
        watch, id_ = GenerationWatch(self.store, "test"), index.generation.id
        return GenerationStatuses(self.ledger, self.publish, store=self.store, watch=watch, generation=id_), watch

    async def answers(self, index: Index, count: int) -> None:
        document = self.document
        head = Head(document_id=document.document_id, version=document.version, tenant="t", source="s", path="p")
        await index.switch(msgspec.structs.replace(head, chunk_count=count))

    async def told(self) -> tuple[str, int | None]:
        entry = await self.ledger.get(self.document.document_id)
        assert entry is not None
        return entry.last.status, entry.last.chunk_count


async def awaited(ledger: Ledger, document: DocumentVersion) -> None:
    entry = an_entry(document.document_id, accepted=document.version)
    await ledger.update(document.document_id, lambda _: entry)


async def test_a_shadow_ends_only_what_answers_in_the_serving_generation_and_fails_nothing() -> None:
    two = await Two().begin()
    shadow = two.statuses(two.second)

    await two.answers(two.second, 7)
    await shadow.applied(two.document, 7)
    await shadow.failed(two.document, None, error="no", code="c")
    before = await two.told()
    await two.answers(two.first, 3)
    await shadow.applied(two.document, 7)

    assert before == ("accepted", None)
    assert await two.told() == (two.document.outcome, 3)


async def test_during_a_switch_a_version_ends_when_both_generations_have_it() -> None:
    two = await Two().begin()
    await change(two.store, partial(switch_begun, target=two.second.generation.id))
    await two.answers(two.first, 3)

    ending = asyncio.create_task(two.statuses(two.first).applied(two.document, 3))
    await asyncio.wait([ending], timeout=0.2)
    before = await two.told()
    await two.answers(two.second, 7)
    await ending

    assert before == ("accepted", None)
    assert await two.told() == (two.document.outcome, 3)


async def test_the_one_that_served_before_ends_what_answers_in_the_one_that_took_over() -> None:
    two = await Two().begin()
    await two.answers(two.second, 7)
    await two.statuses(two.second).applied(two.document, 7)  # it doesn't answer in the first yet
    await change(two.store, partial(switch_begun, target=two.second.generation.id))
    await change(two.store, switched)
    await two.answers(two.first, 3)

    await two.statuses(two.first).applied(two.document, 3)

    assert await two.told() == (two.document.outcome, 7)


async def test_the_one_that_serves_again_ends_what_it_has_had_since_before() -> None:
    two = await Two().begin()
    await two.answers(two.second, 7)
    again = two.statuses(two.second)
    await again.applied(two.document, 7)  # it doesn't serve, and the stages of the first are stuck
    before = await two.told()
    await change(two.store, partial(switch_begun, target=two.second.generation.id))
    await change(two.store, switched)

    assert (await again.settle(two.second), await again.settle(two.second)) == (1, 0)

    assert (before, await two.told()) == (("accepted", None), (two.document.outcome, 7))


async def test_the_one_that_serves_again_ends_what_it_failed_at_and_nothing_that_it_has_yet_to_read() -> None:
    two = await Two().begin()
    again, head = two.statuses(two.second), Head(document_id=two.document.document_id, version=1, tenant="t")
    unread = await again.settle(two.second)
    await two.second.withdraw(msgspec.structs.replace(head, version=two.document.version))

    assert (unread, await again.settle(two.second)) == (0, 1)

    assert (await two.told())[0] == "failed"


async def test_the_one_that_serves_again_ends_what_answers_below_what_it_failed_at() -> None:
    two = await Two().begin()
    name, version = two.document.document_id, two.document.version
    await two.answers(two.second, 7)
    head = Head(document_id=name, version=version + 1, tenant="t")
    await two.second.withdraw(head)

    def newer(entry: Entry | None) -> Entry:
        assert entry is not None
        last = msgspec.structs.replace(
            entry.last, version=version + 1, place=LogPosition(partition=0, offset=2, time=2)
        )
        accepted = msgspec.structs.replace(entry.accepted, version=version + 1, place=last.place)
        return noted(msgspec.structs.replace(entry, accepted=accepted), last)

    await two.ledger.update(name, newer)
    ended = await two.statuses(two.second).settle(two.second)

    entry = await two.ledger.get(name)
    assert entry is not None
    assert (ended, [each.status for each in (entry.last, *entry.earlier)]) == (2, ["failed", "created"])


async def test_a_switch_there_and_back_between_two_looks_is_settled() -> None:
    two = await Two().begin()
    there, back = two.second.generation.id, two.first.generation.id
    again, watch = two.watched(two.first)
    await watch.look()
    before = await again.settle_anew(two.first)
    await two.answers(two.first, 3)
    same = await again.settle_anew(two.first)  # the stages end what comes while it serves
    for target in (there, back):
        await change(two.store, partial(switch_begun, target=target))
        await change(two.store, switched)
        await change(two.store, switch_ended)
    await watch.look()

    assert (before, same) == (0, 0)
    assert (await again.settle_anew(two.first), await again.settle_anew(two.first)) == (1, 0)


async def test_only_the_serving_generation_deletes_from_the_truth() -> None:
    two = await Two().begin()
    key = truth_key(two.document.document_id, 1)

    for index in (two.first, two.second):
        guarded = truth_guarded(two.publish, GenerationWatch(two.store, "test"), index.generation.id)
        await guarded(EXTRACTED, None, key=key)

    assert two.published == [(EXTRACTED, key)]


async def test_only_the_serving_generation_strikes_a_surplus_of_failed_versions() -> None:
    two = await Two().begin()
    failed, name = tuple(range(1, 2 + MOST_FAILED)), two.document.document_id
    surplus = an_entry(name, accepted=99, published=(*failed, 99), failed=failed)
    await two.ledger.update(name, lambda seen: msgspec.structs.replace(surplus, rev=seen.rev if seen else 0))

    for index in (two.second, two.first):
        await two.statuses(index).forget_surplus(two.document, index)

    assert [key for topic, key in two.published if topic == EXTRACTED] == [truth_key(name, 1)]
    assert (await two.second.fences([name])) == {}
