"""The blob store in a folder: tenant/documentId/sha256.

A name appears only when its bytes are on disk: they are written under .incoming~, synced and renamed, then the folders
are synced. Every change to a document's folder holds a lock, so that a blob that was just put again isn't collected
because of its former age. The locks are separate files, because NFS can't lock folders.

A put makes few system calls, and uses descriptors instead of file objects, which make more: at each call its thread
gives up Python's lock, and may wait for the event loop to get it back (docs/adr/0010-blobs.md).
"""

import asyncio
import fcntl
import hashlib
import os
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from shared.blobs import Document, StoredBlob, blob_name, document_name
from shared.contracts import BlobRef
from shared.errors import Rejected, Unavailable

_INCOMING: Final = ".incoming~"  # no tenant has a tilde
_LOCKS: Final = ".locks~"
_ABANDONED_S: Final = 3600.0
_PUTS: Final = 16  # at once: most of a put is waiting for syncs, and those under way share the disk's journal
_MODE: Final = 0o666  # as `open` does, less the umask


class FileBlobs:
    """The blob store of `file:`; several processes may share the folder.

    Every method raises Rejected for a name that isn't valid, and Unavailable when the disk can't be read or written; a
    put that fails leaves nothing under the blob's name.
    """

    def __init__(self, folder: Path) -> None:
        """Take the folder, which is created at the first put."""
        self._folder = folder
        self._putting = ThreadPoolExecutor(_PUTS, thread_name_prefix="blob-put")
        self._swept = False
        self._lasting: set[Path] = set()  # tenants' folders whose directory entries have been synced

    async def put(self, tenant: str, document_id: str, data: bytes) -> BlobRef:
        document = self._document(tenant, document_id)
        return await asyncio.get_running_loop().run_in_executor(self._putting, self._put, document, data)

    async def get(self, tenant: str, document_id: str, ref: BlobRef) -> bytes:
        return await asyncio.to_thread(self._get, self._document(tenant, document_id) / blob_name(ref.sha256), ref)

    async def stored(self, document: Document | None = None) -> AsyncIterator[Sequence[StoredBlob]]:
        """Yield the blobs, those of one document at a time."""
        now = time.time()
        every = await asyncio.to_thread(self._documents) if document is None else [self._document(*document)]
        for each in every:
            if found := await asyncio.to_thread(self._stored, each, now):
                yield found

    async def remove(self, blob: StoredBlob) -> bool:
        path = self._document(blob.tenant, blob.document_id) / blob_name(blob.sha256)
        return await asyncio.to_thread(self._remove, path, blob.put)

    def _documents(self) -> list[Path]:
        with self._failures_named():
            tenants = [path for path in self._folder.glob("*") if "~" not in path.name]
            return [document for tenant in tenants for document in tenant.iterdir()]

    def _stored(self, document: Path, now: float) -> list[StoredBlob]:
        found = []
        with self._failures_named(), suppress(FileNotFoundError):  # a document's folder is deleted with its last blob
            for path in document.iterdir():
                # Others may delete it meanwhile; another program's file is no blob.
                with suppress(FileNotFoundError, Rejected):
                    names, status = (document.parent.name, document.name, blob_name(path.name)), path.stat()
                    found.append(StoredBlob(*names, status.st_size, _put_of(status), now - status.st_mtime))
        return found

    def _document(self, tenant: str, document_id: str) -> Path:
        return self._folder / document_name(tenant, document_id)

    def _put(self, document: Path, data: bytes) -> BlobRef:
        ref = BlobRef(sha256=hashlib.sha256(data).hexdigest(), size=len(data))
        target = document / ref.sha256
        with self._failures_named():
            if not self._swept:
                self._swept = True
                self._sweep()
            if not (target.exists() and self._renewed(target, data)):
                self._write(target, data)
        return ref

    def _get(self, path: Path, ref: BlobRef) -> bytes:
        with self._failures_named():
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                raise Rejected(f"the blob {self._shown(path)} is missing", "blob_missing") from None
        if hashlib.sha256(data).hexdigest() != ref.sha256:
            raise Rejected(
                f"the blob {self._shown(path)} was altered: its {len(data)} bytes aren't the {ref.size} bytes stored",
                "blob_altered",
            )
        return data

    def _renewed(self, target: Path, data: bytes) -> bool:
        with self._lock(target.parent), suppress(FileNotFoundError):
            if target.read_bytes() == data:
                self._sync_names(target.parent)  # its writer may have been killed before it did so
                os.utime(target)
                return True
        return False

    def _write(self, target: Path, data: bytes) -> None:
        document, temporary = target.parent, self._folder / _INCOMING / uuid4().hex
        try:
            _write_synced(temporary, data)
            with self._lock(document):
                document.mkdir(parents=True, exist_ok=True)
                temporary.rename(target)
                self._sync_names(document)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise

    def _sync_names(self, document: Path) -> None:
        """Sync the folders that lead to the document's blobs."""
        # A folder's directory entry is in its parent, so parents are synced, too. A document's folder is deleted with
        # its last blob; a tenant's folder stays, so its entry is synced once.
        tenant = document.parent
        for folder in (document, tenant):
            _sync(folder)
        if tenant not in self._lasting:
            for folder in (self._folder, self._folder.parent):
                _sync(folder)
            self._lasting.add(tenant)

    def _remove(self, path: Path, put: str) -> bool:
        with self._failures_named(), self._lock(path.parent):
            if not path.exists() or _put_of(path.stat()) != put:
                return False
            path.unlink()
            with suppress(OSError):  # not empty
                path.parent.rmdir()
        return True

    @contextmanager
    def _lock(self, document: Path) -> Iterator[None]:
        # 256 locks for all documents; they are never removed, so a name always means the same lock.
        descriptor = _opened(self._folder / _LOCKS / document.name[:2], os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _sweep(self) -> None:
        """Delete half-written files of dead processes."""
        limit = time.time() - _ABANDONED_S
        for path in (self._folder / _INCOMING).glob("*"):
            with suppress(FileNotFoundError):  # its writer finished, or another sweep deleted it
                if path.stat().st_mtime < limit:
                    path.unlink()

    def _shown(self, path: Path) -> str:
        return str(path.relative_to(self._folder))

    @contextmanager
    def _failures_named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Unavailable(f"the blob folder {self._folder}: {error.strerror or error}") from error


def _put_of(status: os.stat_result) -> str:
    return f"{status.st_ino}-{status.st_mtime_ns}"  # another put changes the time or creates a new file


def _write_synced(path: Path, data: bytes) -> None:
    """Write a new file; return when its bytes are on disk."""
    descriptor = _opened(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _opened(path: Path, flags: int) -> int:
    """Return a descriptor of the file; its folder is made where it is missing."""
    try:
        return os.open(path, flags, _MODE)
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        return os.open(path, flags, _MODE)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
