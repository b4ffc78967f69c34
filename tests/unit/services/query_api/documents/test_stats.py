"""Statistics ask the store little, because every open console repeats them."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast
from uuid import NAMESPACE_OID, uuid5

from services.query_api.documents.stats import BUCKET_S, Census
from shared.store import EVERYTHING, Filter
from tests.builders import an_entry
from tests.fakes.state import ledger_and_index
from tests.fakes.store import MemoryStore

if TYPE_CHECKING:
    from shared.log import Log

NOW_S = 1_700_000_010
NO_LOG = cast("Log", None)  # only the pipeline's numbers need it


class CountingStore(MemoryStore):
    reads = 0

    async def count(self, name: str, where: Filter = EVERYTHING) -> int:
        self.reads += 1
        return await super().count(name, where)

    async def facet(self, *args: Any, **options: Any) -> Mapping[str, int]:  # type: ignore[override]
        self.reads += 1
        return await super().facet(*args, **options)


async def test_a_second_look_asks_the_store_four_times() -> None:
    store = CountingStore()
    ledger, index = await ledger_and_index(store)
    census = Census(NO_LOG, ledger, index, None, now=lambda: NOW_S)

    first = await census.of("default", pipeline=False)
    before = store.reads
    second = await census.of("default", pipeline=False)

    assert store.reads - before <= 4
    assert second == first


async def test_documents_count_in_the_bucket_of_their_submission() -> None:
    ledger, index = await ledger_and_index(MemoryStore())
    census = Census(NO_LOG, ledger, index, None, now=lambda: NOW_S)
    for number, ago_s in enumerate((0, BUCKET_S, BUCKET_S, 100 * BUCKET_S)):
        entry = an_entry(str(uuid5(NAMESPACE_OID, str(number))), updated_at=(NOW_S - ago_s) * 1000)
        await ledger.update(entry.document_id, lambda _, entry=entry: entry)  # type: ignore[misc]

    stats = await census.of("default", pipeline=False)

    assert [bucket.documents for bucket in stats.recent][-3:] == [0, 2, 1]
    assert stats.documents["total"] == 4
