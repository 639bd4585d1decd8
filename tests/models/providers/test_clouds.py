"""Azure, Bedrock and Vertex, as far as testable without an account.

The vendors' own SDKs are the reference for address, authentication and body. A signature is
computed from the received request, as AWS does. The tests do not call the real clouds.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests import environments

SCRIPT = Path(__file__).with_name("clouds.py")
ROOT = SCRIPT.parents[3]


@pytest.fixture(scope="module")
def sent() -> dict[str, Any]:
    """Returns, by cloud, our request and the one of its SDK."""
    environment = environments.needs("providers")
    done = environment.run(
        SCRIPT,
        timeout=600,
        env={"PYTHONPATH": str(ROOT / "src"), "HOME": os.environ.get("HOME", "/tmp")},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    "cloud", ["bedrock", "vertex claude", "vertex gemini", "azure", "azure by identity"]
)
def test_the_address_and_the_key_are_those_of_the_vendors_sdk(
    sent: dict[str, Any], cloud: str
) -> None:
    ours, theirs = sent[cloud]
    for what in ("path", "key", "authorization", "signature"):
        assert ours[what] == theirs[what], what
    assert ours["key"] or ours["authorization"]


def test_amazon_would_take_the_signature(sent: dict[str, Any]) -> None:
    assert [one["signature"] for one in sent["bedrock signed"]] == ["valid", "valid"]


@pytest.mark.parametrize("cloud", ["bedrock", "vertex claude"])
def test_claude_in_a_cloud_is_named_by_the_address_and_the_version_by_the_body(
    sent: dict[str, Any], cloud: str
) -> None:
    ours, theirs = [one["body"] for one in sent[cloud]]
    assert "model" not in ours
    assert "model" not in theirs
    assert ours["anthropic_version"]
    assert theirs["anthropic_version"]
    assert ours["messages"][0]["content"][0]["text"] == "Hello"


def test_amazons_event_stream_is_read_and_a_damaged_one_is_an_error(sent: dict[str, Any]) -> None:
    assert sent["event stream"] == ["Hi", "reply", "reply", "reply"]
