"""The official conformance suite: our bridge as its client, our server under its scenarios.

Not covered: what we do not do (OAuth, tasks, skills, sampling, roots), and scenarios of the
server that want resources, prompts or other contents than text of the tools they name.
"""

import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from . import servers
from .kit import SCRIPTS

pytestmark = pytest.mark.mcp_real
CLIENT = (
    "initialize",
    "tools_call",
    "elicitation-sep1034-client-defaults",
    "sse-retry",
    "request-metadata",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    "json-schema-2020-12-preservation",
)
SERVER = (
    "server-initialize",
    "server-session-lifecycle",
    "ping",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-error",
    "tools-call-with-progress",
    "tools-call-elicitation",
    "json-schema-2020-12",
    "elicitation-sep1034-defaults",
    "elicitation-sep1330-enums",
    "server-sse-multiple-streams",
    "sep-2164-resource-not-found",
    "dns-rebinding-protection",
    "http-header-validation",
    "http-custom-header-server-validation",
    "input-required-result-request-state",
    "input-required-result-multi-round",
    "input-required-result-missing-input-response",
    "input-required-result-result-type",
    "input-required-result-unsupported-methods",
    "input-required-result-tampered-state",
    "input-required-result-ignore-extra-params",
    "input-required-result-validate-input",
)
_TOTAL = re.compile(r"Passed: (\d+)/(\d+), (\d+) failed")


def checked(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
    found = _TOTAL.search(said)
    assert found is not None, said
    passed, all_, failed = map(int, found.groups())
    assert passed == all_ > 0, said
    assert failed == 0, said
    assert done.returncode == 0, said


@pytest.mark.parametrize("scenario", CLIENT)
def test_our_bridge_is_a_good_client(scenario: str) -> None:
    command = f"{sys.executable} {SCRIPTS / 'client.py'}"
    suite = servers.needs().conformance
    checked(*suite, "client", "--command", command, "--scenario", scenario)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    servers.needs()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [sys.executable, str(SCRIPTS / "everything.py"), str(port)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(1000):
            assert process.poll() is None, "the server ended at once"
            with socket.socket() as door:
                if door.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.02)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("scenario", SERVER)
def test_our_server_is_a_good_server(scenario: str, url: str) -> None:
    checked(*servers.needs().conformance, "server", "--url", url, "--scenario", scenario)
