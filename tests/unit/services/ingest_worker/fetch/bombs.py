"""Answers that are meant to hurt, and a fetcher that is asked for them, as a process: address, patience, paths.

Prints, as JSON: the resident MB before and the most during it, and for each bomb its code and seconds.
"""

import asyncio
import json
import sys
import time
import zlib
from pathlib import Path

import cramjam

from services.ingest_worker.fetch import Fetcher, FetchLimits
from services.ingest_worker.fetch.guard import Guard
from shared.errors import Rejected
from shared.runtime.process import tune_interpreter
from tests.servers.loopback import Connection
from tests.servers.website import Answer, Script, to
from tests.unit.services.ingest_worker.fetch.spellings import row

AT_ONCE = 4  # one that sends as fast as it can takes the website's time, too
GIB = 1 << 30
MIB = bytes(1 << 20)


def _deflated(wbits: int) -> bytes:
    """A GiB of zeros: the same block again and again, each ended so that it stands for itself."""
    packer = zlib.compressobj(9, zlib.DEFLATED, wbits)
    head = packer.compress(MIB) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(MIB) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + block * (GIB // len(MIB)) + packer.flush()


def _packed(coding: str, body: bytes) -> Answer:
    return Answer(body, headers=(f"content-encoding: {coding}", "content-type: text/html"))


def _endless(piece: bytes, pause_s: float = 0.0, *, chunked: bool = True) -> Script:
    async def script(connection: Connection) -> None:
        if chunked:
            await connection.begin("text/html")
        while True:
            await (connection.chunk(piece) if chunked else connection._write(piece))
            if pause_s:
                await asyncio.sleep(pause_s)

    return script


def _raw(head: bytes, then: Script | None = None) -> Script:
    async def script(connection: Connection) -> None:
        await connection._write(head)
        await (then or _silent)(connection)

    return script


async def _silent(connection: Connection) -> None:
    await connection.until_left()


def bombs() -> dict[str, Answer | list[Answer] | Script]:
    """Return the bombs by path."""
    gzipped, zeros = _deflated(31), _deflated(15)
    brotli = bytes(cramjam.brotli.compress(MIB * 256))
    ok = b"HTTP/1.1 200 OK\r\n"
    made: dict[str, Answer | list[Answer] | Script] = {
        "gzip": _packed("gzip", gzipped),
        "gzip-in-gzip": _packed("gzip, gzip", bytes(cramjam.gzip.compress(gzipped))),
        "gzip-in-gzip-in-gzip": _packed("gzip, gzip, gzip", b"x"),
        "gzip-members": _packed("gzip", bytes(cramjam.gzip.compress(MIB)) * 200),
        "deflate": _packed("deflate", zeros),
        "deflate-bare": _packed("deflate", _deflated(-15)),
        "brotli": _packed("br", brotli),
        "brotli-in-gzip": _packed("br, gzip", bytes(cramjam.gzip.compress(brotli))),
        "zstd": _packed("zstd", bytes(cramjam.zstd.compress(MIB * 256))),
        "zstd-window": _packed("zstd", bytes.fromhex("28b52ffd00a8010000") * 3),
        "error": Answer(gzipped, 404, ("content-encoding: gzip",)),
        "moved": to("/gzip")._replace(body=gzipped),
        "loop": to("/loop"),
        "endless": _endless(MIB),
        "endless-small": _endless(b"x"),
        "endless-plain": _raw(ok + b"\r\n", _endless(MIB, chunked=False)),
        "byte-a-second": _endless(b"x", 1.0),
        "silent": _silent,
        "head-a-second": _raw(ok, _endless(b"a: b\r\n", 1.0, chunked=False)),
        "endless-head": _raw(ok, _endless(b"a: b\r\n" * 1000, chunked=False)),
        "endless-line": _raw(ok + b"a: ", _endless(b"b" * 10_000, chunked=False)),
        "wrong-length": _raw(ok + b"content-length: 99999999999\r\n\r\n", _endless(MIB, chunked=False)),
        "short": _raw(ok + b"content-length: 1000\r\n\r\nshort"),
        "endless-chunk-size": _raw(ok + b"transfer-encoding: chunked\r\n\r\n", _endless(b"0" * 1000, chunked=False)),
    }
    return {f"/{name}": bomb for name, bomb in made.items()}


def _memory(name: str) -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith(name)).split()[1]) / 1024


async def _tried(fetcher: Fetcher, url: str) -> tuple[str, float]:
    began = time.monotonic()
    try:
        async with fetcher.page(url, tenant="t"):
            return "taken", time.monotonic() - began
    except Rejected as error:
        return error.code, time.monotonic() - began


async def _main(url: str, patience_s: float, names: list[str]) -> None:
    limits = FetchLimits(patience_s=patience_s, at_once=16, delay_s=0, turn_s=600, robots=False)
    fetcher = Fetcher(Guard("*.test", resolver=lambda _, port, *__: [row("127.0.0.1", port)]), limits)
    port = url.rpartition(":")[2]
    await _tried(fetcher, f"http://harmless.test:{port}/harmless")
    idle = _memory("VmRSS")
    ends: list[tuple[str, float]] = []
    for start in range(0, len(names), AT_ONCE):
        # A host each: requests to one that doesn't answer are paused.
        urls = [f"http://{name.strip('/')}.test:{port}{name}" for name in names[start : start + AT_ONCE]]
        ends += await asyncio.gather(*(_tried(fetcher, each) for each in urls))
    await fetcher.close()
    most = _memory("VmHWM")  # by the kernel's count; getrusage's begins with the parent's
    print(json.dumps({"idle": idle, "most": most, "ends": dict(zip(names, ends, strict=True))}))


if __name__ == "__main__":
    tune_interpreter()
    asyncio.run(_main(sys.argv[1], float(sys.argv[2]), sys.argv[3:]))
