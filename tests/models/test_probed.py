"""Every later use of a model applies the findings of `taofold doctor MODEL`."""

from pathlib import Path

import pytest

from taofold.core.errors import ConfigError
from taofold.core.values import Profile
from taofold.models.probed import keep_profile, probed_profile
from taofold.runtime.providers import resolve

SMALL = Profile(window=4096, window_known=True, json_schema=True)
NAME = "llamacpp:tiny"
SERVER = "http://127.0.0.1:8080/v1"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "taofold"


def test_a_probed_profile_is_used_unless_one_is_given() -> None:
    assert probed_profile(NAME, SERVER) is None
    keep_profile(NAME, SERVER, SMALL, "2026-11-20T00:00:00Z")
    assert resolve(NAME).profile == SMALL
    other = Profile(window=1, window_known=True)
    assert resolve(NAME, profile=other).profile == other
    assert resolve("llamacpp:another").profile != SMALL


def test_a_damaged_file_is_reported_with_its_path(own_folder: Path) -> None:
    keep_profile(NAME, SERVER, SMALL, "2026-11-20T00:00:00Z")
    (own_folder / "profiles.json").write_text("{")
    with pytest.raises(ConfigError, match=r"profiles\.json"):
        resolve(NAME)


def test_each_model_that_was_probed_is_kept_beside_the_others(own_folder: Path) -> None:
    first = keep_profile(NAME, SERVER, SMALL, "2026-11-20T00:00:00Z")
    second = keep_profile("llamacpp:b", SERVER, Profile(window=1), "2026-11-21T00:00:00Z")
    assert first == second == str(own_folder / "profiles.json")
    assert probed_profile(NAME, SERVER) == SMALL
    assert probed_profile("llamacpp:b", SERVER) == Profile(window=1)
    assert probed_profile("llamacpp:c", SERVER) is None
    keep_profile(NAME, SERVER, Profile(window=2), "2026-11-22T00:00:00Z")
    assert probed_profile(NAME, SERVER) == Profile(window=2)
    assert [file.name for file in own_folder.iterdir()] == ["profiles.json"]
    assert own_folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "name",
    ["openai:m", "openai-chat:m", "openai-compatible:m", "anthropic:m", "gemini:m", "ollama:m"],
)
def test_a_profile_holds_at_its_own_server_only(name: str) -> None:
    first, second = "http://127.0.0.1:1", "http://127.0.0.1:2"
    at_first = resolve(name, base_url=first, api_key="k")
    keep_profile(name, at_first.connection.server, SMALL, "2026-11-20T00:00:00Z")  # type: ignore[attr-defined]
    assert resolve(name, base_url=first, api_key="k").profile == SMALL
    assert resolve(name, base_url=f"{first}/", api_key="k").profile == SMALL
    assert resolve(name, base_url=second, api_key="k").profile != SMALL


def test_the_password_of_an_address_is_not_kept(own_folder: Path) -> None:
    keep_profile(NAME, "https://ada:geheim@gateway.example/v1?key=geheim", SMALL, "")
    assert "geheim" not in (own_folder / "profiles.json").read_text()
    assert probed_profile(NAME, "https://gateway.example/v1") == SMALL
