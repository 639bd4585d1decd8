"""The official conformance suite: our bridge as its client, our server under its scenarios.

Not covered are features that we do not have: tasks, skills, sampling, roots, and a new sign-in
during a run (the scenarios scope-step-up and authorization-server-migration). Server scenarios that
need resources, prompts or contents other than text are not covered either.
"""

import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.ports import free_port, wait_for

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
AUTHORIZATION = (
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/basic-cimd",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
    "auth/2025-03-26-oauth-metadata-backcompat",
    "auth/2025-03-26-oauth-endpoint-fallback",
    "auth/resource-mismatch",
    "auth/offline-access-scope",
    "auth/offline-access-not-supported",
    "auth/iss-supported",
    "auth/iss-not-advertised",
    "auth/iss-supported-missing",
    "auth/iss-wrong-issuer",
    "auth/iss-unexpected",
    "auth/iss-normalized",
    "auth/metadata-issuer-mismatch",
    "auth/client-credentials-basic",
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
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_SCENARIO = re.compile(r"^[✓✗] ([\w-]+): (\d+) passed, (\d+) failed", re.MULTILINE)
_TOTAL = re.compile(r"Passed: (\d+)/(\d+), (\d+) failed")


def checked(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    said = _COLOURS.sub("", done.stdout + done.stderr)
    found = _TOTAL.search(said)
    assert found is not None, said
    good, all_, failed = map(int, found.groups())
    assert good == all_ > 0, said
    assert failed == 0, said
    assert done.returncode == 0, said


@pytest.mark.parametrize("scenario", CLIENT)
def test_our_bridge_is_a_good_client(scenario: str) -> None:
    command = f"{sys.executable} {SCRIPTS / 'client.py'}"
    suite = servers.needs().conformance
    checked(*suite, "client", "--command", command, "--scenario", scenario)


@pytest.mark.parametrize("scenario", AUTHORIZATION)
def test_our_bridge_signs_in_as_the_specification_says(scenario: str) -> None:
    command = f"{sys.executable} {SCRIPTS / 'client.py'}"
    suite = servers.needs().conformance
    words = [*suite, "client", "--command", command, "--scenario", scenario]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    found = _TOTAL.search(_COLOURS.sub("", done.stdout + done.stderr))
    # Some want the client to fail, so its own exit does not count.
    assert found is not None, done.stdout
    assert found[1] == found[2] != "0", done.stdout
    assert found[3] == "0", done.stdout


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    servers.needs()
    port = free_port()
    words = [sys.executable, str(SCRIPTS / "everything.py"), str(port)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port, process)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def test_our_server_is_a_good_server(url: str) -> None:
    """Every scenario that there is, in one go: starting the suite takes longer than a scenario."""
    words = [*servers.needs().conformance, "server", "--url", url, "--suite", "all"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    said = _COLOURS.sub("", done.stdout + done.stderr)
    found = {name: (int(good), int(bad)) for name, good, bad in _SCENARIO.findall(said)}
    wrong = {name: found.get(name) for name in SERVER if not passed(found.get(name))}
    assert not wrong, said
    assert len(found) > len(SERVER), "the suite was run as a whole"


def passed(counts: tuple[int, int] | None) -> bool:
    return counts is not None and counts[0] > 0 and counts[1] == 0


def test_a_scenario_that_fails_or_did_not_run_is_seen() -> None:
    assert [passed(one) for one in ((2, 0), (2, 1), (0, 0), None)] == [True, False, False, False]
    assert _SCENARIO.findall("\n✗ tools-list: 3 passed, 1 failed\n") == [("tools-list", "3", "1")]
