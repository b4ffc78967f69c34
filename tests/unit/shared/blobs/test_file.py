"""The folder behind `file:`: what a full disk, a crash and a meddler leave."""

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import UUID

import pytest

from shared.blobs import collect
from shared.blobs.file import FileBlobs
from shared.blobs.open import open_blobs
from shared.errors import Rejected, Unavailable
from shared.settings import ConfigurationError

DOCUMENT = "0f8fad5b-d9cb-569f-a165-70867728950e"
DAY = 24 * 3600.0


@pytest.fixture
def blobs(tmp_path: Path) -> FileBlobs:
    return FileBlobs(tmp_path)


def aged(path: Path, seconds: float) -> Path:
    then = time.time() - seconds
    os.utime(path, (then, then))
    return path


async def test_the_name_is_tenant_document_and_hash(blobs: FileBlobs, tmp_path: Path) -> None:
    ref = await blobs.put("acme", DOCUMENT, b"body")

    assert (tmp_path / "acme" / DOCUMENT / ref.sha256).read_bytes() == b"body"
    assert list((tmp_path / ".incoming~").iterdir()) == []


async def test_a_hundred_small_texts_cost_three_syncs_each_and_two_for_the_tenant(
    blobs: FileBlobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    sync = os.fsync

    def counted(descriptor: int) -> None:
        synced.append(descriptor)
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", counted)
    await blobs.put("acme", DOCUMENT, b"the tenant's first")
    synced.clear()

    await asyncio.gather(*(blobs.put("acme", str(UUID(int=number)), b"%d" % number) for number in range(100)))

    assert len(synced) == 300, "docs/adr/0010-blobs.md says what fewer would cost"


async def test_a_name_that_a_killed_writer_gave_is_synced_by_the_next_put(
    blobs: FileBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = tmp_path / "acme" / DOCUMENT
    document.mkdir(parents=True)
    (document / hashlib.sha256(b"body").hexdigest()).write_bytes(b"body")
    synced: list[Path] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(Path(f"/dev/fd/{descriptor}").resolve()))

    await blobs.put("acme", DOCUMENT, b"body")

    assert synced == [folder.resolve() for folder in (document, document.parent, tmp_path, tmp_path.parent)]


def test_a_put_opens_four_things_and_makes_few_calls_beside(tmp_path: Path) -> None:
    script = f"""
import asyncio, sys
from pathlib import Path
from shared.blobs.file import FileBlobs

def hear(event, arguments):
    if event in ("os.mkdir", "os.rename", "fcntl.flock", "open") and not str(arguments[0]).endswith(".py"):
        print(event)

async def main():
    blobs = FileBlobs(Path({str(tmp_path)!r}))
    await blobs.put("acme", {DOCUMENT!r}, b"the tenant's first")
    sys.addaudithook(hear)
    await blobs.put("acme", {str(UUID(int=1))!r}, b"body")

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)

    # The new file; its lock, folder and name; the two folders that are synced. A file object would seek and ask more.
    assert done.stdout.split() == ["open", "open", "fcntl.flock", "os.mkdir", "os.rename", "open", "open"]


async def test_a_deleted_document_leaves_no_folder(blobs: FileBlobs, tmp_path: Path) -> None:
    await blobs.put("acme", DOCUMENT, b"body")

    await collect(blobs, ("acme", DOCUMENT), frozenset(), -60.0)

    assert not (tmp_path / "acme" / DOCUMENT).exists()


async def test_a_folder_that_is_none_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "blobs").write_text("a file")
    blobs = FileBlobs(tmp_path / "blobs")

    with pytest.raises(Unavailable, match=rf"the blob folder {tmp_path}/blobs: Not a directory|File exists"):
        await blobs.put("acme", DOCUMENT, b"body")


async def test_a_blob_that_can_not_be_read_is_unavailable(blobs: FileBlobs, tmp_path: Path) -> None:
    ref = await blobs.put("acme", DOCUMENT, b"body")
    path = tmp_path / "acme" / DOCUMENT / ref.sha256
    path.unlink()
    path.mkdir()

    with pytest.raises(Unavailable, match="Is a directory"):
        await blobs.get("acme", DOCUMENT, ref)


def test_a_full_disk_is_unavailable_and_leaves_nothing(tmp_path: Path) -> None:
    script = f"""
import asyncio, resource
from pathlib import Path
from shared.blobs.file import FileBlobs
from shared.errors import Unavailable

async def main():
    blobs = FileBlobs(Path({str(tmp_path)!r}))
    small = await blobs.put("acme", {DOCUMENT!r}, b"small")
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))  # what a full disk does, for this process
    try:
        await blobs.put("acme", {DOCUMENT!r}, b"large" * 10_000)
    except Unavailable as error:
        print(error.sentence)
    assert await blobs.get("acme", {DOCUMENT!r}, small) == b"small"

asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout == f"the blob folder {tmp_path}: File too large\n"
    assert len(list((tmp_path / "acme" / DOCUMENT).iterdir())) == 1
    assert list((tmp_path / ".incoming~").iterdir()) == []


def test_a_killed_writer_leaves_whole_blobs_and_its_rest_is_swept(tmp_path: Path) -> None:
    script = f"""
import asyncio, itertools
from pathlib import Path
from shared.blobs.file import FileBlobs

async def main():
    blobs = FileBlobs(Path({str(tmp_path)!r}))
    for number in itertools.count():
        ref = await blobs.put("acme", {DOCUMENT!r}, f"{{number}} ".encode() * 300_000)
        print(ref.sha256, flush=True)

asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout is not None
            put = [child.stdout.readline().strip() for _ in range(3)]
            while not any((tmp_path / ".incoming~").iterdir()):  # killed within a write
                assert child.poll() is None
        finally:
            child.send_signal(signal.SIGKILL)
    found = {path.name: path for path in (tmp_path / "acme" / DOCUMENT).iterdir()}
    rest = [aged(path, 2 * 3600) for path in (tmp_path / ".incoming~").iterdir()]

    assert set(put) <= set(found)
    for name, path in found.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == name

    asyncio.run(FileBlobs(tmp_path).put("acme", DOCUMENT, b"the next process"))

    assert not any(path.exists() for path in rest)


async def test_a_blob_put_again_while_it_is_collected_is_there(blobs: FileBlobs, tmp_path: Path) -> None:
    for number in range(30):
        body = str(number).encode()
        ref = await blobs.put("acme", DOCUMENT, body)
        aged(tmp_path / "acme" / DOCUMENT / ref.sha256, 2 * DAY)

        await asyncio.gather(
            collect(blobs, ("acme", DOCUMENT), frozenset(), DAY),
            blobs.put("acme", DOCUMENT, body),
            collect(blobs, ("acme", DOCUMENT), frozenset(), DAY),
        )

        assert await blobs.get("acme", DOCUMENT, ref) == body


async def test_the_first_put_sweeps_and_leaves_what_is_being_written(blobs: FileBlobs, tmp_path: Path) -> None:
    (tmp_path / ".incoming~").mkdir()
    aged(tmp_path / ".incoming~", 2 * DAY)
    old, young = tmp_path / ".incoming~" / "old", tmp_path / ".incoming~" / "young"
    old.touch()
    young.touch()
    aged(old, DAY)

    await blobs.put("acme", DOCUMENT, b"body")

    assert not old.exists()
    assert young.exists()


async def test_no_tenant_is_named_like_our_own_folders(blobs: FileBlobs) -> None:
    for name in (".incoming~", ".locks~"):
        with pytest.raises(Rejected, match="must be 1 to 64 letters"):
            await blobs.put(name, DOCUMENT, b"")


def test_the_setting_names_the_folder(tmp_path: Path) -> None:
    for setting, data in (
        ("file:", tmp_path),
        (f"file:{tmp_path}/own", tmp_path / "unused"),
        (f"file://{tmp_path}/other", tmp_path / "unused"),
    ):
        asyncio.run(open_blobs(setting, data).put("acme", DOCUMENT, b"body"))

    assert sorted(path.name for path in tmp_path.iterdir()) == ["blobs", "other", "own"]


@pytest.mark.parametrize("setting", ["", "file", "s4://bucket", "file:here", "file://host"])
def test_another_setting_is_refused_by_name_and_value(setting: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        open_blobs(setting, tmp_path)

    assert str(caught.value).startswith(f"SLUICE_BLOBS={setting} must")


async def test_files_of_other_programs_and_blobs_that_vanish_keep_no_blob(
    blobs: FileBlobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refs = [await blobs.put("acme", DOCUMENT, bytes([number])) for number in range(5)]
    folder = tmp_path / "acme" / DOCUMENT
    (folder / ".DS_Store").write_bytes(b"")
    stat, gone = Path.stat, folder / refs[2].sha256

    def vanishing(path: Path, **options: bool) -> os.stat_result:
        if path == gone:
            gone.unlink(missing_ok=True)
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", vanishing)

    assert await collect(blobs, ("acme", DOCUMENT), (), 0) == 4
    assert [path.name for path in folder.iterdir()] == [".DS_Store"]
