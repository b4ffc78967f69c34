"""Brings the data of an earlier release to this one's format, while nothing runs. docs/adr/0003-sqlite-log.md

The data folder is copied first; while the copy is unfinished, its name ends with `.partial`. A mark in the data folder
names the copy until the end. So a run after a crash continues, and doesn't copy a folder that is half migrated.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from services.operator_cli.audited import audited
from services.operator_cli.client import CommandError
from services.operator_cli.existing_log import check_log_exists, existing_log
from services.operator_cli.moving.backup import PARTIAL, check_standalone
from services.operator_cli.verify import command
from services.operator_cli.verify.verifier import VerifyProgress
from shared.contracts import Message
from shared.log.open import log_file
from shared.log.sqlite.file import users
from shared.log.sqlite.inspection import LogFileState, inspect_file, migrate_file
from shared.runtime.data_lock import lock_data_folder
from shared.runtime.migrations import (
    NEWEST,
    DataFormat,
    MigratedParts,
    Migration,
    Part,
    due,
    format_of,
    index_format,
    pairing_keys,
)
from shared.settings import ConfigurationError, Settings
from shared.state.index import GENERATIONS
from shared.store import Store, wire
from shared.store.edge import EdgeStore
from shared.store.folder_copy import copied_folder, copy_without_holes, disk_bytes
from shared.store.folder_lock import is_closed, owner
from shared.store.open import open_store
from shared.topics import PAIRING

MARK: Final = "upgrade.json"  # in the data folder, from before the copy until log and index were compared
LOG_ELSEWHERE: Final = "log-elsewhere"  # folder within the copy, for a log that is outside the data folder
_INSPECTING: Final = ".inspecting-store"
_OURS: Final = {MARK, _INSPECTING, ".inspecting"}  # names that aren't copied
_ROOM: Final = 1.1  # free disk space that a copy needs, relative to the folder's size


class UpgradeStep(Message, frozen=True, kw_only=True):
    """A migration that is due, or was applied."""

    number: int
    part: Part
    what: str


class Upgraded(Message, frozen=True, kw_only=True):
    """What was done, or would be."""

    path: str  # the data folder
    dry_run: bool
    format: int  # of the folder before the upgrade
    newest: int  # format of this release
    migrations: tuple[UpgradeStep, ...]
    copy: str = ""  # folder of the copy; empty: none was made
    copy_bytes: int = 0
    verdict: str = ""  # result of comparing log and index; empty: nothing was compared
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """Return 0 if log and index agree, 1 if they differ, 2 if not everything could be compared."""
        return {"wrong": 1, "unsettled": 2}.get(self.verdict, 0)


class UpgradeMark(Message, frozen=True, kw_only=True):
    """The upgrade that is under way."""

    format: int  # of the folder when it began
    copy: str = ""  # where the folder's copy is, or will be; empty: none is made


class UpgradeRequest(NamedTuple):
    """The options of an upgrade."""

    settings: Settings
    watch: VerifyProgress
    target: Path | None = None  # of the copy; None: beside the data folder
    copies: bool = True
    patience_s: float = 20.0  # for the process of a store that is ending, and for documents that are on their way
    step: Callable[[str], None] = lambda _: None  # called before each step; for tests


async def upgrade(request: UpgradeRequest, *, dry_run: bool) -> Upgraded:
    """Return what was done. After a crash, call it again.

    A dry run changes no file. Nothing is embedded.

    Raises:
        CommandError: something runs; the copy's name is taken; or the disk has too little room.
        ConfigurationError: the folder is in use, or a newer release has written it; there is no log yet; a part is on a
            server, so that it can't be copied; or the index is lost.
        Unavailable: a part is away.
    """
    settings, began = request.settings, asyncio.get_running_loop().time()
    check_log_exists(settings)
    with _locked(settings, request.patience_s):
        found = await _inspect(settings)
        wanted, mark = due(found), _read_mark(settings.data)
        done = Upgraded(
            path=str(settings.data),
            dry_run=dry_run,
            format=format_of(found),
            newest=NEWEST,
            migrations=tuple(UpgradeStep(number=each.number, part=each.part, what=each.what) for each in wanted),
        )
        if not wanted and mark is None:
            return done
        mark = mark or UpgradeMark(format=done.format, copy=_target(request))
        done = msgspec.structs.replace(done, copy=mark.copy)
        if mark.copy:
            size = await asyncio.to_thread(_copy_bytes, settings)
            _check_copy(settings, Path(mark.copy), size, begun=_read_mark(settings.data) is not None)
            done = msgspec.structs.replace(done, copy_bytes=size)
        if dry_run:
            return done
        await _make_copy(request, mark)
        await _apply(request, wanted)
    request.step("verify")
    async with command.opened(settings) as parts:
        outcome = await command.verify(
            parts, request.watch, repair=False, dry_run=False, sample=0, patience_s=request.patience_s
        )
    request.step("unmark")
    (settings.data / MARK).unlink(missing_ok=True)
    seconds = round(asyncio.get_running_loop().time() - began, 1)
    return msgspec.structs.replace(done, verdict=outcome.report.verdict, seconds=seconds)


@contextmanager
def _locked(settings: Settings, patience_s: float) -> Iterator[None]:
    if not settings.keeps_data:
        yield
        return
    with lock_data_folder(settings.data):
        store = settings.data / "store"
        if settings.embeds_store and not is_closed(store, patience_s):
            raise CommandError(f"{store} is in use by process {owner(store)}: stop it first")
        yield


# Inspecting


async def _inspect(settings: Settings) -> DataFormat:
    path = log_file(settings.log, settings.data)
    if path is not None and (count := users(path)):
        raise CommandError(f"{path} is in use by {count} other processes of Sluice: stop all of them first")
    async with _inspected_index(settings) as store:
        index = "none" if store is None else await index_format(store)
    if path is None:
        async with existing_log(settings) as log:
            return DataFormat(log=NEWEST, keys=await pairing_keys(log), index=index)
    file: LogFileState = await asyncio.to_thread(inspect_file, path, PAIRING)
    return DataFormat(log=file.version, keys=file.keys, index=index)


@asynccontextmanager
async def _inspected_index(settings: Settings) -> AsyncIterator[Store | None]:
    """Yield a started store that has the registry, None if there is no store yet.

    Opening an embedded store changes its files, so the store yielded is a copy of that one small collection.
    """
    async with AsyncExitStack() as stack:
        if not settings.embeds_store:
            store = open_store(settings)
        else:
            place = Path(wire.COLLECTIONS) / GENERATIONS
            if not (settings.data / "store" / place).is_dir():
                yield None
                return
            folder = settings.data / _INSPECTING
            shutil.rmtree(folder, ignore_errors=True)
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            await asyncio.to_thread(copied_folder, settings.data / "store" / place, folder / place)
            store = EdgeStore(folder)
        stack.push_async_callback(store.close)
        await store.start()
        yield store


# Copying


def _target(request: UpgradeRequest) -> str:
    """Return where the copy goes, empty if none is wanted.

    Raises:
        ConfigurationError: the folder can't be copied there.
    """
    if not request.copies:
        return ""
    try:
        check_standalone(request.settings)
    except ConfigurationError as error:
        raise ConfigurationError(f"{error}. Then run sluice upgrade --no-backup") from None
    data = request.settings.data.resolve()
    if request.target is None:
        if data.is_mount():
            raise ConfigurationError(
                f"SLUICE_DATA={data} is a mount point, so a folder beside it is on another disk: name a folder for the "
                "copy with --backup"
            )
        return str(data.with_name(f"{data.name}.before-{NEWEST}"))
    target = request.target.resolve()
    if target.is_relative_to(data):
        raise ConfigurationError(
            f"--backup {target} is inside SLUICE_DATA={data}, the folder to copy: name another one"
        )
    return str(target)


def _check_copy(settings: Settings, target: Path, size: int, *, begun: bool) -> None:
    if target.exists():
        if begun:
            return
        raise CommandError(f"{target} exists: choose another folder with --backup, or delete it")
    there = next(folder for folder in target.absolute().parents if folder.is_dir())
    free, needed = shutil.disk_usage(there).free, int(_ROOM * size)
    if free < needed:
        raise CommandError(
            f"{there} has {free / 1e6:.0f} MB free, and the copy of {settings.data} needs {needed / 1e6:.0f} MB: name "
            "a folder on another disk with --backup"
        )


def _copy_bytes(settings: Settings) -> int:
    elsewhere = _log_elsewhere(settings)
    return disk_bytes(settings.data) + sum(path.stat().st_size for path in elsewhere)


def _log_elsewhere(settings: Settings) -> list[Path]:
    """Return the files of a log that is outside the data folder."""
    path = log_file(settings.log, settings.data)
    if path is None or path.resolve().is_relative_to(settings.data.resolve()):
        return []
    return [file for file in (path, path.with_name(path.name + "-wal")) if file.exists()]


async def _make_copy(request: UpgradeRequest, mark: UpgradeMark) -> None:
    """Copy the data folder, unless an interrupted run of this upgrade has made the copy already."""
    request.step("mark")
    begun = _read_mark(request.settings.data) is not None
    if not begun and request.settings.keeps_data:
        _write_mark(request.settings.data, mark)
    if not mark.copy:
        return
    request.step("copy")
    try:
        request.watch.begin("copy", 0)
        await asyncio.to_thread(_copy, request, Path(mark.copy))
    except BaseException as error:
        if not begun:
            (request.settings.data / MARK).unlink()
        if isinstance(error, OSError):
            raise CommandError(f"{request.settings.data} can't be copied: {error}") from error
        raise


def _copy(request: UpgradeRequest, target: Path) -> None:
    if target.exists():  # made by a run that was interrupted later
        return
    data, partial_ = request.settings.data.resolve(), target.with_name(target.name + PARTIAL)
    shutil.rmtree(partial_, ignore_errors=True)
    partial_.parent.mkdir(parents=True, exist_ok=True)

    def ignored(folder: str, _: list[str]) -> set[str]:
        return _OURS if Path(folder) == data else set()

    copied_folder(data, partial_, ignore=ignored)
    if elsewhere := _log_elsewhere(request.settings):
        (partial_ / LOG_ELSEWHERE).mkdir()
        for file in elsewhere:
            copy_without_holes(file, partial_ / LOG_ELSEWHERE / file.name)
    os.sync()  # one call for all files
    request.step("settle")
    partial_.rename(target)
    os.sync()


def _read_mark(data: Path) -> UpgradeMark | None:
    try:
        return msgspec.json.decode((data / MARK).read_bytes(), type=UpgradeMark)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError:
        return None  # a crash interrupted its write, so nothing was done yet


def _write_mark(data: Path, mark: UpgradeMark) -> None:
    new = data / f"{MARK}.new"
    with new.open("wb") as file:
        file.write(msgspec.json.encode(mark))
        os.fsync(file.fileno())
    new.rename(data / MARK)


# Migrating


async def _apply(request: UpgradeRequest, wanted: tuple[Migration, ...]) -> None:
    """Apply the migrations. Those of the log's file come first, because opening the log needs its tables."""
    settings, path = request.settings, log_file(request.settings.log, request.settings.data)
    request.watch.begin("migrations", len(wanted))
    if path is not None:
        await asyncio.to_thread(migrate_file, path, lambda each: request.step(str(each.number)))
    rest = [each for each in wanted if each.apply is not None]
    if not rest:
        return
    async with AsyncExitStack() as stack:
        log = await stack.enter_async_context(existing_log(settings))
        store = open_store(settings)
        stack.push_async_callback(store.close)
        await store.start()
        await stack.enter_async_context(audited(log, settings, "upgrade"))
        for each in rest:
            request.step(str(each.number))
            assert each.apply is not None
            await each.apply(MigratedParts(settings, log, store))
            request.watch.step(1)
