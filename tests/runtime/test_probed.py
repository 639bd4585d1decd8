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


def test_each_model_that_was_probed_is_kept_beside_the_others(own_folder: Path) -> None:
    first = keep_profile(NAME, SMALL, "2026-11-20T00:00:00Z")
    second = keep_profile("llamacpp:b", Profile(window=1), "2026-11-21T00:00:00Z")
    assert first == second == str(own_folder / "profiles.json")
    assert probed_profile(NAME) == SMALL
    assert probed_profile("llamacpp:b") == Profile(window=1)
    assert probed_profile("llamacpp:c") is None
    keep_profile(NAME, Profile(window=2), "2026-11-22T00:00:00Z")
    assert probed_profile(NAME) == Profile(window=2)
    assert [file.name for file in own_folder.iterdir()] == ["profiles.json"]
    assert own_folder.stat().st_mode & 0o777 == 0o700
