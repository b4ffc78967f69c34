"""Builds the vector index of a copied shard in another process: the engine's optimizer holds Python's lock for minutes.

The store's process starts this file as a script before it confines itself; afterwards it can't start processes. A
request is a line on standard input, its reply a line on standard output. Each build runs in a confined process of its
own, which ends when the request is cancelled or when the store's process is gone.
"""

import os
import select
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_GONE = b""
_STOP = b"stop\n"
_M, _EF_CONSTRUCT = 16, 100  # HNSW: edges per point; candidates for an edge
_PLAIN_BELOW = 10_000  # kilobytes: if fewer of vectors pass a filter, they are compared without the graph


class IndexBuildError(Exception):
    """The index could not be built; the message says why."""


class VectorFormat(NamedTuple):
    """The vectors of a collection."""

    size: int  # length of a dense one
    half: bool  # dense ones are in half precision
    sparse: bool  # it has sparse ones, too


class IndexBuilder:
    """The client in the store's process; it requests one build at a time."""

    def __init__(self, folder: Path) -> None:
        """Start the process that builds indexes. Shards must be inside `folder`."""
        self._process = subprocess.Popen(  # noqa: S603 - our own file
            [sys.executable, "-P", __file__, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._reading = threading.Lock()
        self._asked = False  # whether a reply is still to be read
        self._reply = ""

    def begin(self, shard: Path, vectors: VectorFormat) -> None:
        """Request the index of a closed shard, whose vectors have this format. Raises IndexBuildError."""
        assert not self._asked
        self._send(f"{vectors.size} {int(vectors.half)} {int(vectors.sparse)} {shard}\n".encode())
        self._asked = True

    def wait(self) -> None:
        """Return when the index is built. Call it in a thread.

        Raises:
            IndexBuildError: the build failed; the shard must not be used.
        """
        self._read()
        if self._reply != "built":
            raise IndexBuildError(self._reply or "the process that builds indexes has ended")

    def stop(self) -> None:
        """Stop the build that is running, if any, and return when it has ended. Its `wait` raises."""
        if self._asked:
            with suppress(IndexBuildError):
                self._send(_STOP)
            self._read()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._reading:
            if self._asked:
                self._reply = self._process.stdout.readline().decode().strip()
                self._asked = False

    def _send(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
            self._process.stdin.flush()
        except OSError as error:
            raise IndexBuildError(f"the process that builds indexes has ended: {error}") from error


def serve(folder: Path) -> None:
    """Answer requests until standard input ends."""
    pending = b""
    while True:
        while b"\n" not in pending:
            read = os.read(0, 65_536)
            if read == _GONE:
                return
            pending += read
        line, _, pending = pending.partition(b"\n")
        if line + b"\n" == _STOP:  # the build ended before the request to stop it
            continue
        size, half, sparse, shard = line.decode().split(" ", 3)
        path = Path(shard).resolve()  # resolved first, so that a link can't lead outside
        if not path.is_relative_to(folder.resolve()):
            os.write(1, f"{path} is not in {folder}\n".encode())
            continue
        reply, pending = _built(path, VectorFormat(int(size), half == "1", sparse == "1"), pending)
        if reply == _GONE:
            return
        os.write(1, reply)


def _built(shard: Path, vectors: VectorFormat, pending: bytes) -> tuple[bytes, bytes]:
    """Return the reply, and input that was read beyond it. The reply is empty if standard input has ended."""
    ended, end = os.pipe()
    worker = os.fork()
    if worker == 0:
        os.close(ended)
        _work(shard, vectors)
    os.close(end)
    withdrawn = gone = False
    while not (withdrawn or gone):
        ready, _, _ = select.select([0, ended], [], [])
        if ended in ready:
            break
        read = os.read(0, 65_536)
        gone, pending = read == _GONE, pending + read
        withdrawn = pending.startswith(_STOP)
    if withdrawn or gone:
        os.kill(worker, signal.SIGKILL)
    _, status = os.waitpid(worker, 0)
    os.close(ended)
    code = os.waitstatus_to_exitcode(status)
    if gone:
        return _GONE, b""
    if withdrawn:
        return b"withdrawn\n", pending.removeprefix(_STOP)
    return (b"built\n" if code == 0 else f"the build ended with code {code}\n".encode()), pending


def _work(shard: Path, vectors: VectorFormat) -> None:
    """Build the index and end the process."""
    code = 1
    try:
        # Imported here, so that the process that waits for requests stays small, and has one thread: it may fork.
        import qdrant_edge  # noqa: PLC0415, F401

        from shared import sandbox  # noqa: PLC0415

        sandbox.confine(sandbox.STORE, read=sandbox.libraries(), write=[shard])
        build(shard, vectors)
        code = 0
    finally:
        os._exit(code)


def build(shard: Path, vectors: VectorFormat) -> None:
    """Build the index of the shard's dense vectors. Nobody else may have it open."""
    import qdrant_edge as qdrant  # noqa: PLC0415

    # Mapped from their files: read into memory, they would take a kilobyte a chunk and a second at each start.
    mapped = qdrant.Memory.Cached
    half = qdrant.VectorStorageDatatype.Float16
    # The index's weights are rounded, by 0.05 % at most; the vectors that it is built from are kept as they are.
    words = {"bm25": qdrant.EdgeSparseVectorParams(modifier=qdrant.Modifier.Idf, memory=mapped, datatype=half)}
    # Cold: the start doesn't wait until all vectors are read; the store's process has them read ahead afterwards.
    dense = qdrant.EdgeVectorParams(
        size=vectors.size,
        distance=qdrant.Distance.Cosine,
        datatype=half if vectors.half else None,
        memory=qdrant.Memory.Cold,
    )
    # Vectors in half precision are compared as fast as codes, which would take half as much space again.
    codes = qdrant.ScalarQuantizationConfig(qdrant.ScalarType.Int8, quantile=0.99, memory=mapped)
    opened = qdrant.EdgeShard.load(
        str(shard),
        qdrant.EdgeConfig(
            vectors=dense,
            sparse_vectors=words if vectors.sparse else None,
            hnsw_config=qdrant.HnswIndexConfig(_M, _EF_CONSTRUCT, _PLAIN_BELOW, memory=mapped),
            quantization_config=None if vectors.half else codes,
            optimizers=qdrant.EdgeOptimizersConfig(
                default_segment_number=1,
                max_segment_size=2**30,  # kilobytes: one segment, as one graph is searched faster than several
                indexing_threshold=1,
            ),
        ),
    )
    opened.optimize()
    opened.flush()
    opened.close()


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    serve(Path(sys.argv[1]))
