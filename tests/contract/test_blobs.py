"""What every blob store promises, on every adapter."""

import asyncio
import hashlib
import os
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shared.blobs import Blobs, StoredBlob, collect
from shared.blobs.open import open_blobs
from shared.contracts import BlobRef
from shared.errors import Rejected
from tests.fakes.blobs import MemoryBlobs
from tests.servers.s3 import Bucket

DOCUMENT = "0f8fad5b-d9cb-569f-a165-70867728950e"
OTHER = "7c9e6679-7425-50de-944b-e07fc1f90ae7"


DAY = 24 * 3600.0
NOW = -60.0  # of `older_than_s`: what was put just now, too


class Kept(Protocol):
    """What is kept, from behind: to make it old, or to damage it."""

    def age(self, seconds: float) -> None: ...
    def damage(self, data: bytes) -> None: ...


class Folder:
    def __init__(self, root: Path) -> None:
        self._root = root

    def age(self, seconds: float) -> None:
        for path in self._files():
            then = path.stat().st_mtime - seconds
            os.utime(path, (then, then))

    def damage(self, data: bytes) -> None:
        for path in self._files():
            path.write_bytes(data)

    def _files(self) -> list[Path]:
        return [path for path in self._root.glob("*/*/*") if path.is_file()]


@pytest.fixture(params=["file", "s3", "memory"])
def adapter(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Blobs, Kept]:
    if request.param == "file":
        return open_blobs(f"file:{tmp_path}", Path("unused")), Folder(tmp_path)
    if request.param == "memory":
        memory = MemoryBlobs()
        return memory, memory
    bucket = request.getfixturevalue("s3_bucket")
    assert isinstance(bucket, Bucket)
    return open_blobs(bucket.setting, Path("unused")), bucket


@pytest.fixture
def blobs(adapter: tuple[Blobs, Kept]) -> Blobs:
    return adapter[0]


@pytest.fixture
def kept(adapter: tuple[Blobs, Kept]) -> Kept:
    return adapter[1]


@given(data=st.binary(max_size=5000))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_put_comes_back(blobs: Blobs, data: bytes) -> None:
    async def round_trip() -> bytes:
        ref = await blobs.put("acme", DOCUMENT, data)
        assert ref == BlobRef(sha256=hashlib.sha256(data).hexdigest(), size=len(data))
        return await blobs.get("acme", DOCUMENT, ref)

    assert asyncio.run(round_trip()) == data


async def test_the_same_body_is_one_blob_of_each_document(blobs: Blobs) -> None:
    first = await blobs.put("acme", DOCUMENT, b"body")
    second = await blobs.put("acme", DOCUMENT, b"body")
    await blobs.put("acme", OTHER, b"body")
    await blobs.put("globex", DOCUMENT, b"body")

    assert first == second
    assert await collect(blobs, ("acme", DOCUMENT), frozenset(), NOW) == 1
    assert await blobs.get("acme", OTHER, first) == b"body"
    assert await blobs.get("globex", DOCUMENT, first) == b"body"


async def test_a_blob_that_is_not_there_is_missing(blobs: Blobs) -> None:
    ref = await blobs.put("acme", DOCUMENT, b"body")
    for tenant, document in (("globex", DOCUMENT), ("acme", OTHER)):
        with pytest.raises(Rejected, match=f"{document}/{ref.sha256} is missing") as caught:
            await blobs.get(tenant, document, ref)
        assert caught.value.code == "blob_missing"


async def test_collecting_takes_what_is_not_kept_and_says_how_many(blobs: Blobs) -> None:
    one, two, three = [await blobs.put("acme", DOCUMENT, body) for body in (b"1", b"2", b"3")]
    kept = frozenset((one.sha256, three.sha256))

    assert await collect(blobs, ("acme", DOCUMENT), kept, NOW) == 1
    assert await collect(blobs, ("acme", DOCUMENT), kept, NOW) == 0
    assert await blobs.get("acme", DOCUMENT, one) == b"1"
    assert await blobs.get("acme", DOCUMENT, three) == b"3"
    with pytest.raises(Rejected, match="is missing"):
        await blobs.get("acme", DOCUMENT, two)
    assert await collect(blobs, ("acme", DOCUMENT), frozenset(), NOW) == 2
    assert await collect(blobs, ("acme", DOCUMENT), frozenset(), NOW) == 0
    assert await blobs.put("acme", DOCUMENT, b"1") == one


async def test_collect_takes_what_is_not_kept(blobs: Blobs) -> None:
    kept, gone = [await blobs.put("acme", DOCUMENT, body) for body in (b"kept", b"gone")]

    assert await collect(blobs, ("acme", DOCUMENT), frozenset({kept.sha256}), older_than_s=-1) == 1

    assert await blobs.get("acme", DOCUMENT, kept) == b"kept"
    with pytest.raises(Rejected, match="missing"):
        await blobs.get("acme", DOCUMENT, gone)


async def test_collect_leaves_what_is_young(blobs: Blobs) -> None:
    ref = await blobs.put("acme", DOCUMENT, b"young")

    assert await collect(blobs, ("acme", DOCUMENT), frozenset(), older_than_s=3600) == 0
    assert await blobs.get("acme", DOCUMENT, ref) == b"young"
    assert await collect(blobs, ("acme", OTHER), frozenset(), older_than_s=0) == 0


async def test_putting_again_renews_the_age(blobs: Blobs, kept: Kept) -> None:
    ref = await blobs.put("acme", DOCUMENT, b"body")
    kept.age(2 * DAY)

    await blobs.put("acme", DOCUMENT, b"body")

    assert await collect(blobs, ("acme", DOCUMENT), frozenset(), DAY) == 0
    assert await blobs.get("acme", DOCUMENT, ref) == b"body"
    kept.age(2 * DAY)
    assert await collect(blobs, ("acme", DOCUMENT), frozenset(), DAY) == 1


async def test_collect_takes_what_is_old_and_not_kept(blobs: Blobs, kept: Kept) -> None:
    wanted, unwanted = [await blobs.put("acme", DOCUMENT, body) for body in (b"wanted", b"unwanted")]
    kept.age(2 * DAY)
    young = await blobs.put("acme", DOCUMENT, b"young")

    assert await collect(blobs, ("acme", DOCUMENT), frozenset({wanted.sha256}), DAY) == 1

    assert await blobs.get("acme", DOCUMENT, wanted) == b"wanted"
    assert await blobs.get("acme", DOCUMENT, young) == b"young"
    with pytest.raises(Rejected, match="missing"):
        await blobs.get("acme", DOCUMENT, unwanted)


async def listed(blobs: Blobs) -> list[StoredBlob]:
    return sorted([blob async for some in blobs.stored() for blob in some])


async def test_all_that_is_stored_is_listed_whoever_it_belongs_to(blobs: Blobs) -> None:
    assert await listed(blobs) == []
    puts = [("a", DOCUMENT, b"one"), ("a", DOCUMENT, b"three"), ("a", OTHER, b"one"), ("b", DOCUMENT, b"one")]
    for tenant, document, data in puts:
        await blobs.put(tenant, document, data)

    found = await listed(blobs)

    expected = [(tenant, document, hashlib.sha256(data).hexdigest(), len(data)) for tenant, document, data in puts]
    assert [blob[:4] for blob in found] == sorted(expected)


async def test_a_listed_blob_is_removed_unless_it_was_put_again(blobs: Blobs) -> None:
    first, second = [await blobs.put("a", DOCUMENT, data) for data in (b"one", b"two")]
    old = {blob.sha256: blob for blob in await listed(blobs)}
    await blobs.put("a", DOCUMENT, b"two")

    assert await blobs.remove(old[first.sha256])
    assert not await blobs.remove(old[first.sha256])
    assert not await blobs.remove(old[second.sha256])

    assert await blobs.get("a", DOCUMENT, second) == b"two"
    assert [blob.sha256 for blob in await listed(blobs)] == [second.sha256]


@pytest.mark.parametrize("damage", [b"", b"bod", b"bodz", b"body and more"])
async def test_an_altered_blob_is_told_and_mended_by_the_next_put(blobs: Blobs, kept: Kept, damage: bytes) -> None:
    ref = await blobs.put("acme", DOCUMENT, b"body")
    kept.damage(damage)

    with pytest.raises(Rejected, match=f"altered: its {len(damage)} bytes aren't the 4") as caught:
        await blobs.get("acme", DOCUMENT, ref)
    assert caught.value.code == "blob_altered"

    assert await blobs.put("acme", DOCUMENT, b"body") == ref
    assert await blobs.get("acme", DOCUMENT, ref) == b"body"


async def test_whoever_reads_while_it_is_put_again_has_the_body(blobs: Blobs) -> None:
    ref = await blobs.put("acme", DOCUMENT, b"body")

    async def put_again() -> None:
        for _ in range(4):
            await blobs.put("acme", DOCUMENT, b"body")

    putting = asyncio.create_task(put_again())
    while not putting.done():
        assert await blobs.get("acme", DOCUMENT, ref) == b"body"
        await asyncio.sleep(0)  # the fake never waits, so nobody else would have a turn
    await putting


async def test_puts_at_once_leave_one_whole_blob(blobs: Blobs) -> None:
    refs = await asyncio.gather(*(blobs.put("acme", DOCUMENT, b"body") for _ in range(5)))

    assert len(set(refs)) == 1
    assert await blobs.get("acme", DOCUMENT, refs[0]) == b"body"
    assert await collect(blobs, ("acme", DOCUMENT), frozenset(), NOW) == 1


@pytest.mark.parametrize(
    ("tenant", "document"),
    [
        ("", DOCUMENT),
        (".", DOCUMENT),
        ("..", DOCUMENT),
        ("a/b", DOCUMENT),
        ("a\\b", DOCUMENT),
        ("a\0", DOCUMENT),
        ("a\n", DOCUMENT),
        ("..\n", DOCUMENT),
        ("é", DOCUMENT),
        ("a" * 65, DOCUMENT),
        ("acme", ""),
        ("acme", ".."),
        ("acme", f"../{DOCUMENT}"),
        ("acme", DOCUMENT.upper()),
        ("acme", f"{DOCUMENT}\n"),
        ("acme", f"{{{DOCUMENT}}}"),
    ],
)
async def test_a_name_that_could_lead_elsewhere_is_rejected(blobs: Blobs, tenant: str, document: str) -> None:
    ref = BlobRef(sha256="0" * 64, size=0)

    for call in (
        blobs.put(tenant, document, b""),
        blobs.get(tenant, document, ref),
        collect(blobs, (tenant, document), frozenset(), 0),
    ):
        with pytest.raises(Rejected, match=r"tenant|document id"):
            await call


@pytest.mark.parametrize(
    "name", ["", "..", "../" * 3 + "x", "0" * 63, "0" * 65, "A" * 64, "0" * 64 + "\n", "../" + "0" * 64]
)
async def test_a_hash_that_is_none_is_rejected(blobs: Blobs, name: str) -> None:
    with pytest.raises(Rejected, match="64 hex digits"):
        await blobs.get("acme", DOCUMENT, BlobRef(sha256=name, size=0))
