"""Real pytest at a tenth of its cost: one process loads pytest, a fork of it runs each test suite.

One JSON line `{"folder", "arguments", "seconds"}` in, one `{"code", "output"}` out. A run may use
`seconds` of processor time, so that a busy machine changes no result; `code` is null after that.
"""

import json
import os
import resource
import signal
import sys
import time
from multiprocessing.connection import wait

import pytest

PATIENCE = 200
"""Wall clock per second of processor time, for what sleeps or waits. Beside twenty other jobs a
fork had a hundredth of a core: 12 would have called tests killed that end."""


def judge(folder: str, arguments: list[str], writing: int, seconds: int) -> None:
    for stream in (1, 2):
        os.dup2(writing, stream)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    os.chdir(folder)
    sys.path[:0] = [folder]
    code = 3
    try:
        code = int(pytest.main(["-p", "no:cacheprovider", *arguments]))
    finally:
        sys.stdout.flush()
        os._exit(code)


def run(folder: str, arguments: list[str], seconds: int) -> dict[str, object]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        judge(folder, arguments, writing, seconds)
    os.close(writing)
    parts: list[bytes] = []
    end = time.monotonic() + PATIENCE * seconds
    while wait([reading], max(end - time.monotonic(), 0)):
        chunk = os.read(reading, 1 << 16)
        if not chunk:
            break
        parts.append(chunk)
    else:
        os.kill(child, signal.SIGKILL)
    os.close(reading)
    status = os.waitpid(child, 0)[1]
    code = os.waitstatus_to_exitcode(status)
    said = b"".join(parts).decode(errors="replace")
    return {"code": code if code >= 0 else None, "output": said}


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(run(asked["folder"], asked["arguments"], asked["seconds"])), flush=True)
