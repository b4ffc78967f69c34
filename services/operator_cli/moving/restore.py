"""Makes a data folder from a backup. docs/adr/0012-backups-and-moves.md"""

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from services.operator_cli.errors import CommandError
from services.operator_cli.moving import collections, manifest
from services.operator_cli.moving.manifest import Manifest
from services.operator_cli.terminal import CommandProgress
from shared.contracts import Message, like
from shared.runtime.data_lock import lock_data_folder
from shared.settings import ConfigurationError
from shared.state import pairing
from shared.state.generations import registry_of
from shared.store import Point, Store, wire
from shared.store.edge import EdgeStore

STAGING: Final = ".restoring"
_NOBODYS: Final = {STAGING, "serve.lock", "lost+found"}  # names that an empty folder may have
_ROOM: Final = 1.5  # free disk space that a restore needs, in sizes of the backup: an index takes more than its points
_CHUNK: Final = 1 << 20
_points = wire.body_decoder(list[Point])


class Restored(Message, frozen=True, kw_only=True):
    """What was restored, or would be."""

    path: str  # the data folder
    dry_run: bool
    created: str  # when the backup was made
    sluice: str  # the version that made it
    documents: int
    points: int
    blobs: int
    settings: dict[str, str]  # of the installation that was backed up, without secrets
    seconds: float


async def restore(source: Path, data: Path, watch: CommandProgress, *, dry_run: bool = False) -> Restored:
    """Return what was restored from the folder `source` into the data folder, which must be empty or absent.

    All hashes are checked first. The log is moved to its place last, so a folder with a log is complete.

    Raises:
        CommandError: the folder isn't empty, or the disk has too little room.
        ConfigurationError: `source` isn't a whole backup, is damaged, or has another format; or the folder is in
            use.
        Unavailable: the store can't be started.
    """
    began = asyncio.get_running_loop().time()
    with _new_folder(source, data) as staging:
        made = manifest.read(source)
        manifest.check_room(data, _ROOM * made.size)
        watch.begin("check", made.size)
        await asyncio.to_thread(manifest.check, source, made, watch.step)
        if not dry_run:
            await _stage(source, made, staging, watch)
            await asyncio.to_thread(_settle, staging, data)
    seconds = round(asyncio.get_running_loop().time() - began, 1)
    return like(Restored, made, path=str(data), dry_run=dry_run, seconds=seconds)


@contextmanager
def _new_folder(source: Path, data: Path) -> Iterator[Path]:
    """Give a folder to build in, within the locked data folder. If the restore fails, the new folders are deleted."""
    there = {path.name for path in data.iterdir()} if data.exists() else set()
    # The log is moved last. Without it, what is beside the staging folder was left by a restore that was killed.
    left = there & {manifest.STORE, manifest.BLOBS, manifest.KEYS} if STAGING in there else set()
    if others := sorted(there - _NOBODYS - left):
        raise CommandError(f"{data} isn't empty, it has {others[0]}: restore into another folder")
    if not source.is_dir():
        raise ConfigurationError(f"there is no folder {source} with a backup")
    made_here = not data.exists()
    data.mkdir(parents=True, exist_ok=True)
    staging = data / STAGING
    try:
        with lock_data_folder(data):
            for name in left - {manifest.KEYS}:
                shutil.rmtree(data / name)
            (data / manifest.KEYS).unlink(missing_ok=True)
            shutil.rmtree(staging, ignore_errors=True)
            staging.mkdir(mode=0o700)
            try:
                yield staging
            finally:
                shutil.rmtree(staging, ignore_errors=True)
    finally:
        if made_here and {path.name for path in data.iterdir()} <= _NOBODYS:
            shutil.rmtree(data)


async def _stage(folder: Path, made: Manifest, staging: Path, watch: CommandProgress) -> None:
    """Build store, blobs, log and keys in the staging folder."""
    store = EdgeStore(staging / manifest.STORE)
    try:
        await store.start()
        await _fill(store, folder, made, watch)
        if (known := await pairing.in_store(store)) is not None:
            # Above the restored log's checkpoint, and with the ends that this log must have.
            checkpoint = max(known.checkpoint + 1, made.checkpoint)
            wanted = msgspec.structs.replace(known, checkpoint=checkpoint, ends=made.ends or known.ends)
            await pairing.tell_store(store, wanted, known=known)
        await store.flush()
    finally:
        await store.close()
    files = [file.path for file in made.files if not file.path.startswith(f"{manifest.STORE}/")]
    watch.begin("blobs", len(files))
    await asyncio.to_thread(_copy, folder, staging, files, watch)


async def _fill(store: Store, folder: Path, made: Manifest, watch: CommandProgress) -> None:
    names = [
        file.path.removeprefix(f"{manifest.STORE}/") for file in made.files if file.path.startswith(manifest.STORE)
    ]
    watch.begin("store", made.points)
    for name in collections.in_reading_order(names):  # the registry first: it says how the others are made
        await collections.create(store, name, await registry_of(store))
        for points in _read(manifest.place(folder, f"{manifest.STORE}/{name}")):
            await store.upsert(name, points)
            watch.step(len(points))


def _read(path: Path) -> Iterator[list[Point]]:
    frames = wire.Frames()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            for frame in frames.feed(chunk):
                reply = wire.REPLIES.decode(frame)
                assert isinstance(reply, wire.CallDone)  # the file's hash was checked, so a backup wrote it
                yield _points.decode(reply.body)


def _copy(folder: Path, staging: Path, paths: list[str], watch: CommandProgress) -> None:
    for path in paths:
        target = manifest.place(staging, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(manifest.place(folder, path), target)
        target.chmod(0o600)
        watch.step(1)


def _settle(staging: Path, data: Path) -> None:
    """Move everything to its place. The log comes last: as long as it is missing, no process starts on the store."""
    os.sync()
    for name in (manifest.STORE, manifest.BLOBS, manifest.KEYS, manifest.LOG):
        if (staging / name).exists():
            (staging / name).rename(data / name)
    os.sync()


def restore_lines(done: Restored) -> Iterator[str]:
    """Yield the lines to print without `--json`."""
    what = f"{done.documents} documents, {done.points} points, {done.blobs} blobs"
    yield f"The backup of {done.created}, made by Sluice {done.sluice}, is whole: {what}"
    if done.dry_run:
        yield f"Would restore it into {done.path}"
        return
    yield f"Restored into {done.path} in {done.seconds:.1f} s"
    if done.settings:
        yield "It was made with " + ", ".join(f"SLUICE_{name.upper()}={value}" for name, value in done.settings.items())
    yield f"Start it with SLUICE_DATA={done.path} sluice serve, then compare it with its log: sluice verify"
