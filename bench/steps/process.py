"""Starts what the benchmark measures: processes, the fake servers, and imports."""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent.parent / "src"


def environment():
    """For a contestant: taofold and this folder importable, nothing in the way of 127.0.0.1."""
    path = os.pathsep.join([str(SOURCE), str(HERE)])
    return {**os.environ, "PYTHONPATH": path, "NO_PROXY": "127.0.0.1,localhost"}


def probe(task, **options):
    """One run of `probe.py`, in a fresh process."""
    command = [sys.executable, str(HERE / "probe.py"), task, json.dumps(options)]
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


@contextlib.contextmanager
def serving(python, script, *arguments):
    """A server that prints its port; gives its base URL and ends it."""
    process = subprocess.Popen(
        [str(python), str(script), *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.terminate()
        process.wait()


def import_ms(statement, python=sys.executable, env=None):
    """CPU of a fresh interpreter that runs `statement`, in milliseconds, start-up included."""
    before = os.times()
    subprocess.run([str(python), "-c", statement], env=env or environment(), check=True)
    after = os.times()
    return cpu(after, before)


def cpu(after, before):
    user = after.children_user - before.children_user
    return 1e3 * (user + after.children_system - before.children_system)
