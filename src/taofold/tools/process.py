"""Runs one program with its children and collects what they print.

Whatever happens, cancellation included, no process of its group is left when it returns.
Knows nothing about tools or containers.
"""

import asyncio
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

MOST_BYTES: Final = 64_000_000
"""A program that prints more is stopped: nobody will read it."""
_CHUNK: Final = 65_536
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
) -> int:
    """Run it and return its exit code (-9 = killed by signal 9). `heard` gets each chunk.

    Output and errors come in one stream, in the order they were written. It gets the
    descriptors `inherited`.

    Raises:
        OSError: it cannot be started.
        Flood: it printed more than `most` bytes.
    """
    reader, writer = os.pipe()
    pipe = _Pipe(reader, heard, most)
    try:
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=folder,
                env=dict(environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writer,
                stderr=writer,
                start_new_session=True,
                pass_fds=inherited,
            )
        finally:
            os.close(writer)
        try:
            await pipe.until(process)
        finally:
            _kill(process.pid)
            code = await asyncio.shield(_reaped(process))
        if pipe.flooded:
            raise Flood(f"it printed more than {most:,} bytes and was stopped")
        return code
    finally:
        pipe.close()


async def gone(pid: int, seconds: float) -> bool:
    """Has the process `pid`, which need not be a child, ended within `seconds`? Linux only."""
    try:
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


def _kill(group: int) -> None:
    # The group's number stays taken while any member, even a dead one, is not reaped; the
    # leader is reaped by asyncio, so a late kill could at worst find no such group.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


class _Pipe:
    """The reading end, served by the event loop."""

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
        if self._left < 0:
            self.flooded = True
        if not chunk or self.flooded:
            self._loop.remove_reader(self._fd)
            self._ended.set()

    async def until(self, process: asyncio.subprocess.Process) -> None:
        """Until the program has ended and its output is read, or there is too much of it."""
        ended = asyncio.ensure_future(self._ended.wait())
        exited = asyncio.ensure_future(process.wait())
        try:
            await asyncio.wait({ended, exited}, return_when=asyncio.FIRST_COMPLETED)
            if self.flooded:
                return
            if exited.done():
                # A background child may hold the pipe open for ever.
                _kill(process.pid)
                await asyncio.wait({ended}, timeout=_GRACE)
            else:
                await exited  # it closed its output and goes on working
        finally:
            ended.cancel()
            exited.cancel()

    def close(self) -> None:
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
