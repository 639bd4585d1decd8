"""`taofold doctor MODEL`: the stored facts, and the reported source of each."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from taofold.cli.findings import Finding
from taofold.cli.model_probe import examine
from taofold.models.probed import probed_profile
from taofold.models.transport import Body, Bounds, HttpResponse, OnBytes, answered_by
from taofold.runtime.providers import resolve


class Says:
    """A Responses endpoint that gives the same reply to every request, whole or streamed."""

    async def post(
        self,
        url: str,
        headers: Mapping[str, str],
        body: Body,
        bounds: Bounds,
        on_bytes: OnBytes | None = None,
    ) -> HttpResponse:
        part = {"type": "output_text", "text": '{"planet": "mars", "moons": 2}'}
        output = [{"type": "message", "content": [part]}]
        return HttpResponse(200, {}, msgspec.json.encode({"status": "completed", "output": output}))


@pytest.fixture
def findings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> tuple[dict[str, Finding], str]:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-this-test")
    monkeypatch.chdir(tmp_path)
    with answered_by(Says()):
        return {found.what: found for found in examine("openai:gpt-6.1-sol")}, "openai:gpt-6.1-sol"


def test_what_was_not_tried_stays_as_the_rules_have_it(
    findings: tuple[dict[str, Finding], str],
) -> None:
    profile = probed_profile(findings[1], "https://api.openai.com/v1")
    assert profile is not None
    assert profile.thinking == "always"
    assert profile.prefix_bound
    assert profile.inputs == ("image", "document")
    assert profile.json_schema
    assert not profile.native_tools, "it was offered a tool and answered in text"


def test_each_fact_has_a_source(findings: tuple[dict[str, Finding], str]) -> None:
    said = {what: found.text for what, found in findings[0].items()}
    assert "genai-prices" in said["window"]
    assert "genai-prices" in said["price"]
    assert "per million tokens" in said["price"]
    assert said["takes"].startswith("text, image, document (rules of ")
    assert said["thinks"].startswith("always (rules of ")


def test_what_another_server_answers_changes_nothing_for_the_real_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-this-test")
    monkeypatch.chdir(tmp_path)
    real = resolve("openai:gpt-6.1-sol").profile
    monkeypatch.setenv("OPENAI_BASE_URL", "http://fake.example:9/v1")
    with answered_by(Says()):
        kept = {found.what: found.text for found in examine("openai:gpt-6.1-sol")}["profile"]
    assert kept.endswith(", for http://fake.example:9/v1")
    there = resolve("openai:gpt-6.1-sol").profile
    assert not there.native_tools, "later uses of that server have what was measured"
    monkeypatch.delenv("OPENAI_BASE_URL")
    assert resolve("openai:gpt-6.1-sol").profile == real
    assert real.native_tools
