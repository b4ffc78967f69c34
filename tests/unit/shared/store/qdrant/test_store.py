"""What the adapter asks of a server, and what it makes of faults that a real one shows too rarely."""

import datetime as dt
import ipaddress
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
import pytest_asyncio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from qdrant_client import models
from structlog.testing import capture_logs

from shared.errors import Unavailable
from shared.settings import ConfigurationError
from shared.store import EVERYTHING, Filter, Leg, Order, Point, Range, Sparse
from shared.store.qdrant.address import QdrantAddress
from shared.store.qdrant.store import LEAST, QdrantStore, shortfalls
from tests.servers.fake_qdrant import FakeQdrant, encrypted
from tests.servers.loopback import running
from tests.servers.ports import free_port

SOME = Filter(must=(Range("n", lt=1),))
DENSE = {"size": 4, "distance": "Cosine"}
DOCUMENT = str(UUID(int=99))


@pytest_asyncio.fixture
async def server() -> AsyncIterator[FakeQdrant]:
    async with running(FakeQdrant()) as fake:
        yield fake


@pytest_asyncio.fixture
async def store(server: FakeQdrant) -> AsyncIterator[QdrantStore]:
    made = QdrantStore(QdrantAddress(url=server.url))
    yield made
    await made.close()


def points(count: int) -> list[Point]:
    return [Point(id=str(UUID(int=number)), payload={}) for number in range(count)]


async def everything(store: QdrantStore) -> None:
    await store.upsert("c", points(1))
    await store.put_if("c", points(1), None)
    await store.set_payload("c", {"n": 1}, SOME)
    await store.delete("c", SOME)
    await store.retrieve("c", [points(1)[0].id])
    await store.scroll("c")
    await store.scroll("c", order=Order("n"))


def asked(server: FakeQdrant, what: str) -> list[str]:
    """Return the paths of the requests to points that have `what` among their options."""
    return [path.partition("?")[0] for path, _ in server.requests if what in path]


WRITES = ["/collections/c/points"] * 2 + ["/collections/c/points/payload", "/collections/c/points/delete"]
READS = ["/collections/c/points"] * 2 + ["/collections/c/points/scroll"] * 2  # the first of them after `put_if`


async def test_every_write_waits(server: FakeQdrant, store: QdrantStore) -> None:
    await everything(store)

    assert asked(server, "wait=true") == WRITES


async def test_bookkeeping_is_written_in_order_and_read_from_a_quorum_of_its_replicas(
    server: FakeQdrant, store: QdrantStore
) -> None:
    server.replicas = 3

    await everything(store)

    assert asked(server, "ordering=strong") == WRITES
    assert asked(server, "consistency=quorum") == READS


async def test_bookkeeping_without_replicas_is_read_where_it_is(server: FakeQdrant, store: QdrantStore) -> None:
    await everything(store)

    assert asked(server, "ordering=strong") == WRITES
    assert asked(server, "consistency=") == []


async def test_chunk_points_are_written_in_any_order_and_read_from_any_replica(
    server: FakeQdrant, store: QdrantStore
) -> None:
    server.vectors, server.replicas = DENSE, 3

    await everything(store)

    assert asked(server, "ordering=") == asked(server, "consistency=") == []


async def test_batches_are_halved_until_the_server_takes_them(server: FakeQdrant, store: QdrantStore) -> None:
    server.most = 5

    await store.upsert("c", points(150))

    assert server.written == [point.id for point in points(150)]


async def test_a_point_that_is_too_large_alone_is_refused(server: FakeQdrant, store: QdrantStore) -> None:
    server.most = 0

    with pytest.raises(ValueError, match="Payload too large"):
        await store.upsert("c", points(3))


async def test_writes_wait_as_long_as_a_busy_server_says(server: FakeQdrant) -> None:
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    store = QdrantStore(QdrantAddress(url=server.url), sleep=sleep)
    server.busy.extend([3, 0, 7])

    await store.upsert("c", points(1))
    await store.close()

    assert waits == [3, 1, 7]
    assert server.written == [points(1)[0].id]


@pytest.mark.parametrize("waits", [[31], [20, 20], [None]])
async def test_nobody_waits_for_ever(server: FakeQdrant, waits: list[int | None]) -> None:
    slept = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal slept
        slept += seconds

    store = QdrantStore(QdrantAddress(url=server.url), sleep=sleep)
    server.busy.extend(waits)

    with pytest.raises(Unavailable, match="accepts no more requests for now: busy"):
        await store.upsert("c", points(1))
    await store.close()

    assert slept <= 30


async def test_the_key_goes_along_and_into_no_log(server: FakeQdrant) -> None:
    server.key = "very-secret"
    with capture_logs() as logged:
        store = QdrantStore(QdrantAddress(url=server.url), server.key)
        await store.start()
        await store.close()

    assert logged
    assert "very-secret" not in str(logged)


@pytest.mark.parametrize(
    ("key", "message"), [("very-wrong", "SLUICE_QDRANT_API_KEY isn't the"), (None, "SLUICE_QDRANT_API_KEY isn't set")]
)
async def test_a_key_that_is_refused_stops_the_start(server: FakeQdrant, key: str | None, message: str) -> None:
    server.key = "very-secret"
    store = QdrantStore(QdrantAddress(url=server.url), key)

    with pytest.raises(ConfigurationError, match=message) as caught:
        await store.start()
    await store.close()

    assert "very" not in str(caught.value)


async def test_a_key_that_is_refused_later_is_waited_out(server: FakeQdrant, store: QdrantStore) -> None:
    await store.start()
    server.key = "rotated"

    with pytest.raises(Unavailable, match="refuses access: Must provide an API key") as caught:
        await store.collections()

    assert caught.value.code == "store_access"


@pytest.mark.parametrize(
    ("version", "warns"), [("1.19.0", False), ("1.21.3", False), ("1.23.0", True), ("2.0.0", True), ("dev", True)]
)
async def test_a_server_of_another_age_is_warned_of(
    server: FakeQdrant, store: QdrantStore, version: str, warns: bool
) -> None:
    server.version = version

    with capture_logs() as logged:
        await store.start()

    assert [entry["server"] for entry in logged if entry["event"] == "store_version"] == [version] * warns


@pytest.mark.parametrize("version", ["1.18.3", "1.9.7", "0.11.0"])
async def test_a_server_that_is_too_old_for_our_filters_stops_the_start(
    server: FakeQdrant, store: QdrantStore, version: str
) -> None:
    server.version = version

    with pytest.raises(ConfigurationError, match=rf"server is {version}, but 1\.19 or newer"):
        await store.start()


async def test_nobody_there_is_unavailable_by_url() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    store = QdrantStore(QdrantAddress(url=url))

    with pytest.raises(Unavailable, match=f"{url} can't answer: ConnectError"):
        await store.start()
    await store.close()


@pytest.mark.parametrize("fault", ["html", "list", "502"])
async def test_something_else_there_is_unavailable_by_url(server: FakeQdrant, store: QdrantStore, fault: str) -> None:
    server.fault = fault

    with pytest.raises(Unavailable, match=f"{server.url} can't answer"):
        await store.start()


async def test_a_server_that_hangs_is_unavailable(server: FakeQdrant) -> None:
    store = QdrantStore(QdrantAddress(url=server.url), timeout_s=1)
    server.fault = "hang"

    with pytest.raises(Unavailable, match="can't answer: ReadTimeout"):
        await store.collections()
    await store.close()


async def test_calls_after_the_close_are_unavailable(store: QdrantStore) -> None:
    await store.start()
    await store.close()

    for call in (store.collections, lambda: store.upsert("c", points(1))):
        with pytest.raises(Unavailable):
            await call()


@pytest.fixture(scope="module")
def identity(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return files of a key and of a certificate for 127.0.0.1 that vouches for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a server of tests")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("identity")
    key_file, certificate_file = folder / "key.pem", folder / "certificate.pem"
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return key_file, certificate_file


async def test_an_authority_of_ones_own_is_trusted(identity: tuple[Path, Path]) -> None:
    key, certificate = identity
    async with running(FakeQdrant(), encrypted(str(key), str(certificate))) as server:
        trusting = QdrantStore(QdrantAddress(url=server.url, ca=str(certificate)), "a-key")
        await trusting.start()
        assert await trusting.collections() == []
        await trusting.close()
        stranger = QdrantStore(QdrantAddress(url=server.url), "a-key")
        with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
            await stranger.start()
        await stranger.close()


def test_a_file_of_authorities_that_is_none_is_named(tmp_path: Path) -> None:
    wrong = tmp_path / "ca.pem"
    for content in (None, "not a certificate"):
        if content is not None:
            wrong.write_text(content, encoding="utf-8")
        with pytest.raises(ConfigurationError, match=f"ca={wrong} can't be used"):
            QdrantStore(QdrantAddress(url="https://q:6333", ca=str(wrong)))


async def test_vectors_of_another_length_never_leave(server: FakeQdrant, store: QdrantStore) -> None:
    server.vectors = DENSE
    short = Point(id=points(1)[0].id, payload={}, dense=np.ones(3, np.float32))

    with pytest.raises(ValueError, match="vector of 3; collection 'c' has 4"):
        await store.upsert("c", [short])

    assert server.written == []


class Switching(FakeQdrant):
    """A document's next version comes, and the one before it goes, between each of some searches and the heads."""

    def __init__(self, *heads: int) -> None:
        super().__init__()
        self.vectors = DENSE
        self.heads = deque(heads)  # as each question after them is told
        self.there = heads[0]  # the version that a search finds
        self.left_over: int | None = None  # a version that a crash has left, and nobody has swept yet
        self.searches = 0

    def _result(self, route: str, body: dict[str, Any]) -> Any:
        if route.endswith("/query/batch"):
            self.searches += 1
            metadata = {"documentId": DOCUMENT, "version": self.there}
            point = {"id": str(UUID(int=self.there)), "version": 0, "score": 1.0, "payload": {"metadata": metadata}}
            return [{"points": [point]} for _ in body["searches"]]
        if "ids" in body:
            if len(self.heads) > 1:
                self.heads.popleft()
            head, self.there = self.heads[0], self.left_over or self.heads[0]
            return [{"id": DOCUMENT, "payload": {"version": head}}]
        return super()._result(route, body)


@pytest.mark.parametrize(
    ("heads", "shown", "searches"),
    [((1,), 1, 1), ((1, 2), 2, 2), ((1, 2, 3), 3, 3), ((1, 2, 3, 4), None, 3)],
    ids=["nothing comes", "one version", "two", "for ever: it is given up"],
)
async def test_a_version_that_comes_between_the_search_and_the_heads_is_searched_again(
    heads: tuple[int, ...], shown: int | None, searches: int
) -> None:
    async with running(Switching(*heads)) as server:
        store = QdrantStore(QdrantAddress(url=server.url))

        legs = [Leg(dense=np.ones(4, np.float32)), Leg(sparse=Sparse([1], [1.0]))]
        rankings = await store.search("c", legs, EVERYTHING, limit=5, heads="h")

        await store.close()
    versions = [[hit.payload["metadata"]["version"] for hit in hits] for hits in rankings]
    assert versions == [[shown] if shown else []] * 2
    assert server.searches == searches


async def test_a_version_that_is_left_over_is_searched_again_once() -> None:
    async with running(Switching(1, 2)) as server:
        server.left_over = 1
        store = QdrantStore(QdrantAddress(url=server.url))

        [hits] = await store.search("c", [Leg(dense=np.ones(4, np.float32))], EVERYTHING, limit=5, heads="h")

        await store.close()
    assert (hits, server.searches) == ([], 2)


def test_a_collection_without_strict_mode_lacks_nothing() -> None:
    assert shortfalls(None) == []
    assert shortfalls(models.StrictModeConfigOutput(enabled=False, max_query_limit=1)) == []


def test_each_limit_that_is_too_low_is_named_with_what_is_needed() -> None:
    strict = models.StrictModeConfigOutput(enabled=True, max_query_limit=10, search_allow_exact=False)

    assert shortfalls(strict) == [
        f"max_query_limit 10, at least {LEAST['max_query_limit']} is needed",
        "search_allow_exact false, but counts must be exact",
    ]
