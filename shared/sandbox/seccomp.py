"""Seccomp: a filter in classic BPF that the kernel runs on every system call of this process.

A refused call fails with EPERM and doesn't kill the process, because libraries try calls that they can do without. A
call by another architecture's table kills it: only an attacker makes one. https://docs.kernel.org/userspace-api/seccomp_filter.html
"""

import ctypes
import errno
import os
import platform
import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

_LIBC = ctypes.CDLL(None, use_errno=True)
X86_64, AARCH64 = "x86_64", "aarch64"


def machine() -> str:
    """Return the processor's architecture. Raises OSError unless it is one whose system calls we know."""
    name = platform.machine()
    if name not in (X86_64, AARCH64):
        raise OSError(f"the system calls of {name} are not known")
    return name


def called(result: int) -> int:
    """Return a C function's result. Raises OSError where it is negative."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def syscall(number: int, *arguments: object) -> int:
    """Return the result of a system call by its number. Raises OSError."""
    return called(_LIBC.syscall(ctypes.c_long(number), *arguments))


def prctl(option: int, argument: int) -> int:
    """Return the system's answer to an option of this process. Raises OSError."""
    return called(_LIBC.prctl(option, *map(ctypes.c_ulong, (argument, 0, 0, 0))))


OURSELVES: Final = -1


class Only(NamedTuple):
    """A condition on one argument of a call. It must be a number: a filter can't read what a pointer points to."""

    place: int  # of the argument, counted from 0
    values: tuple[int, ...]  # one of which it must be; OURSELVES stands for the process's id
    mask: int = 0xFFFFFFFF  # bits that count


class CallSet(NamedTuple):
    """What a kind of process may call."""

    calls: dict[str, dict[str, int]]  # name -> number by architecture
    conditions: dict[str, Sequence[Sequence[Only]]]  # a call is allowed if all of one of these hold


def _set(wanted: str) -> dict[str, dict[str, int]]:
    """Return the calls of a set of `system_calls.txt`, each with its number on the architectures that have it."""
    lines = Path(__file__).with_name("system_calls.txt").read_text("ascii").splitlines()
    rows = (line.split() for line in lines if not line.startswith("#"))
    return {
        name: {on: int(number) for on, number in zip((X86_64, AARCH64), numbers, strict=True) if number != "-"}
        for name, *numbers, of in rows
        if of == wanted
    }


_COMMON: Final = _set("common")  # what each of our processes calls
_OPENING: Final = _set("opening")  # files
_SERVING_FILES: Final = _set("serving")  # sockets, and changes of files
# They fail as on an older kernel, so that libraries use the older call: the filter can't read flags behind a pointer.
NOT_THERE: Final = _set("absent")

_CLONE_THREAD: Final = 0x10000
_WRITES: Final = os.O_ACCMODE | os.O_CREAT | os.O_TRUNC
_O_ASYNC: Final = 0x2000
_F_SETFL: Final = 4
# F_DUPFD, F_GETFD, F_SETFD, F_GETFL; F_GETLK, F_SETLK, F_SETLKW and the same of open files; F_DUPFD_CLOEXEC,
# F_GETPIPE_SZ, F_GET_SEALS. F_SETOWN and F_SETSIG would send signals to any process; Landlock stops that since 6.12.
_FCNTL: Final = (0, 1, 2, 3, 5, 6, 7, 36, 37, 38, 1030, 1032, 1034)
_STREAM: Final = Only(1, (socket.SOCK_STREAM,), mask=0xF)  # a datagram socket could be pointed at other processes
_CONDITIONS: Final[dict[str, Sequence[Sequence[Only]]]] = {
    "clone": [[Only(0, (_CLONE_THREAD,), mask=_CLONE_THREAD)]],  # threads, no processes
    "kill": [[Only(0, (OURSELVES,))]],
    "tgkill": [[Only(0, (OURSELVES,))]],
    "prlimit64": [[Only(0, (0,))]],  # this process
    "prctl": [[Only(0, (15, 16, 0x53564D41))]],  # PR_SET_NAME, PR_GET_NAME, PR_SET_VMA
    "fcntl": [[Only(1, _FCNTL)], [Only(1, (_F_SETFL,)), Only(2, (0,), mask=_O_ASYNC)]],
    # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX: they read state, or set a flag of a descriptor
    "ioctl": [[Only(1, (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451))]],
    "socketpair": [[_STREAM]],
}
_READING: Final[dict[str, Sequence[Sequence[Only]]]] = {
    "open": [[Only(1, (os.O_RDONLY,), mask=_WRITES)]],
    "openat": [[Only(2, (os.O_RDONLY,), mask=_WRITES)]],
}

PARSER: Final = CallSet(_COMMON | _OPENING, _CONDITIONS | _READING)
STORE: Final = CallSet(
    _COMMON | _OPENING | _SERVING_FILES, _CONDITIONS | {"socket": [[Only(0, (socket.AF_UNIX,)), _STREAM]]}
)


ALLOW: Final = 0x7FFF0000
KILL: Final = 0x80000000
REFUSE: Final = 0x00050000 | errno.EPERM
ABSENT: Final = 0x00050000 | errno.ENOSYS
_NUMBER: Final = {X86_64: 317, AARCH64: 277}  # of seccomp(2)
_AUDIT: Final = {X86_64: 0xC000003E, AARCH64: 0xC00000B7}
_X32: Final = 0x40000000  # x86-64's second table of calls begins here
_NEWER: Final = 450  # calls from here on are newer than this file
_LOAD, _AND, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x54, 0x15, 0x35, 0x06
_CALL_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
_SET_FILTER, _ALL_THREADS = 1, 1


class Instruction(NamedTuple):
    """One instruction of classic BPF."""

    code: int
    operand: int
    then: int = 0  # instructions skipped where the comparison holds
    otherwise: int = 0


def install(calls: CallSet) -> None:
    """Let the kernel refuse all other calls of this process, in all its threads, for good.

    Raises:
        OSError: this kernel, container or architecture doesn't have it.
    """
    packed = b"".join(struct.pack("HBBI", i.code, i.then, i.otherwise, i.operand) for i in program(calls, machine()))
    held = ctypes.create_string_buffer(packed, len(packed))

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))

    filter_ = Program(len(packed) // 8, ctypes.addressof(held))
    syscall(_NUMBER[machine()], ctypes.c_uint(_SET_FILTER), ctypes.c_uint(_ALL_THREADS), ctypes.byref(filter_))


def program(calls: CallSet, on: str, process: int | None = None) -> list[Instruction]:
    """Return the filter for an architecture; `process` is this one unless given."""
    process = os.getpid() if process is None else process
    filtered = [
        Instruction(_LOAD, _ARCH_AT),
        Instruction(_EQUAL, _AUDIT[on], 1, 0),
        Instruction(_RETURN, KILL),
        Instruction(_LOAD, _CALL_AT),
    ]
    if on == X86_64:
        filtered += [Instruction(_AT_LEAST, _X32, 0, 1), Instruction(_RETURN, KILL)]
    for name, numbers in calls.calls.items():
        if (number := numbers.get(on)) is not None:
            alternatives = calls.conditions.get(name)
            outcome = [_END] if alternatives is None else _judged(alternatives, process)
            filtered += [Instruction(_EQUAL, number, 0, len(outcome)), *outcome]
    for numbers in NOT_THERE.values():
        filtered += [Instruction(_EQUAL, numbers.get(on) or 0, 0, 1), Instruction(_RETURN, ABSENT)]
    newer = [Instruction(_AT_LEAST, _NEWER, 0, 1), Instruction(_RETURN, ABSENT)]
    return [*filtered, *newer, Instruction(_RETURN, REFUSE)]


_END: Final = Instruction(_RETURN, ALLOW)


def _judged(alternatives: Sequence[Sequence[Only]], process: int) -> list[Instruction]:
    """Return the instructions that allow a call if all conditions of one alternative hold.

    The lower half of the argument is enough: the kernel takes these as 32-bit numbers, and clone's flags are there.
    """
    allowed = [instruction for each in alternatives for instruction in _if_all(each, process)]
    return [*allowed, Instruction(_RETURN, REFUSE)]


def _if_all(conditions: Sequence[Only], process: int) -> list[Instruction]:
    """Return the instructions that allow a call if the conditions hold, and else go on after them."""
    then = [_END]
    for only in reversed(conditions):
        loaded = Instruction(_LOAD, _ARGUMENTS_AT + 8 * only.place)  # little-endian, as both architectures are
        *first, last = [process if value == OURSELVES else value for value in only.values]
        tests = [Instruction(_EQUAL, value, len(first) - at, 0) for at, value in enumerate(first)]
        then = [loaded, Instruction(_AND, only.mask), *tests, Instruction(_EQUAL, last, 0, len(then)), *then]
    return then
