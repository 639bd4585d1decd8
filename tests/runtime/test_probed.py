"""What `taofold doctor MODEL` found out serves every later use of that model."""

from pathlib import Path

import pytest

from taofold.core.errors import ConfigError
from taofold.core.values import Profile
from taofold.runtime.providers import keep_profile, probed_profile, resolve

SMALL = Profile(window=4096, window_known=True, json_schema=True)
NAME = "llamacpp:tiny"


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "taofold"


def test_a_probed_profile_is_used_unless_one_is_given() -> None:
    assert probed_profile(NAME) is None
    keep_profile(NAME, SMALL, "2026-11-20T00:00:00Z")
    assert resolve(NAME).profile == SMALL
    other = Profile(window=1, window_known=True)
    assert resolve(NAME, profile=other).profile == other
    assert resolve("llamacpp:another").profile != SMALL


def test_a_damaged_file_is_reported_with_its_path(own_folder: Path) -> None:
    keep_profile(NAME, SMALL, "2026-11-20T00:00:00Z")
    (own_folder / "profiles.json").write_text("{")
    with pytest.raises(ConfigError, match=r"profiles\.json"):
        resolve(NAME)
