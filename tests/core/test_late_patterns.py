"""Patterns that are compiled at their first use are the pattern from then on."""

import re

from taofold.core.late_patterns import found_by, late


def test_a_late_pattern_is_built_at_its_first_use_and_once() -> None:
    """Mutants: it is built at once; it is built again at each use."""
    built: list[str] = []

    def build() -> str:
        built.append("x")
        return r"(?P<word>\w+)"

    pattern = late(build, re.ASCII)
    assert built == []
    match = pattern.search("é two")
    assert match is not None
    assert match["word"] == "two"
    assert pattern.findall("a b") == ["a", "b"]
    assert (pattern.pattern, dict(pattern.groupindex)) == (r"(?P<word>\w+)", {"word": 1})
    assert built == ["x"]
    assert found_by(pattern, match)
    assert not found_by(late(r"\w+"), match)
