"""Seccomp: a filter in classic BPF that the kernel runs on every system call of this process.

A refused call fails with EPERM and doesn't kill the process, because libraries try calls that they can do without. A
call by another architecture's table kills it: only an attacker makes one. https://docs.kernel.org/userspace-api/seccomp_filter.html
"""

import ctypes
import errno
import os
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

from shared.sandbox.syscalls import AARCH64, NOT_THERE, OURSELVES, X86_64, CallSet, Only, machine, syscall

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
        if (number := numbers.on(on)) is not None:
            alternatives = calls.conditions.get(name)
            outcome = [_END] if alternatives is None else _judged(alternatives, process)
            filtered += [Instruction(_EQUAL, number, 0, len(outcome)), *outcome]
    for numbers in NOT_THERE.values():
        filtered += [Instruction(_EQUAL, numbers.on(on) or 0, 0, 1), Instruction(_RETURN, ABSENT)]
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
