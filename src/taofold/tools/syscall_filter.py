"""System calls that a contained command cannot make, as a program for bubblewrap's `--seccomp`.

Namespaces do not separate everything. A contained command shares the session's keyring and can push
input into a terminal (`TIOCSTI`). It can also leave a setuid file in the work root, which runs as
its owner for every user of the machine. `program()` returns the filter for this machine's
processor. Refused calls end with EPERM. Calls whose arguments cannot be checked end with ENOSYS, so
the C library falls back to older ones: `openat2` and io_uring pass a pointer, x32 and 32-bit
programs have other numbers. Unknown processors have no filter.

Source: the kernel's `seccomp(2)`, `linux/filter.h`, and its tables of system calls.
"""

import errno
import platform
import struct
from dataclasses import dataclass, field
from typing import Final, TypeAlias

_LOAD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_ANY_BIT: Final = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN: Final = 0x06  # BPF_RET | BPF_K

_NUMBER: Final = 0  # offsets in struct seccomp_data
_ARCHITECTURE: Final = 4
_ALLOW: Final = 0x7FFF0000  # SECCOMP_RET_ALLOW
_REFUSED: Final = 0x00050000 | errno.EPERM  # SECCOMP_RET_ERRNO
_ABSENT: Final = 0x00050000 | errno.ENOSYS

_SETID: Final = 0o6000
"""The bits of a mode that make a program run as its owner or group."""
_CREATES: Final = 0o100 | 0o20000000
"""`O_CREAT` and the bit of `O_TMPFILE`. A call has a mode only with one of these."""
_TIOCSTI: Final = 0x5412
_TIOCLINUX: Final = 0x541C
_X32: Final = 0x40000000

Instruction: TypeAlias = tuple[int, int, int, int]
"""Code, steps to skip if true, steps to skip if false, operand."""


@dataclass(frozen=True, slots=True)
class _Processor:
    """System call numbers of one processor. `modes` and `opens` map to the argument index."""

    architecture: int
    keyrings: tuple[int, ...]
    ioctl: int
    modes: dict[int, int]
    opens: dict[int, int]
    absent: tuple[int, ...] = field(default=(437, 425, 426, 427))
    """openat2 and io_uring, with the same numbers on all processors."""


_PROCESSORS: Final = {
    "x86_64": _Processor(
        architecture=0xC000003E,
        keyrings=(248, 249, 250),  # add_key, request_key, keyctl
        ioctl=16,
        # chmod, fchmod, fchmodat, fchmodat2, creat, mknod, mknodat
        modes={90: 1, 91: 1, 268: 2, 452: 2, 85: 1, 133: 1, 259: 2},
        opens={2: 1, 257: 2},  # open, openat
    ),
    "aarch64": _Processor(
        architecture=0xC00000B7,
        keyrings=(217, 218, 219),
        ioctl=29,
        modes={52: 1, 53: 2, 452: 2, 33: 2},  # fchmod, fchmodat, fchmodat2, mknodat
        opens={56: 2},
    ),
}


def program(machine: str = "") -> bytes:
    """Returns the filter as an array of `struct sock_filter`. Empty for an unknown processor.

    Args:
        machine: The processor as `platform.machine()` names it. Default: this machine's.
    """
    processor = _PROCESSORS.get(machine or platform.machine())
    if processor is None:
        return b""
    return b"".join([struct.pack("=HBBI", *step) for step in _steps(processor)])


def _steps(processor: _Processor) -> list[Instruction]:
    steps: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, processor.architecture),
        (_RETURN, 0, 0, _ABSENT),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _ABSENT),
    ]
    for number in processor.absent:
        steps += _for_call(number, [(_RETURN, 0, 0, _ABSENT)])
    for number in processor.keyrings:
        steps += _for_call(number, [(_RETURN, 0, 0, _REFUSED)])
    steps += _for_call(
        processor.ioctl,
        [
            (_LOAD, 0, 0, _argument(1)),
            (_EQUAL, 1, 0, _TIOCSTI),
            (_EQUAL, 0, 1, _TIOCLINUX),
            (_RETURN, 0, 0, _REFUSED),
        ],
    )
    for number, mode in processor.modes.items():
        steps += _for_call(number, _refuse_setid(mode))
    for number, flags in processor.opens.items():
        # Without one of these flags the mode's register holds an unrelated value.
        asks = [(_LOAD, 0, 0, _argument(flags)), (_ANY_BIT, 0, 3, _CREATES)]
        steps += _for_call(number, [*asks, *_refuse_setid(flags + 1)])
    return [*steps, (_RETURN, 0, 0, _ALLOW)]


def _for_call(number: int, steps: list[Instruction]) -> list[Instruction]:
    """Returns the steps for one system call. Calls that they do not decide are allowed."""
    decided = [*steps, (_RETURN, 0, 0, _ALLOW)]
    return [(_EQUAL, 0, len(decided), number), *decided]


def _refuse_setid(argument: int) -> list[Instruction]:
    return [
        (_LOAD, 0, 0, _argument(argument)),
        (_ANY_BIT, 0, 1, _SETID),
        (_RETURN, 0, 0, _REFUSED),
    ]


def _argument(index: int) -> int:
    """Returns the offset of an argument's lower half, which both processors store first."""
    return 16 + 8 * index
