"""The secret of this machine's user: for its owner alone, in a place of authority."""

from pathlib import Path

import pytest

from taofold.places import reserved
from taofold.server.local_token import LocalToken

TOKEN = ".local/state/taofold/local-token.json"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    return tmp_path


def test_the_token_is_for_its_owner_alone_and_a_new_one_needs_only_a_deletion(
    home: Path,
) -> None:
    first = LocalToken.of_user()
    token = first.value()
    assert first.path is not None
    assert first.path == home / TOKEN
    assert first.path.stat().st_mode & 0o077 == 0
    assert first.path.parent.stat().st_mode & 0o077 == 0
    assert LocalToken.of_user().value() == token
    first.path.unlink()
    assert LocalToken.of_user().value() != token
    assert not first.matches(token), "a server that runs takes the new one"
    assert not first.matches("")


def test_a_root_inside_a_reserved_place_is_the_choice_of_whoever_made_it(home: Path) -> None:
    root = home / ".config/taofold/drafts"
    assert not reserved.holds(root, root / "x.yaml")
    assert reserved.holds(root.parent, root / "x.yaml")
