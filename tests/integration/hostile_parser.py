# ruff: noqa: PTH104, PTH108, PTH123, PTH208, PTH211
"""A parser process that a document has taken over: its one format runs what an attacker would, by bare system calls."""

import ctypes
import fcntl
import mmap
import os
import signal
import socket
import struct
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from services.ingest_worker import extract, parser_child
from services.ingest_worker.extract import Extraction, Format, Hints

MARK = b"HOSTILE"
THREADS = MARK + b" threads"  # a document that starts many threads
_F_SETOWN_EX, _F_SETSIG, _F_SETLEASE = 15, 10, 1024
_FIOASYNC, _FIOSETOWN, _SIOCSPGRP = 0x5452, 0x8901, 0x8902
_ARM = os.uname().machine == "aarch64"


class Prey(msgspec.Struct, frozen=True):
    """What the attacker knows of the system around it."""

    parent: int
    secret: str  # a file in the data folder
    folder: str  # the data folder
    port: int  # a listener on 127.0.0.1
    unix: str  # a listening Unix socket


def _c(name: str, *arguments: object) -> int:
    """Call a C function; raise OSError where it failed."""
    result = int(getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments))
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def _call(number: int, *arguments: object) -> int:
    return _c("syscall", ctypes.c_long(number), *arguments)


def _connected(
    kind: socket.SocketKind, address: tuple[str, int] | str, family: socket.AddressFamily = socket.AF_INET
) -> object:
    with socket.socket(family, kind) as out:
        out.connect(address)
        return out.send(b"gotcha")


def _forked() -> object:
    child = os.fork()
    if child == 0:
        os._exit(0)
    return os.waitpid(child, 0)


def _memory_executed() -> object:
    descriptor = os.memfd_create("payload")
    os.write(descriptor, b"#!/bin/sh\nexit 0\n")
    return subprocess.run([f"/proc/self/fd/{descriptor}"], check=True, close_fds=False)


def _peer_sent_to(unix: str) -> int:
    one, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    return one.sendto(b"gotcha", unix)


def _unlimited() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


@contextmanager
def _pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, two = socket.socketpair()
    with one, two:
        yield one, two


def _owned(parent: int) -> None:
    with _pair() as (one, _):
        fcntl.fcntl(one, fcntl.F_SETOWN, parent)


def _owned_by_struct(parent: int) -> None:
    with _pair() as (one, _):
        fcntl.fcntl(one, _F_SETOWN_EX, struct.pack("ii", 1, parent))


def _owned_by_ioctl(request: int, parent: int) -> None:
    with _pair() as (one, _):
        fcntl.ioctl(one, request, struct.pack("i", parent))


def _signal_chosen() -> None:
    with _pair() as (one, _):
        fcntl.fcntl(one, _F_SETSIG, signal.SIGUSR1)


def _asynchronous() -> None:
    with _pair() as (one, _):
        fcntl.fcntl(one, fcntl.F_SETFL, os.O_ASYNC)


def _asynchronous_by_ioctl() -> None:
    with _pair() as (one, _):
        fcntl.ioctl(one, _FIOASYNC, struct.pack("i", 1))


def _signalled_by_data(parent: int) -> None:
    with _pair() as (one, two):
        fcntl.fcntl(one, fcntl.F_SETOWN, parent)
        fcntl.fcntl(one, _F_SETSIG, signal.SIGUSR1)
        fcntl.fcntl(one, fcntl.F_SETFL, os.O_ASYNC)
        two.send(b"now")


def _leased() -> None:
    with open(extract.__file__, "rb") as file:
        fcntl.fcntl(file, _F_SETLEASE, fcntl.F_RDLCK)


def _robust_list_of(parent: int) -> None:
    head, size = ctypes.c_void_p(), ctypes.c_size_t()
    _call(100 if _ARM else 274, parent, ctypes.byref(head), ctypes.byref(size))


def _abstract() -> None:
    with socket.socket(socket.AF_UNIX) as out:
        out.bind("\0hostile")


def _limits_of(parent: int) -> None:
    import resource

    resource.prlimit(parent, resource.RLIMIT_NOFILE)


def _written_through_map(path: str) -> None:
    with open(path, "r+b") as file:
        mmap.mmap(file.fileno(), 4, prot=mmap.PROT_WRITE)[:4] = b"mine"


def attempts(prey: Prey) -> dict[str, Callable[[], object]]:
    """Return the attacks; each raises where it fails."""
    parent = f"/proc/{prey.parent}"
    return {
        "read the parent's environment": lambda: Path(f"{parent}/environ").read_bytes(),
        "read the parent's memory": lambda: Path(f"{parent}/mem").open("rb"),
        "list the parent's files": lambda: os.listdir(f"{parent}/fd"),
        "read the parent's arguments": lambda: Path(f"{parent}/cmdline").read_bytes(),
        "read a file of the data folder": lambda: Path(prey.secret).read_bytes(),
        "list the data folder": lambda: os.listdir(prey.folder),
        "read the users": lambda: Path("/etc/passwd").read_bytes(),
        "read the home": lambda: os.listdir(Path.home()),
        "write into the data folder": lambda: Path(prey.folder, "mine").write_text("x"),
        "overwrite a file": lambda: _written_through_map(prey.secret),
        "delete a file": lambda: os.unlink(prey.secret),
        "rename a file": lambda: os.rename(prey.secret, f"{prey.secret}.mine"),
        "write to /tmp": lambda: Path("/tmp/hostile-parser").write_text("x"),
        "write into our own packages": lambda: Path(extract.__file__).with_name("mine.py").write_text("x"),
        "make a link": lambda: os.symlink(prey.secret, f"{prey.folder}/link"),
        "make a device": lambda: os.mknod("/tmp/device", 0o600 | 0o060000, os.makedev(8, 0)),
        "open a raw disk": lambda: next(Path("/dev").glob("[vs]d[a-z]"), Path("/dev/mem")).open("rb"),
        "connect by TCP": lambda: _connected(socket.SOCK_STREAM, ("127.0.0.1", prey.port)),
        "connect by UDP": lambda: _connected(socket.SOCK_DGRAM, ("127.0.0.1", prey.port)),
        "connect by a Unix socket": lambda: _connected(socket.SOCK_STREAM, prey.unix, socket.AF_UNIX),
        "send through a pair of sockets": lambda: _peer_sent_to(prey.unix),
        "open a raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1),
        "listen": lambda: socket.create_server(("127.0.0.1", 0)),
        "fork": _forked,
        "run a program": lambda: subprocess.run(["/bin/true"], check=True),
        "become a program": lambda: os.execv("/bin/true", ["true"]),
        "run a program from memory": _memory_executed,
        "trace the parent": lambda: _c("ptrace", 16, prey.parent, 0, 0),
        "read another process's memory": lambda: _c("process_vm_readv", prey.parent, None, 0, None, 0, 0),
        "signal the parent": lambda: os.kill(prey.parent, signal.SIGUSR1),
        "signal everybody": lambda: os.kill(-1, signal.SIGUSR1),
        "signal the parent by a descriptor's owner": lambda: _owned(prey.parent),
        "the same by F_SETOWN_EX": lambda: _owned_by_struct(prey.parent),
        "the same by FIOSETOWN": lambda: _owned_by_ioctl(_FIOSETOWN, prey.parent),
        "the same by SIOCSPGRP": lambda: _owned_by_ioctl(_SIOCSPGRP, prey.parent),
        "choose the signal": _signal_chosen,
        "be asynchronous": _asynchronous,
        "be asynchronous by FIOASYNC": _asynchronous_by_ioctl,
        "signal the parent by data": lambda: _signalled_by_data(prey.parent),
        "hold a file by a lease": _leased,
        "bind an abstract socket": _abstract,
        "move the parent to a processor": lambda: os.sched_setaffinity(prey.parent, os.sched_getaffinity(0)),
        "schedule the parent": lambda: os.sched_setscheduler(prey.parent, os.SCHED_OTHER, os.sched_param(0)),
        "slow the parent down": lambda: os.setpriority(os.PRIO_PROCESS, prey.parent, 19),
        "slow its reading down": lambda: _call(30 if _ARM else 251, 1, prey.parent, 3 << 13),
        "read the parent's limits": lambda: _limits_of(prey.parent),
        "learn where the parent's locks are": lambda: _robust_list_of(prey.parent),
        "hold the parent by a descriptor": lambda: os.pidfd_open(prey.parent),
        "take privileges back": lambda: os.setuid(0),
        "leave the root folder": lambda: os.chroot("/"),
        "mount": lambda: _c("mount", b"none", b"/mnt", b"tmpfs", 0, None),
        "make namespaces": lambda: _c("unshare", 0x10000000),
        "make a ring of requests": lambda: _call(425, 8, ctypes.create_string_buffer(256)),
        "load a program into the kernel": lambda: _call(321 if os.uname().machine == "x86_64" else 280, 0, None, 0),
        "raise the limits": _unlimited,
        "outlive the parent": lambda: _c("prctl", 1, 0, 0, 0, 0),
        "be dumped": lambda: _c("prctl", 4, 1, 0, 0, 0),
    }


def read(data: bytes, hints: Hints) -> Extraction:
    """Return the outcome of each attack as JSON: "succeeded", or the error."""
    if data.startswith(THREADS):
        threading.stack_size(1 << 16)  # so that the limit of memory lets many start
        for _ in range(200):
            threading.Thread(target=signal.pause, daemon=True).start()
        signal.pause()
    prey = msgspec.json.decode(data.partition(b" ")[2].rstrip(b"."), type=Prey)
    outcomes = {}
    for name, attack in attempts(prey).items():
        try:
            attack()
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            outcomes[name] = type(error).__name__
        else:
            outcomes[name] = "succeeded"
    return Extraction(text=msgspec.json.encode(outcomes).decode(), document_type="hostile")


HOSTILE = Format(
    text_format="plain",
    document_type="hostile",
    media_types=frozenset(),
    suffixes=frozenset(),
    sniff=lambda data: data.startswith(MARK),
    read=read,
)


def main() -> None:
    """Serve as a parser with this format."""
    extract.FORMATS = (HOSTILE, *extract.FORMATS)
    parser_child.main(warm=())


if __name__ == "__main__":
    main()
