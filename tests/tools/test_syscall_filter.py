"""System calls that a contained command may not make.

Mutants: no `--seccomp`; a rule omitted; the mode of `open` checked without its flags, or not at
all; `openat2`, io_uring or the numbers of x32 allowed; another processor's program.
"""

import errno
import os
import struct
import sys
from pathlib import Path

import pytest

from taofold.tools import syscall_filter
from taofold.tools.command import command_tool
from tests.tools.test_command import contained, root, use

__all__ = ["root"]

pytestmark = pytest.mark.anyio

ALLOW = 0x7FFF0000
X86, ARM = 0xC000003E, 0xC00000B7


def verdict(machine: str, architecture: int, number: int, *arguments: int) -> str:
    """Runs the filter as the kernel does."""
    given = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("<IIQ6Q", number, architecture, 0, *given)
    steps = list(struct.iter_unpack("<HBBI", syscall_filter.program(machine)))
    place = loaded = 0
    while True:
        code, yes, no, operand = steps[place]
        place += 1
        if code == 0x20:
            (loaded,) = struct.unpack_from("<I", data, operand)
        elif code == 0x06:
            if operand == ALLOW:
                return "allowed"
            assert operand >> 16 == 0x0005
            return errno.errorcode[operand & 0xFFFF]
        else:
            holds = {0x15: loaded == operand, 0x35: loaded >= operand, 0x45: loaded & operand}[code]
            place += yes if holds else no


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ((0,), "allowed"),  # read
        ((250, 0), "EPERM"),  # keyctl
        ((248,), "EPERM"),
        ((249,), "EPERM"),
        ((16, 0, 0x5412), "EPERM"),  # TIOCSTI
        ((16, 0, 0x5412 | 1 << 32), "EPERM"),  # the kernel reads the lower half only
        ((16, 0, 0x541C), "EPERM"),
        ((16, 0, 0x5401), "allowed"),  # TCGETS
        ((90, 0, 0o755), "allowed"),
        ((90, 0, 0o4755), "EPERM"),
        ((91, 3, 0o2755), "EPERM"),
        ((268, 3, 0, 0o4755), "EPERM"),
        ((452, 3, 0, 0o6755), "EPERM"),
        ((85, 0, 0o4755), "EPERM"),
        ((133, 0, 0o104755), "EPERM"),
        ((259, 3, 0, 0o104755), "EPERM"),
        ((2, 0, os.O_CREAT, 0o4755), "EPERM"),
        ((2, 0, os.O_RDONLY, 0o4755), "allowed"),  # nothing is made: the mode is not read
        ((257, 3, 0, os.O_CREAT | os.O_WRONLY, 0o644), "allowed"),
        ((257, 3, 0, os.O_CREAT | os.O_WRONLY, 0o4755), "EPERM"),
        ((257, 3, 0, 0o20200000 | os.O_WRONLY, 0o4755), "EPERM"),  # O_TMPFILE
        ((437,), "ENOSYS"),
        ((425,), "ENOSYS"),
        ((426,), "ENOSYS"),
        ((427,), "ENOSYS"),
        ((0x40000000 | 90, 0, 0o4755), "ENOSYS"),  # x32
    ],
)
def test_calls_of_x86_64(call: tuple[int, ...], expected: str) -> None:
    assert verdict("x86_64", X86, *call) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ((63,), "allowed"),  # read
        ((219,), "EPERM"),
        ((217,), "EPERM"),
        ((218,), "EPERM"),
        ((29, 0, 0x5412), "EPERM"),
        ((52, 3, 0o4755), "EPERM"),
        ((53, 3, 0, 0o4755), "EPERM"),
        ((33, 3, 0, 0o104755), "EPERM"),
        ((56, 3, 0, os.O_CREAT, 0o4755), "EPERM"),
        ((56, 3, 0, os.O_RDONLY, 0o4755), "allowed"),
        ((437,), "ENOSYS"),
    ],
)
def test_calls_of_aarch64(call: tuple[int, ...], expected: str) -> None:
    assert verdict("aarch64", ARM, *call) == expected


def test_another_processors_program_can_call_nothing() -> None:
    assert verdict("x86_64", 0x40000003, 15, 0, 0o755) == "ENOSYS"  # chmod of i386


def test_an_unknown_processor_has_no_filter() -> None:
    assert syscall_filter.program("riscv64") == b""


@contained
@pytest.mark.skipif(
    not syscall_filter.program(), reason="the filter knows x86_64 and aarch64, not this processor"
)
@pytest.mark.parametrize(
    "attempt",
    [
        "os.chmod('a', 0o4755)",
        "os.chmod('a', 0o2755)",
        "os.fchmod(os.open('a', os.O_RDONLY), 0o6755)",
        "os.close(os.open('b', os.O_CREAT | os.O_WRONLY, 0o4755))",
        "os.mknod('c', 0o104755)",
        "fcntl.ioctl(pty.openpty()[1], termios.TIOCSTI, b'x')",
        "keys('add_key')",
        "keys('keyctl')",
    ],
)
async def test_a_contained_command_is_refused(root: Path, attempt: str) -> None:
    numbers = {"add_key": 248, "keyctl": 250} if os.uname().machine == "x86_64" else None
    code = f"""
import ctypes, errno, fcntl, os, pty, termios
libc = ctypes.CDLL(None, use_errno=True)
def keys(name):
    number = ({numbers} or dict(add_key=217, keyctl=219))[name]
    # KEYCTL_GET_KEYRING_ID of the session's keyring; add_key fails for its arguments if it is there
    if libc.syscall(number, 0, -3, 0, 0, 0) < 0:
        raise OSError(ctypes.get_errno(), name)
open('a', 'w').close()
try:
    {attempt}
    print('done')
except OSError as error:
    print(errno.errorcode[error.errno])
"""
    (root / "attempt.py").write_text(code)
    outcome = await use(command_tool(root, contain="always"), [sys.executable, "attempt.py"])
    assert outcome.extraction == "EPERM"
    assert not any([path.stat().st_mode & 0o6000 for path in root.iterdir()])


@contained
async def test_ordinary_modes_are_set(root: Path) -> None:
    box = command_tool(root, contain="always")
    script = (
        "touch a && chmod 755 a && install -m 600 a b && mkdir -m 700 c && stat -c %a a b c | xargs"
    )
    outcome = await use(box, script)
    assert outcome.extraction == "755 600 700"


@contained
async def test_localhost_is_found_without_a_network(root: Path) -> None:
    code = "import socket; print(sorted({a[4][0] for a in socket.getaddrinfo('localhost', 80)}))"
    box = command_tool(root, contain="always")
    outcome = await use(box, [sys.executable, "-c", code])
    assert "127.0.0.1" in (outcome.extraction or "")


@contained
async def test_settings_of_a_linked_environment_are_not_shown(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    for folder in ("bin", "lib", "etc/jupyter"):
        (other / folder).mkdir(parents=True)
    (other / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (other / "etc" / "jupyter" / "password.json").write_text("mine")
    (other / "lib" / "seen.txt").write_text("library")
    (root / ".venv").symlink_to(other)
    box = command_tool(root, contain="always")
    assert (await use(box, "cat .venv/lib/seen.txt")).extraction == "library"
    assert "No such file" in (await use(box, "cat .venv/etc/jupyter/password.json")).value
