"""The ledger and the index on a store in memory."""

from shared.state.index import Generation, Index
from shared.state.ledger import Ledger
from tests.fakes.embedder import MemoryEmbedder
from tests.fakes.store import MemoryStore

GENERATION = Generation(chunker="1", chunk_size=100, chunk_overlap=0, model=MemoryEmbedder.model, bm25="1")


async def ledger_and_index(store: MemoryStore) -> tuple[Ledger, Index]:
    """Return both on a new store."""
    ledger, index = Ledger(store), Index(store, GENERATION)
    await ledger.create()
    await index.create()
    return ledger, index
