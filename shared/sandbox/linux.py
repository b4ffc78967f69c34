"""System calls that Python has no function for."""

import ctypes
import os
import platform

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
