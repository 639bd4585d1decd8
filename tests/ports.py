"""Ports for programs that cannot choose their own, and how long it takes until they listen."""

import random
import socket
import subprocess
import time

PATIENCE = 300.0
"""Seconds after which a process that makes no progress has failed, on a busy machine, too."""
_BELOW_THE_SYSTEMS_OWN = range(20_000, 32_000)


def free_port() -> int:
    """Returns a free port outside the system's range of automatic ports.

    A port that was bound to 0 and released may be taken before the program binds it: by another
    test worker, or by the local end of a connection.
    """
    for port in random.sample(_BELOW_THE_SYSTEMS_OWN, 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise OSError("no port is free")


def wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    """Returns when the process listens at the port. Fails if it ends before, or after a timeout."""
    end = time.monotonic() + PATIENCE
    while True:
        assert process.poll() is None, "the server ended at once"
        with socket.socket() as door:
            if door.connect_ex(("127.0.0.1", port)) == 0:
                return
        assert time.monotonic() < end, "the server does not listen"
        time.sleep(0.02)
