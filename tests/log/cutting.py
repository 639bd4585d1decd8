"""A proxy in front of a PostgreSQL server's socket that loses answers."""

import socket
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from types import TracebackType
from urllib.parse import quote

NAME = ".s.PGSQL.5432"


class Proxy:
    """Forwards the data until it must cut the connection."""

    def __init__(self, root: Path) -> None:
        self.root, self.folder = root, Path(tempfile.mkdtemp(prefix="cut"))
        self.cuts = 0
        self.on_connection: Callable[[], None] = lambda: None
        """Called for each new connection, before it carries anything."""
        self._cut = threading.Event()
        self._made, self._dead = 0, 0
        self._broken = threading.Event()
        self._ended = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.folder / NAME))
        self._listener.listen()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def through(self, url: str) -> str:
        """The address, by way of this proxy."""
        return url.replace(quote(str(self.root), safe=""), quote(str(self.folder), safe=""))

    def cut_answer(self) -> None:
        """Lose the next answer, and the connection that it came by."""
        self._cut.set()

    def swallow(self) -> None:
        """Carry nothing more by the connections that there are, without ending them."""
        self._dead = self._made

    def break_all(self) -> None:
        """End the connections that carry nothing."""
        self._broken.set()

    def __enter__(self) -> "Proxy":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._ended.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _accept(self) -> None:
        while not self._ended.is_set():
            if not wait([self._listener], 0.05):
                continue
            client, _ = self._listener.accept()
            self.on_connection()
            server = socket.socket(socket.AF_UNIX)
            server.connect(str(self.root / NAME))
            thread = threading.Thread(target=self._carry, args=(client, server))
            self._threads.append(thread)
            thread.start()

    def _carry(self, client: socket.socket, server: socket.socket) -> None:
        number = self._made
        self._made += 1
        with client, server, suppress(OSError):
            while not self._ended.is_set():
                if number < self._dead:
                    if self._broken.wait(0.05):
                        return
                    continue
                ready = wait([client, server], 0.05)
                for source in (each for each in (client, server) if each in ready):
                    data = source.recv(1 << 16)
                    if not data:
                        return
                    if source is server and self._cut.is_set():
                        self._cut.clear()
                        self.cuts += 1
                        return
                    (client if source is server else server).sendall(data)
