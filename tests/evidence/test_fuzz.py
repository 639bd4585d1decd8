"""Both verifiers give one verdict on changed exports.

`python -m tests.evidence.fuzz 5000 1` compares more of them.
"""

from pathlib import Path

from taofold.evidence.verifier import BROKEN, OK, UNSIGNED
from tests.evidence.fuzz import differences
from tests.prerequisites import NODE


@NODE.mark
def test_both_verifiers_agree_on_changed_exports(tmp_path: Path) -> None:
    """Mutants: verify.mjs accepts doubled keys; loose base64; unknown fields; other statements."""
    found, verdicts = differences(700, 1, tmp_path)
    assert not found
    assert {BROKEN, OK, UNSIGNED} <= set(verdicts)
