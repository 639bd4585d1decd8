"""The two pipes between the loop and the reporter that runs beside the tests."""

import asyncio
import json
import os
import secrets
from typing import Final

MOST: Final = 64_000_000
"""Bytes of a report; what comes after them is not read."""


class Wire:
    """The two pipes: settings to the reporter, its report back."""

    def __init__(self, settings: dict[str, object]) -> None:
        self.nonce = secrets.token_hex(16)
        self.source, writer = os.pipe()
        self._reader, self.target = os.pipe()
        self.given = (self.source, self.target)
        self._settings = json.dumps({**settings, "nonce": self.nonce}).encode()
        self._writer, self._raw, self._open = writer, bytearray(), True

    def listen(self) -> None:
        """Give the settings and take the report as it comes."""
        loop = asyncio.get_running_loop()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        loop.add_reader(self._reader, self._readable)
        loop.add_writer(self._writer, self._writable)

    def _writable(self) -> None:
        try:
            done = os.write(self._writer, self._settings)
        except BlockingIOError:
            return
        except OSError:
            done = len(self._settings)
        self._settings = self._settings[done:]
        if not self._settings:
            self._stop_writing()

    def _stop_writing(self) -> None:
        if self._writer >= 0:
            asyncio.get_running_loop().remove_writer(self._writer)
            os.close(self._writer)
            self._writer = -1

    def _readable(self) -> bool:
        try:
            chunk = os.read(self._reader, 65_536)
        except BlockingIOError:
            return False
        self._raw += chunk[: MOST - len(self._raw)]
        return bool(chunk)

    def taken(self) -> bytes:
        """All that was reported, now that every process has ended."""
        self._stop_writing()
        while self._readable():
            pass
        return bytes(self._raw)

    def close(self) -> None:
        """Let go of the pipes."""
        self._stop_writing()
        asyncio.get_running_loop().remove_reader(self._reader)
        for fd in (self._reader, *self.given):
            os.close(fd)
