"""Confines a child process for good: hostile data may take the process over, and must gain nothing by it.

`confine` is called once, at the start of the child, before it has threads: Landlock binds only the calling thread. The
mechanisms are independent of each other; one that this system lacks is left out of the result. Linux on x86-64 and
aarch64 has all of them, other systems have none (docs/adr/0029-sandbox.md).
"""

import ctypes
import os
import sys
import sysconfig
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path

from shared.sandbox import landlock, seccomp
from shared.sandbox.seccomp import PARSER, STORE, CallSet, called, prctl

__all__ = ["PARSER", "STORE", "CallSet", "conceal", "confine", "environment", "libraries"]

_PR_SET_DUMPABLE = 4
_PR_SET_NO_NEW_PRIVS = 38
_CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3 of capset(2)
_PROJECT = Path(__file__).resolve().parents[2]
_INHERITED = frozenset({"PATH", "HOME", "LANG", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "PYTHONDONTWRITEBYTECODE"})
_FILES = 256  # descriptors
# System libraries, fonts for the rendering of pages, time zones, and the number of processors.
_SYSTEM = (
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/share",
    "/usr/local/share/fonts",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/sys/devices/system/cpu",
    "/dev/urandom",
)


def confine(calls: CallSet, *, read: Sequence[Path], write: Sequence[Path] = ()) -> tuple[str, ...]:
    """Confine this process to these system calls and paths; return the names of the mechanisms that are active.

    Without `write` it can't write to any file, and has no capabilities.
    """
    if sys.platform != "linux":
        return ()
    means: list[tuple[str, Callable[[], object]]] = [
        ("limits", lambda: _limit(writes=bool(write))),
        ("not dumpable", lambda: prctl(_PR_SET_DUMPABLE, 0)),
        ("no new privileges", lambda: prctl(_PR_SET_NO_NEW_PRIVS, 1)),
        *(
            [] if write else [("no capabilities", _drop_capabilities)]
        ),  # the store keeps them: root may have access to its folder by a capability only
        ("landlock scopes", landlock.check_scopes),
        ("landlock", lambda: landlock.restrict(read, write)),
        ("seccomp", lambda: seccomp.install(calls)),
    ]
    active = []
    for name, apply in means:
        with suppress(OSError):  # this kernel or container doesn't have it
            apply()
            active.append(name)
    return tuple(active)


def conceal(secrets: Collection[str] = ()) -> None:
    """Keep other processes of this user from reading this one's memory, and forget environment variables."""
    if sys.platform == "linux":
        with suppress(OSError):
            prctl(_PR_SET_DUMPABLE, 0)
        _blank({os.fsencode(name) for name in secrets})
    for name in secrets:
        os.environ.pop(name, None)


def environment(**more: str) -> dict[str, str]:
    """Return the environment variables that a child needs; secrets in ours stay out."""
    kept = {name: value for name, value in os.environ.items() if name in _INHERITED or name.startswith("LC_")}
    path = [str(_PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(path), **more}


def libraries() -> list[Path]:
    """Return the paths that a Python process of Sluice reads: the interpreter, its packages, and our own code."""
    installed = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    installed |= {
        entry for entry in sys.path if entry.endswith("-packages")
    }  # a user's, Debian's, those of a .pth file
    own = [_PROJECT / "shared", _PROJECT / "services"]
    return [*map(Path, [*_SYSTEM, *installed, f"{sys.base_prefix}/lib"]), *own]


def _blank(names: set[bytes]) -> None:
    """Overwrite the variables' values where /proc/PID/environ shows them; removing a variable leaves them there."""
    variables = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    for at in count():
        if not (address := variables[at]):
            return
        name, _, value = ctypes.string_at(address).partition(b"=")
        if name in names:
            ctypes.memset(address + len(name) + 1, 0, len(value))


def _limit(*, writes: bool) -> None:
    import resource  # noqa: PLC0415 - not on every system

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not writes:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        few = _FILES if most == resource.RLIM_INFINITY else min(_FILES, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (few, few))


def _drop_capabilities() -> None:
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    none = (ctypes.c_uint32 * 6)()
    called(ctypes.CDLL(None, use_errno=True).capset(header, none))
