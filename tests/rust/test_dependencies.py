"""The dependencies of the Rust program: their licences and their registry.

These are the checks of `cargo deny` that need no database. Known vulnerabilities are in the
database of `cargo audit`, which is not available without a network.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.prerequisites import TAOFOLD_RS

pytestmark = [pytest.mark.rust, TAOFOLD_RS.mark]

WORKSPACE: Final = Path(__file__).parents[2] / "rust"
ALLOWED: Final = frozenset(
    {
        *("Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-3-Clause", "CDLA-Permissive-2.0"),
        *("ISC", "MIT", "Unicode-3.0", "Unlicense", "Zlib"),
    }
)
"""SPDX names of licences that require at most a notice."""
REGISTRY: Final = "registry+https://github.com/rust-lang/crates.io-index"


def permits(expression: str) -> bool:
    """Returns true if allowed licences alone satisfy an SPDX expression."""
    # Old crates write a choice as `MIT/Apache-2.0`.
    text = expression.replace("/", " OR ")
    words = iter(re.findall(r"[()]|\b(?:AND|OR)\b|[\w.+-]+(?: WITH [\w.-]+)?", text))
    return _either(words)


def _either(words: Iterator[str]) -> bool:
    # AND binds closer than OR.
    found, both = False, True
    for word in words:
        if word == ")":
            break
        if word == "OR":
            found, both = found or both, True
        elif word != "AND":
            met = _either(words) if word == "(" else word in ALLOWED
            both = both and met
    return found or both


@pytest.mark.parametrize(
    ("expression", "permitted"),
    [
        ("MIT", True),
        ("GPL-3.0", False),
        ("MIT OR GPL-3.0", True),
        ("MIT AND GPL-3.0", False),
        ("(MIT OR GPL-3.0) AND Zlib", True),
        ("Zlib AND (GPL-3.0 OR LGPL-2.1-or-later)", False),
        ("GPL-3.0/MIT", True),
        ("Apache-2.0 WITH LLVM-exception OR GPL-3.0", True),
    ],
)
def test_an_expression_of_licences_is_read(expression: str, permitted: bool) -> None:
    assert permits(expression) is permitted


def test_every_crate_has_a_licence_that_asks_for_a_notice_at_most() -> None:
    """Includes dependencies of tests. Each crate comes from the public registry."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline"]
    done = subprocess.run(command, cwd=WORKSPACE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    packages: list[dict[str, Any]] = json.loads(done.stdout)["packages"]
    assert len(packages) > 100
    refused = [it["id"] for it in packages if not permits(it["license"] or "none")]
    assert refused == []
    foreign = [it["id"] for it in packages if it["source"] not in (None, REGISTRY)]
    assert foreign == []
