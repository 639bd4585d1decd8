"""Providers on this machine, found by the environment as a user's would be."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taofold.core.values import Profile
from taofold.models.probed import keep_profile
from taofold.models.transport import allow_model_requests
from taofold.runtime.providers import resolve
from tests.road.providers import Providers, serving

MODELS = {
    "responses": "openai:gpt-6.1-sol",
    "chat": "openai-compatible:qwen3-32b",
    "messages": "anthropic:claude-sonnet-5",
    "gemini": "gemini:gemini-3.7-flash",
    "ollama": "ollama:qwen3",
}
PROTOCOLS = {
    "native": Profile(window=200_000, window_known=True, native_tools=True, json_schema=True),
    "typed": Profile(window=200_000, window_known=True, native_tools=False, json_schema=True),
    "text": Profile(window=200_000, window_known=True, native_tools=False, json_schema=False),
}


def environment(url: str) -> dict[str, str]:
    """The variables that lead each provider's models to `url`."""
    return {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_CHAT_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": "sk-road-openai-key",
        "OPENAI_COMPATIBLE_BASE_URL": f"{url}/v1",
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-road-anthropic-key",
        "GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": "sk-road-gemini-key",
        "OLLAMA_HOST": url,
    }


@pytest.fixture(scope="session")
def _served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Providers]:
    """The server, and profiles as `taofold doctor` keeps them."""
    home = tmp_path_factory.mktemp("operator")
    with pytest.MonkeyPatch.context() as patch, serving(Providers(home=home)) as providers:
        patch.setenv("XDG_CONFIG_HOME", str(home / "config"))
        for name in MODELS.values():
            base = providers.url + "/v1" * name.startswith("openai")
            model: Any = resolve(name, base_url=base, api_key="k")
            for protocol, profile in PROTOCOLS.items():
                kept = f"{name}-{protocol}", model.connection.server, profile
                keep_profile(*kept, "2026-11-28T00:00:00Z")
        yield providers


@pytest.fixture
def providers(
    _served: Providers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Providers]:
    """Yields the server without recorded refusals, and an empty working folder."""
    for name in [name for name in os.environ if name.startswith("TAOFOLD_")]:
        monkeypatch.delenv(name)
    for name, value in environment(_served.url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(_served.home / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(_served.home / "state"))
    monkeypatch.chdir(tmp_path)
    _served.refused.clear()
    _served.asked.clear()
    with allow_model_requests():
        yield _served
