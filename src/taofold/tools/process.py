"""Runs a program with its children and collects their output.

No process of the program's group is left when `run` returns, also on cancellation. `OutputExcerpt`
keeps the useful part of a long output in bounded memory: its head, its tail, and error lines
between. `key_line` picks the most informative line. `has_ended` waits for a process that is not a
child. This module does not depend on tools or containers.
"""

import asyncio
import os
import re
import signal
from codecs import getincrementaldecoder
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from taofold.core.errors import ConfigError
from taofold.core.text import clip
from taofold.reserved_places import open_named

MOST_BYTES: Final = 64_000_000
"""Maximum bytes of output. A program that prints more is stopped."""
_CHUNK: Final = 65_536
_SHEBANG: Final = re.compile(rb"#!\s*(\S+)(?:[ \t]+(?:-S[ \t]+)?(\S+))?")
_LINE: Final = 4096
"""Maximum bytes of a script's first line that Linux reads."""
_GRACE: Final = 1.0
"""Seconds to wait for the rest of the output once the program has ended."""


class Flood(RuntimeError):
    """The program printed more than `MOST_BYTES`."""


async def run(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    heard: Callable[[bytes], object],
    most: int = MOST_BYTES,
    inherited: Sequence[int] = (),
    left_running: Callable[[], object] = lambda: None,
    given: bytes = b"",
) -> int:
    """Runs a program and returns its exit code (-9 = killed by signal 9).

    Output and errors come in one stream, in the order they were written.

    Args:
        command: The program and its arguments.
        folder: Its working directory.
        environment: Its environment variables.
        heard: Called with each chunk of output.
        most: Maximum bytes of output.
        inherited: Descriptors that the program inherits.
        left_running: Called if the program ended before its background processes, which are
            stopped.
        given: Its standard input.

    Raises:
        OSError: The program cannot be started.
        Flood: The program printed more than `most` bytes.
    """
    reader, writer = os.pipe()
    pipe = _Pipe(reader, heard, most)
    try:
        try:
            with _standard_input(given) as source:
                process = await asyncio.create_subprocess_exec(
                    *command,
                    cwd=folder,
                    env=dict(environment),
                    stdin=source,
                    stdout=writer,
                    # One pipe for both, so that errors keep their position in the output.
                    stderr=writer,
                    # A separate group, so that background processes are killed with the program.
                    start_new_session=True,
                    pass_fds=inherited,
                )
        finally:
            # With our copy open, the reading end would never see the end of the output.
            os.close(writer)
        try:
            if await pipe.until(process):
                left_running()
        finally:
            # In a finally block, so that a cancellation stops the group too.
            _kill(process.pid)
            # A child without a wait stays a zombie.
            code = await asyncio.shield(_reaped(process))
        if pipe.flooded:
            raise Flood(f"it printed more than {most:,} bytes and was stopped")
        return code
    finally:
        pipe.close()


@contextmanager
def _standard_input(given: bytes) -> Generator[int]:
    """Yields a descriptor from which a program reads `given`."""
    if not given:
        yield asyncio.subprocess.DEVNULL
        return
    # A file, because a program that never reads would block a full pipe.
    with TemporaryFile() as source:
        source.write(given)
        source.seek(0)
        yield source.fileno()


def shebang(script: Path) -> tuple[str, str]:
    """Returns the program after `#!` and the word after it without `-S`, each "" if missing."""
    try:
        with open_named(script) as file:
            words = _SHEBANG.match(file.readline(_LINE))
    except (OSError, ConfigError):
        return "", ""
    return ("", "") if words is None else (os.fsdecode(words[1]), os.fsdecode(words[2] or b""))


async def has_ended(pid: int, seconds: float) -> bool:
    """Returns True if the process `pid`, which need not be a child, ends in time. Linux only."""
    try:
        # Unlike a pid, a descriptor keeps its process when the pid is reused.
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(fd, ended.set)
    try:
        await asyncio.wait_for(ended.wait(), seconds)
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(fd)
        os.close(fd)
    return True


async def _reaped(process: asyncio.subprocess.Process) -> int:
    return await process.wait()


def _kill(group: int) -> bool:
    """Kills the group. Returns True if a process was left in it."""
    # The group's number stays taken until every member is reaped. asyncio reaps the leader, so a
    # late kill at worst finds no such group.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
        return True
    return False


class _Pipe:
    """The reading end of the pipe, served by the event loop."""

    def __init__(self, fd: int, heard: Callable[[bytes], object], most: int) -> None:
        self._fd, self._heard, self._left = fd, heard, most
        self._loop = asyncio.get_running_loop()
        self._ended = asyncio.Event()
        self.flooded = False
        os.set_blocking(fd, False)
        self._loop.add_reader(fd, self._readable)

    def _readable(self) -> None:
        try:
            chunk = os.read(self._fd, _CHUNK)
        except BlockingIOError:
            return
        self._left -= len(chunk)
        if chunk:
            self._heard(chunk)
        # The reader stops, and the writer blocks on the full pipe until it is killed.
        if self._left < 0:
            self.flooded = True
        if not chunk or self.flooded:
            self._loop.remove_reader(self._fd)
            self._ended.set()

    async def until(self, process: asyncio.subprocess.Process) -> bool:
        """Waits until the program has ended and its output is read, or is too large.

        Returns True if it left other processes running, which are stopped.
        """
        ended = asyncio.ensure_future(self._ended.wait())
        exited = asyncio.ensure_future(process.wait())
        try:
            await asyncio.wait({ended, exited}, return_when=asyncio.FIRST_COMPLETED)
            if self.flooded:
                return False
            if not exited.done():
                await exited  # it closed its output but still runs
            # A background child may hold the pipe open forever.
            left = _kill(process.pid)
            await asyncio.wait({ended}, timeout=_GRACE)
            return left
        finally:
            ended.cancel()
            exited.cancel()

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)


HEAD: Final = 5_000
TAIL: Final = 7_000
MOST_LINES: Final = 40
WIDEST: Final = 300

_ERROR: Final = re.compile(
    r"\b(?:\w*error|\w*exception|failed|failure|fatal|traceback|panic|denied)\b", re.IGNORECASE
)
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")


class OutputExcerpt:
    """Collects output in bounded memory. Limits are in characters."""

    def __init__(self, head: int = HEAD, tail: int = TAIL) -> None:
        self._most_head, self._most_tail = head, tail
        # A chunk may end in the middle of a character.
        self._decode = getincrementaldecoder("utf-8")("replace").decode
        self._head = self._tail = self._line = ""
        self._errors: list[str] = []
        self._dropped = 0
        self.bytes = 0

    def feed(self, chunk: bytes) -> str:
        """Takes the next bytes. Returns the part of them that extends the head."""
        self.bytes += len(chunk)
        text = self._decode(chunk)
        room = self._most_head - len(self._head)
        taken = text[:room]
        self._head += taken
        self._tail += text[room:]
        over = len(self._tail) - self._most_tail
        if over > 0:
            self._drop(self._tail[:over])
            self._tail = self._tail[over:]
        return taken

    def _drop(self, text: str) -> None:
        self._dropped += len(text)
        # The last piece has no line end yet and waits for the next chunk.
        *lines, rest = (self._line + text).split("\n")
        self._line = rest if len(rest) <= WIDEST else f"…{rest[-WIDEST:]}"
        for line in lines:
            if len(self._errors) < MOST_LINES and _ERROR.search(line[:WIDEST]):
                self._errors.append(clip(line, WIDEST))

    @property
    def text(self) -> str:
        """The kept output, and the amount that was omitted."""
        if not self._dropped:
            return without_escapes(self._head + self._tail)
        errors = "".join(f"\n{line}" for line in self._errors)
        notice = f"\n… {self._dropped:,} characters left out"
        notice += f"; error lines among them:{errors}\n…\n" if errors else " …\n"
        return without_escapes(self._head + notice + self._tail)


def without_escapes(text: str) -> str:
    """Returns text without terminal escapes, with the last state of progress bars (`\\r`)."""
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def key_line(text: str, failed: bool) -> str:
    """Returns the most informative line: of a failure the last error line, else the last line."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if failed:
        errors = [line for line in lines if _ERROR.search(line[:WIDEST])]
        lines = errors or lines
    return lines[-1][:WIDEST] if lines else ""
