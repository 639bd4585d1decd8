"""Edits that changed nothing for the error are no part of its lesson, and make the anti-pattern.

Mutants: the difference from the first to the last text is the lesson; a needed half of a fix is
dropped with them; one useless edit makes an anti-pattern.
"""

from msgspec.structs import replace

from taofold.learning.extraction.history import FileChange, LoopHistory
from taofold.learning.extraction.lessons import extract
from taofold.learning.patterns.kinds import Avoidance, ErrorFix

from .loops import attempt, fault, history

OLD = "def address(name):\n    user = find(name)\n    return user.email.lower()\n"
CHECK = "    if user is None:\n        return None\n"


def edits(*texts: str) -> LoopHistory:
    """A history in which each text replaces the one before, and the last one fixes the error."""
    steps = [FileChange("users/mail.py", *pair) for pair in zip((OLD, *texts), texts, strict=False)]
    last = len(steps) - 1
    return history(
        *[
            attempt(step, after=() if n == last else (fault(),), iteration=n + 1)
            for n, step in enumerate(steps)
        ]
    )


def guarded(text: str) -> str:
    return text.replace("    return", CHECK + "    return")


STRIP = OLD.replace(".lower()", ".strip().lower()")
TEXT = STRIP.replace("user.email", "str(user.email)")


def fix(story: LoopHistory) -> ErrorFix:
    (found,) = [p.body for p in extract(story, ("error",)) if isinstance(p.body, ErrorFix)]
    return found


def warnings(story: LoopHistory) -> list[Avoidance]:
    return [p.body for p in extract(story, ("anti",)) if isinstance(p.body, Avoidance)]


def test_useless_edits_left_standing_are_no_part_of_the_lesson() -> None:
    found = fix(edits(STRIP, TEXT, guarded(TEXT)))
    direct = fix(edits(guarded(OLD)))
    assert found.fix.diff == direct.fix.diff
    assert found.fix.code == direct.fix.code
    assert "strip" in str(found.fix.vain)
    assert "str(" in str(found.fix.vain)


def test_useless_edits_make_an_anti_pattern_with_the_fix_as_the_better_way() -> None:
    (found,) = warnings(edits(STRIP, TEXT, guarded(TEXT)))
    assert ".strip().lower()" in found.approach
    assert "str(user.email)" in found.approach
    assert "if user is None:" in found.better
    assert "user is None" not in found.approach
    assert warnings(edits(STRIP, guarded(STRIP))) == [], "one attempt is no habit"


def test_the_needed_first_half_of_a_fix_stays_in_the_lesson() -> None:
    half = OLD.replace("    user =", "    nobody = None\n    user =")
    whole = half.replace("    return", "    if user is nobody:\n        return None\n    return")
    assert "+    nobody = None" in fix(edits(half, whole)).fix.diff


def test_a_useless_edit_that_the_fix_rewrites_stays_in_the_joined_change() -> None:
    last = OLD.replace("user.email.lower()", "user.email.lower() if user else None")
    found = fix(edits(STRIP, last)).fix
    assert found.diff.count("+") == 1
    assert "strip" not in found.diff


def test_edits_after_the_fix_of_another_error_are_kept() -> None:
    story = edits(STRIP, TEXT, guarded(TEXT))
    other = fault("KeyError", "'x'", "tests/test_x.py::test_x", "x.py")
    first, *rest = story.attempts
    first = replace(first, before=(fault(), other))
    story = replace(story, attempts=(first, *rest))
    bodies = [p.body for p in extract(story, ("error",)) if isinstance(p.body, ErrorFix)]
    diffs = {body.signature.name: body.fix.diff for body in bodies}
    assert "strip" in diffs["KeyError"], "it may have fixed the other error"
    assert "if user is None" in diffs["AttributeError"]
    assert "str(" not in diffs["AttributeError"]


def test_words_of_the_language_join_no_useless_edit_with_the_fix() -> None:
    vain = OLD.replace(".lower()", ".lower() if user.email is not None else None")
    found = fix(edits(vain, guarded(vain)))
    assert found.fix.diff == fix(edits(guarded(OLD))).fix.diff
