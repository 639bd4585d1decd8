"""A genuine llama.cpp server with tiny models, where there is one beside the checkout."""

import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.ports import PATIENCE, free_port


def _tools() -> Path:
    """The folder of the server and its models: `$TAOFOLD_LLAMA`, else one above the checkout."""
    if given := os.environ.get("TAOFOLD_LLAMA"):
        return Path(given)
    above = [parent / "shared" / "tools" for parent in Path(__file__).resolve().parents[2:]]
    return next((folder for folder in above if (folder / "llama-server").exists()), above[0])


TOOLS = _tools()
KEY = "sk-of-this-test"


@contextmanager
def serving(model: str, *more: str) -> Iterator[str]:
    port = free_port()
    flags = ["-t", "1", "-tb", "1", "-c", "16384", "-np", "4", "--no-webui", "--jinja", *more]
    server = subprocess.Popen(
        [TOOLS / "llama-server", "-m", TOOLS / f"{model}.gguf", "--alias", model, *flags,
         "--host", "127.0.0.1", "--port", str(port), "--api-key", KEY],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_for(f"http://127.0.0.1:{port}/health", server)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.kill()
        server.wait()


def wait_for(url: str, server: subprocess.Popen[bytes]) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        assert server.poll() is None, "the server ended at once"
        try:
            with opener.open(url, timeout=1):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.02)
    raise TimeoutError(f"the server did not start within {PATIENCE:.0f} s")
