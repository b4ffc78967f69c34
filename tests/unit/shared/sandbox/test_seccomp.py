"""The filter, run by an interpreter of classic BPF: every call is judged as its table says, on both architectures."""

import re
import struct
import sys
from pathlib import Path

import pytest

from shared.sandbox.seccomp import (
    AARCH64,
    ABSENT,
    ALLOW,
    KILL,
    NOT_THERE,
    PARSER,
    REFUSE,
    STORE,
    X86_64,
    CallSet,
    program,
)

_AUDIT = {X86_64: 0xC000003E, AARCH64: 0xC00000B7}
_HEADERS = {X86_64: "/usr/include/x86_64-linux-gnu/asm/unistd_64.h", AARCH64: "/usr/include/asm-generic/unistd.h"}
_US = 4711
# name -> numbers on x86-64 and aarch64; none of them is for a parser
_NEVER = {
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "execveat": (322, 281),
    "ptrace": (101, 117),
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "memfd_create": (319, 279),
    "process_vm_readv": (310, 270),
    "io_uring_setup": (425, 425),
    "bpf": (321, 280),
    "mount": (165, 40),
    "pidfd_send_signal": (424, 424),
    "tkill": (200, 130),
    "unlinkat": (263, 35),
    "ftruncate": (77, 46),
    "setuid": (105, 146),
    "seccomp": (317, 277),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    "setpriority": (141, 140),
    "ioprio_set": (251, 30),
    "get_robust_list": (274, 100),
}


def _judged(calls: CallSet, on: str, number: int, *arguments: int, arch: int | None = None) -> int:
    """Return what the kernel would do with the call."""
    given = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, _AUDIT[on] if arch is None else arch, 0, *given)
    instructions = program(calls, on, process=_US)
    held = at = 0
    while True:
        code, operand, then, otherwise = instructions[at]
        at += 1
        match code:
            case 0x20:
                (held,) = struct.unpack_from("<I", data, operand)
            case 0x54:
                held &= operand
            case 0x15:
                at += then if held == operand else otherwise
            case 0x35:
                at += then if held >= operand else otherwise
            case 0x06:
                return operand
            case _:
                raise AssertionError(f"unknown instruction {code:#x}")


both = pytest.mark.parametrize("on", [X86_64, AARCH64])


@both
@pytest.mark.parametrize("calls", [PARSER, STORE])
def test_a_call_of_the_table_is_allowed_unless_its_argument_decides(on: str, calls: CallSet) -> None:
    for name, numbers in calls.calls.items():
        if (number := numbers.get(on)) is not None and name not in calls.conditions:
            assert _judged(calls, on, number) == ALLOW, name


@both
def test_what_no_parser_needs_is_refused(on: str) -> None:
    for name, numbers in _NEVER.items():
        number = numbers[on == AARCH64]
        if number is not None:
            assert _judged(PARSER, on, number, _US) == REFUSE, name


@both
def test_another_architectures_call_ends_the_process(on: str) -> None:
    assert _judged(PARSER, on, 0, arch=0x40000003) == KILL
    if on == X86_64:
        assert _judged(PARSER, on, 0x40000000 | 59) == KILL


@both
def test_calls_behind_pointers_and_newer_ones_are_absent(on: str) -> None:
    for numbers in NOT_THERE.values():
        assert _judged(PARSER, on, numbers.get(on) or 0) == ABSENT
    assert _judged(PARSER, on, 470) == ABSENT


@both
@pytest.mark.parametrize(
    ("name", "allowed", "refused"),
    [
        ("clone", [(0x3D0F00,)], [(17,), (0x10000000,), (0x4000 | 0x100,)]),
        ("kill", [(_US, 6)], [(1, 9), (0, 9), (0xFFFFFFFF, 9)]),
        ("tgkill", [(_US, 5, 6)], [(1, 1, 9)]),
        ("prlimit64", [(0, 7)], [(1, 7)]),
        ("prctl", [(15,)], [(1, 0), (4, 1), (22, 0)]),
        ("ioctl", [(0, 0x5421)], [(0, 0x5412)]),
        ("fcntl", [(3, 1), (3, 4, 0x800), (3, 6, 0x7F0000002000)], [(3, 8, 1), (3, 10, 10), (3, 15, 0x7F0000001000)]),
        ("fcntl", [(3, 4, 0)], [(3, 4, 0x2000), (3, 4, 0x2800), (3, 1024, 0)]),
        ("ioctl", [(0, 0x5401)], [(0, 0x5452), (0, 0x8901), (0, 0x8902)]),
        ("socketpair", [(1, 1), (1, 1 | 0o2000000)], [(1, 2), (1, 3)]),
        ("openat", [(0, 0, 0), (0, 0, 0o2000000)], [(0, 0, 1), (0, 0, 2), (0, 0, 0o100), (0, 0, 0o1000)]),
    ],
)
def test_an_argument_decides(
    on: str, name: str, allowed: list[tuple[int, ...]], refused: list[tuple[int, ...]]
) -> None:
    number = PARSER.calls[name].get(on)
    assert number is not None

    assert {_judged(PARSER, on, number, *arguments) for arguments in allowed} == {ALLOW}
    assert {_judged(PARSER, on, number, *arguments) for arguments in refused} == {REFUSE}
    # The kernel takes the lower half of an argument, so that the upper one changes nothing.
    wider = [tuple(argument ^ 1 << 40 for argument in arguments) for arguments in refused]
    assert {_judged(PARSER, on, number, *arguments) for arguments in wider} == {REFUSE}


@both
def test_the_store_has_unix_sockets_only_and_connects_to_nothing(on: str) -> None:
    number = STORE.calls["socket"].get(on)
    assert number is not None

    assert _judged(STORE, on, number, 1, 1) == ALLOW
    assert _judged(STORE, on, number, 2, 1) == REFUSE
    assert _judged(STORE, on, number, 1, 2) == REFUSE  # a datagram could be sent to any other socket
    assert "connect" not in STORE.calls


@both
@pytest.mark.skipif(sys.platform != "linux", reason="the headers are Linux'")
def test_the_numbers_are_those_of_the_kernels_headers(on: str) -> None:
    header = Path(_HEADERS[on])
    if not header.exists():
        pytest.skip(f"{header} is not installed")
    found = dict(re.findall(r"#define\s+__NR(?:3264)?_(\w+)\s+(\d+)", header.read_text()))
    if on == AARCH64:
        found["newfstatat"] = found["fstatat"]

    for name, numbers in (STORE.calls | PARSER.calls | NOT_THERE).items():
        number = numbers.get(on)
        assert name not in found or number is not None, name
        assert number is None or int(found[name]) == number, name
