"""Names of tags that taofold sets are refused from callers, and are valid in filters."""

import pytest

from taofold.core.errors import ConfigError
from taofold.core.tags import checked_filter, checked_tags


@pytest.mark.parametrize("name", ["taofold.recheck", "taofold."])
def test_a_caller_cannot_set_a_tag_of_taofold(name: str) -> None:
    """A tag `taofold.recheck` would hide a run from policy tests. Mutant: none is reserved."""
    with pytest.raises(ConfigError, match="is reserved"):
        checked_tags({"team": "x", name: "fork"})


@pytest.mark.parametrize("name", ["taofold", "taofold_x", "my.taofold.x"])
def test_similar_names_are_free(name: str) -> None:
    assert checked_tags({name: "x"}) == {name: "x"}


def test_lists_can_be_filtered_by_a_tag_of_taofold() -> None:
    assert checked_filter("taofold.recheck=fork") == "taofold.recheck=fork"
