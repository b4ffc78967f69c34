"""Makes a backup of a standalone installation, whether or not it runs. docs/adr/0012-backups-and-moves.md

The committed offsets are read first, then the store, the log and the blobs. The copy of the log gets those first
offsets. So a restored installation reads again every record that changed the store while it was copied.
"""

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import xxhash

from services.operator_cli.errors import CommandError
from services.operator_cli.installation import audited, opened_log, opened_store
from services.operator_cli.moving import collections, manifest
from services.operator_cli.moving.manifest import BackedUpFile, Manifest
from services.operator_cli.terminal import CommandProgress
from shared.blobs import Blobs
from shared.blobs.open import open_blobs
from shared.contracts import BlobRef, Message, like
from shared.errors import Rejected, Unavailable
from shared.ids import file_hash
from shared.log.sqlite import SqliteLog
from shared.settings import ConfigurationError, Settings
from shared.state import pairing
from shared.state.ledger import COLLECTION as LEDGER
from shared.store import Store, pages, wire
from shared.store.edge import EdgeStore
from shared.version import VERSION

PARTIAL: Final = ".partial"  # suffix of an unfinished backup
_MARK: Final = "INCOMPLETE"
_ROOM: Final = 1.1  # free disk space that a backup needs, in sizes of what is copied


class BackedUp(Message, frozen=True, kw_only=True):
    """What was backed up."""

    path: str
    log_bytes: int
    store_bytes: int
    blob_bytes: int
    documents: int
    points: int
    blobs: int
    seconds: float


async def backup(settings: Settings, target: Path, watch: CommandProgress, *, patience_s: float) -> BackedUp:
    """Return what was written to the folder `target`.

    Raises:
        CommandError: the target exists, or the disk has too little room.
        ConfigurationError: the installation isn't a standalone one, or has no log yet.
        Unavailable: a part is away; the index is being rebuilt or switched; or the upkeep didn't end in time.
    """
    check_standalone(settings)
    _check_new(target)
    began = asyncio.get_running_loop().time()
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(opened_log(settings))
        store = await opened_store(settings, stack)
        assert isinstance(log, SqliteLog)
        assert isinstance(store, EdgeStore)
        size = log.disk_bytes() + sum(each.disk_bytes for each in await store.sizes())
        size += sum([blob.size async for some in open_blobs(settings.blobs, settings.data).stored() for blob in some])
        manifest.check_room(target, _ROOM * size)
        await stack.enter_async_context(audited(log, settings, "backup"))
        await stack.enter_async_context(log.copying(patience_s))
        folder = stack.enter_context(_new_folder(target))
        made = await _filled(settings, log, store, folder, watch)
    points, blobs = (
        sum(each.size for each in made.files if each.path.startswith(part)) for part in ("store/", "blobs/")
    )
    return like(
        BackedUp,
        made,
        path=str(target),
        log_bytes=made.size - points - blobs,
        store_bytes=points,
        blob_bytes=blobs,
        seconds=round(asyncio.get_running_loop().time() - began, 1),
    )


def check_standalone(settings: Settings) -> None:
    """Check that log, store and blobs are in folders.

    Raises:
        ConfigurationError: one of them is on a server.
    """
    for name, in_folder in (
        ("SLUICE_LOG", settings.log.startswith("sqlite:")),
        ("SLUICE_STORE", settings.embeds_store),
        ("SLUICE_BLOBS", settings.blobs.startswith("file:")),
    ):
        if not in_folder:
            raise ConfigurationError(
                f"a backup copies folders, and {name} names a server: use the server's own backups, or copy everything "
                "into a folder with sluice migrate"
            )


def _check_new(target: Path) -> None:
    if target.is_dir() and not any(target.iterdir()):
        target.rmdir()
    if target.exists():
        raise CommandError(f"{target} exists: choose another name, or delete it")


@contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    """Give a folder to fill, which gets the target's name once all of it is on the disk.

    One that an interrupted backup left is deleted. If the backup fails, the new one is.
    """
    folder = target.with_name(target.name + PARTIAL)
    if folder.exists():
        left = {path.name for path in folder.iterdir()}
        if left and not left & {_MARK, manifest.NAME}:
            raise CommandError(f"{folder} exists, and isn't an interrupted backup: delete it, or choose another name")
        shutil.rmtree(folder)
    folder.mkdir(parents=True, mode=0o700)
    (folder / _MARK).touch()
    try:
        yield folder
        os.sync()  # one call for all files; syncing each of many small ones takes far longer
        (folder / _MARK).unlink()
        folder.rename(target)
        os.sync()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


async def _filled(settings: Settings, log: SqliteLog, store: Store, folder: Path, watch: CommandProgress) -> Manifest:
    registry = await collections.settled(store)
    commits = await log.commits()
    files: list[BackedUpFile] = []
    points, documents = 0, 0
    (folder / manifest.STORE).mkdir()
    names = collections.in_reading_order(await store.collections())
    for name in names:
        watch.begin(f"store: {name}", await store.count(name))
        file, count = await _collection(store, name, folder, watch)
        files.append(file)
        points += count
        documents += count if name == LEDGER else 0
    # Only some of the copied collections would have a generation that was dropped or begun meanwhile.
    if await collections.settled(store) != registry or collections.in_reading_order(await store.collections()) != names:
        raise Unavailable("the generations of the index changed during the backup: run it again", "generation")
    watch.begin("log", 0)
    ends = await pairing.extracted_ends(log)
    await log.copy_to(folder / manifest.LOG, commits)
    files.append(await asyncio.to_thread(_hashed, folder, manifest.LOG))
    paired = await pairing.on_log(log)  # after the copy: the restored store's checkpoint is never below the log's
    blobs = await _blobs(open_blobs(settings.blobs, settings.data), folder, watch)
    if settings.key_file.exists():
        (folder / manifest.KEYS).touch(mode=0o600)
        shutil.copyfile(settings.key_file, folder / manifest.KEYS)
        files.append(_hashed(folder, manifest.KEYS))
    sources = settings.sources.items()
    given = {name: settings.shown(name) for name, source in sources if source != "default" and name != "data"}
    made = Manifest(
        format=manifest.FORMAT,
        sluice=VERSION,
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        log_id=paired.log_id if paired is not None else "",
        store_id=paired.store_id if paired is not None else "",
        checkpoint=paired.checkpoint if paired is not None else 0,
        ends=ends,
        documents=documents,
        points=points,
        blobs=len(blobs),
        settings=given,
        files=(*files, *blobs),
    )
    manifest.write(folder, made)
    return made


async def _collection(store: Store, name: str, folder: Path, watch: CommandProgress) -> tuple[BackedUpFile, int]:
    """Write the collection's points into a file; return the file and the number of points."""
    path, count = f"{manifest.STORE}/{name}", 0
    digest, size = xxhash.xxh3_128(), 0
    with (folder / path).open("xb") as file:
        async for points in pages(store, name, vectors=True):
            frame = wire.done_frame(count, points)
            file.write(frame)
            digest.update(frame)
            size += len(frame)
            count += len(points)
            watch.step(len(points))
    return BackedUpFile(path=path, size=size, xxh3=digest.hexdigest()), count


async def _blobs(blobs: Blobs, folder: Path, watch: CommandProgress) -> list[BackedUpFile]:
    found = [blob async for some in blobs.stored() for blob in some]
    watch.begin("blobs", len(found))
    files = []
    (folder / manifest.BLOBS).mkdir()
    for blob in found:
        path = f"{manifest.BLOBS}/{blob.tenant}/{blob.document_id}/{blob.sha256}"
        try:
            data = await blobs.get(blob.tenant, blob.document_id, BlobRef(sha256=blob.sha256, size=blob.size))
        except Rejected as error:
            if error.code == "blob_missing":  # deleted by its writer since it was listed
                continue
            raise CommandError(f"{error.sentence}: `sluice verify --repair` mends what can be mended") from error
        await asyncio.to_thread(_write, folder / path, data)
        files.append(BackedUpFile(path=path, size=len(data), xxh3=xxhash.xxh3_128_hexdigest(data)))
        watch.step(1)
    return files


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _hashed(folder: Path, path: str) -> BackedUpFile:
    return BackedUpFile(path=path, size=(folder / path).stat().st_size, xxh3=file_hash(folder / path))


def backup_lines(done: BackedUp) -> Iterator[str]:
    """Yield the lines to print without `--json`."""
    what = f"{done.documents} documents, {done.points} points, {done.blobs} blobs"
    yield f"Backed up {what} to {done.path} in {done.seconds:.1f} s"
    size = done.log_bytes + done.store_bytes + done.blob_bytes
    yield f"{_mb(size)}: log {_mb(done.log_bytes)}, index {_mb(done.store_bytes)}, blobs {_mb(done.blob_bytes)}"


def _mb(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
