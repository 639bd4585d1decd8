"""Starts what the benchmark measures: processes, the fake servers, and imports."""

import contextlib
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENVS = HERE.parent / ".venvs"
SOURCE = HERE.parent.parent / "src"


def environment():
    """Returns a contestant's environment: taofold and this folder importable, compiled once, no
    proxy.
    """
    kept = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join([str(SOURCE), str(HERE)]),
        "PYTHONPYCACHEPREFIX": str(VENVS / "compiled"),
        "NO_PROXY": "127.0.0.1,localhost",
    }


def probe(task, **options):
    """Runs `probe.py` once, in a fresh process."""
    command = [sys.executable, str(HERE / "probe.py"), task, json.dumps(options)]
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


@contextlib.contextmanager
def serving(python, script, *arguments):
    """A server that prints its port: gives its base URL, ends it afterwards."""
    command = [str(python), str(script), *arguments]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.terminate()
        process.wait()


def import_ms(statement, python=sys.executable):
    """CPU of a fresh interpreter that runs `statement`, start-up included, in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([str(python), "-c", statement], env=environment(), check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1e3 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
