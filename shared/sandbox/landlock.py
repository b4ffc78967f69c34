"""Landlock: only files beneath given paths can be reached, and no TCP ports or other processes.

https://docs.kernel.org/userspace-api/landlock.html
"""

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

from shared.sandbox.seccomp import syscall

_CREATE, _ADD, _RESTRICT = 444, 445, 446  # the same numbers on all architectures
_VERSION_FLAG = 1
_BENEATH = 1
_WRITE_FILE, _READ_FILE, _READ_DIR, _REFER, _TRUNCATE, _IOCTL = 1 << 1, 1 << 2, 1 << 3, 1 << 13, 1 << 14, 1 << 15
_FIRST_RIGHTS = (1 << 13) - 1
_MAKE_DEVICES = 1 << 6 | 1 << 11
_OF_FILES = 1 | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL  # the only rights that a rule for a file may have
_TCP = 1 << 0 | 1 << 1
SCOPES = 1 << 0 | 1 << 1  # abstract sockets and signals
_SCOPED_SINCE = 6  # Linux 6.12
_WRITING_SINCE = 2  # earlier versions forbid moving files between folders, which the store does


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def restrict(read: Sequence[Path], write: Sequence[Path]) -> None:
    """Restrict this thread and those it starts; paths that don't exist are left out.

    Raises:
        OSError: this kernel doesn't have Landlock, or not enough of it.
    """
    version = _version()
    if write and version < _WRITING_SINCE:
        raise OSError(f"Landlock {version} can't move files between folders")
    since = {2: _REFER, 3: _TRUNCATE, 5: _IOCTL}
    # All rights over files that this version knows, so that each of them is restricted.
    rights = _FIRST_RIGHTS | sum(right for first, right in since.items() if version >= first)
    attributes = _Ruleset(rights, _TCP if version >= 4 else 0, SCOPES if version >= _SCOPED_SINCE else 0)
    rules = syscall(_CREATE, ctypes.byref(attributes), ctypes.c_size_t(ctypes.sizeof(attributes)), ctypes.c_uint32(0))
    try:
        for path in read:
            _allow(rules, path, _READ_FILE | _READ_DIR)
        for path in write:
            _allow(rules, path, rights & ~(1 | _MAKE_DEVICES | _IOCTL))
        syscall(_RESTRICT, ctypes.c_int(rules), ctypes.c_uint32(0))
    finally:
        os.close(rules)


def check_scopes() -> None:
    """Raise OSError unless this kernel's Landlock stops signals to other processes, and their abstract sockets."""
    if _version() < _SCOPED_SINCE:
        raise OSError("this Landlock has no scopes")


def _version() -> int:
    return syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_FLAG))


def _allow(rules: int, path: Path, rights: int) -> None:
    try:
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        rule = _Beneath(rights if path.is_dir() else rights & _OF_FILES, folder)
        syscall(_ADD, ctypes.c_int(rules), ctypes.c_int(_BENEATH), ctypes.byref(rule), ctypes.c_uint32(0))
    finally:
        os.close(folder)
