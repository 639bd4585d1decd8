"""Real pytest runs at a tenth of their cost: a process that has loaded pytest, and forks.

Reads one JSON line `{"folder": …, "arguments": [...], "seconds": …}` per run and answers
with one JSON line `{"code": …, "output": …}`. `code` is null if the time was up.
"""

import json
import os
import select
import signal
import sys
import time

import pytest


def run(folder: str, arguments: list[str], seconds: float) -> dict[str, object]:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        os.chdir(folder)
        sys.path[0] = folder
        code = 3
        try:
            code = int(pytest.main(["-p", "no:cacheprovider", *arguments]))
        finally:
            sys.stdout.flush()
            os._exit(code)
    os.close(writing)
    output, end, late = b"", time.monotonic() + seconds, False
    while True:
        ready, _, _ = select.select([reading], [], [], max(end - time.monotonic(), 0))
        if not ready:
            os.kill(child, signal.SIGKILL)
            late = True
            break
        chunk = os.read(reading, 65536)
        if not chunk:
            break
        output += chunk
    os.close(reading)
    status = os.waitpid(child, 0)[1]
    code = None if late else os.waitstatus_to_exitcode(status)
    return {"code": code, "output": output.decode(errors="replace")}


if __name__ == "__main__":
    for line in sys.stdin:
        asked = json.loads(line)
        print(json.dumps(run(asked["folder"], asked["arguments"], asked["seconds"])), flush=True)
