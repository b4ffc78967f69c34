"""The model and the blob store of a simulated world: exact, quick, and with documents that nothing can take."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from shared.contracts import BlobRef
from shared.embedder import Model, TokenCounter, Vector
from shared.embedder.refusals import TRIES
from shared.embedder.served import Served
from shared.embedder.vectors import unit
from shared.errors import Rejected
from shared.model_server.http import BadAnswer
from shared.state.index import Generation, Index
from shared.state.ledger import Ledger
from tests.simulation.store import MemoryStore

UNEMBEDDABLE = "(no model takes this)"  # the model refuses a text with it
REFUSED = "(the server says NaN to this)"  # the model's server refuses any call with it
UNKEPT = "(no folder keeps this)"  # a blob with it can't be read again
DIMENSION = 4


def vector_of(text: str) -> Vector:
    """Return the text's vector, and no other text's."""
    return unit(_embedding(text))


def _embedding(text: str) -> list[float]:
    digest = hashlib.sha256(text.encode()).digest()
    return [1.0 + number for number in np.frombuffer(digest[: 2 * DIMENSION], np.uint16).tolist()]


class Characters:
    """Four characters a token."""

    max_tokens = 512

    def count(self, texts: Sequence[str]) -> list[int]:
        return [len(text) // 4 for text in texts]


class MemoryEmbedder:
    """A model without weights."""

    model = Model(name="simulated", digest="0", dimension=DIMENSION, max_tokens=Characters.max_tokens)

    @property
    def tokens(self) -> TokenCounter:
        return Characters()

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def ping(self) -> None: ...

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        return [vector_of(text) for text in texts]

    async def embed_query(self, text: str) -> Vector:
        return vector_of(text)

    async def similarities(self, question: str, texts: Sequence[str]) -> Sequence[float]:
        return [float(vector_of(question) @ vector_of(text)) for text in texts]


class MemoryModel:
    """A model's server without weights."""

    server, name = "the simulated server", "simulated"

    def __init__(self) -> None:
        self.mended = False
        self._stumbles: Counter[str] = Counter()

    async def describe(self) -> Served:
        return Served(identity=("0",), dimension=DIMENSION, longest=Characters.max_tokens)

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        if not self.mended and any(REFUSED in text for text in texts):
            raise BadAnswer(f"{self.server} answered 500: unsupported value: NaN", 500)
        return [_embedding(text) for text in texts]

    def may_stumble(self, texts: Sequence[str]) -> bool:
        """Return whether a passing fault may look like a refusal: of one text alone, not as often as it is tried."""
        if len(texts) > 1:
            return True
        self._stumbles[texts[0]] += 1
        return self._stumbles[texts[0]] < TRIES

    async def ping(self) -> None: ...

    async def close(self) -> None: ...


class MemoryBlobs:
    """Blobs by tenant, document and content."""

    def __init__(self) -> None:
        self.mended = False
        self.ever: dict[str, bytes] = {}  # all that was ever put, by its name
        self._blobs: dict[tuple[str, str, str], bytes] = {}
        self._ages: dict[tuple[str, str, str], float] = {}  # by the loop's clock, when each was put last

    async def put(self, tenant: str, document_id: str, data: bytes) -> BlobRef:
        name = hashlib.sha256(data).hexdigest()
        self._blobs[tenant, document_id, name] = self.ever[name] = data
        self._ages[tenant, document_id, name] = asyncio.get_running_loop().time()
        return BlobRef(sha256=name, size=len(data))

    async def get(self, tenant: str, document_id: str, ref: BlobRef) -> bytes:
        data = self._blobs.get((tenant, document_id, ref.sha256))
        if data is None or (UNKEPT.encode() in data and not self.mended):
            raise Rejected(f"blob {ref.sha256} of document {document_id} is missing", "blob_missing")
        return data

    async def delete(self, tenant: str, document_id: str, sha256: str | None = None) -> int:
        gone = [key for key in self._blobs if key[:2] == (tenant, document_id) and sha256 in (None, key[2])]
        for key in gone:
            del self._blobs[key]
        return len(gone)

    async def collect(self, tenant: str, document_id: str, keep: frozenset[str], older_than_s: float) -> int:
        limit = asyncio.get_running_loop().time() - older_than_s
        gone = [
            key
            for key in self._blobs
            if key[:2] == (tenant, document_id) and key[2] not in keep and self._ages[key] < limit
        ]
        for key in gone:
            del self._blobs[key]
        return len(gone)

    def text(self, tenant: str, document_id: str, sha256: str) -> str | None:
        """Return what is there, None where nothing is."""
        data = self._blobs.get((tenant, document_id, sha256))
        return None if data is None else data.decode()

    def documents(self) -> set[str]:
        """Return the ids of the documents that have any."""
        return {key[1] for key in self._blobs}


GENERATION = Generation(chunker="1", chunk_size=100, chunk_overlap=0, model=MemoryEmbedder.model, bm25="1")


async def ledger_and_index(store: MemoryStore) -> tuple[Ledger, Index]:
    """Return both on a new store."""
    ledger, index = Ledger(store), Index(store, GENERATION)
    await ledger.create()
    await index.create()
    return ledger, index
