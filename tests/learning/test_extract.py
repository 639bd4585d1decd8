"""Extraction of patterns from a loop's history."""

from itertools import pairwise

import pytest
from msgspec.structs import replace

from taofold.core.failing_checks import Check, Location
from taofold.learning.extraction.history import FileChange, RepairAttempt
from taofold.learning.extraction.lessons import extract
from taofold.learning.patterns.kinds import Approach, Avoidance, CodeTemplate, ErrorFix

from .loops import BOUND, GUARD, attempt, fault, history


@pytest.mark.scenario("XTL-01")
@pytest.mark.document_item(
    "001.extract.failures", "001.extract.fixes", "001.extract.signature", "001.example.extracted"
)
def test_an_error_and_the_fix_after_which_its_check_passed_are_a_pattern() -> None:
    failed = attempt(BOUND, after=(fault(),), iteration=2, kept=False)
    fixed = attempt(GUARD, iteration=3)
    (found,) = extract(history(failed, fixed), ("error",))
    assert isinstance(found.body, ErrorFix)
    signature, fix = found.body.signature, found.body.fix
    assert (signature.type, signature.name) == ("Other", "AttributeError")
    assert signature.pattern == "'NoneType' object has no attribute '.*'"
    assert signature.hints == ("*.py:address",)
    assert (fix.category, fix.language) == ("add_null_check", "python")
    assert fix.code.startswith("if {{variable}} is None:")
    assert fix.diff == (
        " user = find(name)\n+if user is None:\n+    raise ValueError('who?')\n return user.email"
    )
    assert fix.files == ("users/mail.py",)
    assert fix.vain == ("`if amount >= LIMIT:`",)
    assert signature.example == "'NoneType' object has no attribute 'email'"
    assert signature.seen == "users/mail.py:address"
    assert len(fix.description) >= 20
    assert found.tags == ("python", "add-null-check", "attributeerror")
    assert found.scope.language == "python"


@pytest.mark.parametrize(
    "doubtful",
    [
        attempt(GUARD, kept=False),
        attempt(GUARD, judged=False),
        attempt(GUARD, after=(fault(),)),
        attempt(GUARD, after=(fault(check="tests/test_b.py::test_b"),)),
        attempt(FileChange("tests/test_users.py", "assert x", "assert True")),
        attempt(),
    ],
    ids=["taken back", "not judged", "no help", "broke another", "in the tests", "no change"],
)
def test_what_proves_nothing_is_no_fix(doubtful: RepairAttempt) -> None:
    assert extract(history(doubtful), ("error", "template")) == ()


@pytest.mark.parametrize(("lines", "told"), [(24, True), (25, False)])
def test_a_change_that_cannot_be_shown_whole_teaches_nothing(lines: int, told: bool) -> None:
    written = FileChange("users/mail.py", "", "".join([f"x{n} = {n}\n" for n in range(lines)]))
    assert bool(extract(history(attempt(written)), ("error",))) is told


def test_what_was_replaced_by_what_nobody_judged_teaches_nothing() -> None:
    check = replace(fault(), places=(Location("users/mail.py", 2, "address"),))
    right = FileChange("users/mail.py", GUARD.after, GUARD.after.replace("who?", "nobody"))
    last = attempt(right, before=(), judged=False)
    assert extract(history(attempt(GUARD, before=(check,)), last), ("error",)) == ()
    sure = replace(last, judged=True)
    assert extract(history(attempt(GUARD, before=(check,)), sure), ("error",))


def finding(line: int, rule: str, message: str) -> Check:
    return Check(
        f"fleet.py: {rule} {message}", "failed", rule, message, (Location("fleet.py", line),)
    )


UNTYPED = (
    "import re\n\n\ndef plate(text: str) -> str:\n    return NUMBER.match(text).group(1)\n\n\n"
    "def count(plates, least: int = None):\n    return len(plates)\n"
)
ANNOTATED = UNTYPED.replace(
    "    return NUMBER.match(text)",
    "    match: re.Match[str] = NUMBER.match(text)\n    return match",
).replace("plates, least: int = None)", "plates: list[str], least: int | None = None) -> int")
NARROWED = ANNOTATED.replace(
    "    match: re.Match[str] = NUMBER.match(text)\n",
    "    match = NUMBER.match(text)\n    if match is None:\n        raise ValueError(text)\n",
)
OPTIONAL = finding(5, "union-attr", 'Item "None" of "Match[str] | None" has no attribute "group"')
NO_TYPES = finding(8, "no-untyped-def", "Function is missing a type annotation")
ASSIGNED = finding(5, "assignment", 'expression has type "Match[str] | None"')


def test_a_finding_that_became_another_one_was_settled_with_it() -> None:
    """Mutant: its lesson is the edit that only brought the other one."""
    written = attempt(
        FileChange("fleet.py", UNTYPED, ANNOTATED), before=(OPTIONAL, NO_TYPES), after=(ASSIGNED,)
    )
    mended = attempt(FileChange("fleet.py", ANNOTATED, NARROWED), before=(ASSIGNED,), iteration=2)
    found = {
        p.body.signature.name: p.body.fix for p in extract(history(written, mended), ("error",))
    }
    assert set(found) == {"no-untyped-def", "assignment", "union-attr"}
    cure = found["union-attr"]
    assert "-    return NUMBER.match(text).group(1)\n" in cure.diff
    assert "+    if match is None:\n" in cure.diff
    assert "re.Match" not in cure.diff
    assert cure.vain == ("`match: re.Match[str] = NUMBER.match(text)`",)


def test_a_finding_at_the_head_of_the_function_that_was_edited_came_of_the_edit() -> None:
    """Mutant: no lesson for the first, because the lines that caused the other are unknown."""
    guarded = UNTYPED.replace(
        "    return NUMBER.match(text).group(1)\n",
        "    found = NUMBER.match(text)\n    if found:\n        return found.group(1)\n",
    )
    raised = guarded.replace("count", "size").replace(
        "        return found.group(1)\n\n",
        "        return found.group(1)\n    raise ValueError(text)\n\n",
    )
    lacks = finding(4, "return", "Missing return statement")
    tried = attempt(FileChange("fleet.py", UNTYPED, guarded), before=(OPTIONAL,), after=(lacks,))
    mended = attempt(FileChange("fleet.py", guarded, raised), before=(lacks,), iteration=2)
    cures = {p.body.signature.name: p.body.fix for p in extract(history(tried, mended), ("error",))}
    assert set(cures) == {"union-attr", "return"}
    assert "+    raise ValueError(text)\n" in cures["union-attr"].diff
    assert "+    if found:\n" in cures["union-attr"].diff
    below = replace(lacks, places=(Location("fleet.py", 8),))
    tried = replace(tried, after=(below,))
    assert extract(history(tried, replace(mended, before=(below,))), ("error",))[0].name != "union"
    kinds = {p.body.signature.name for p in extract(history(tried), ("error",))}
    assert kinds == set(), "of another function the head tells nothing"


def test_an_error_that_was_exchanged_and_met_again_is_told_from_its_beginning() -> None:
    """Mutant: the change starts from the second failed attempt, whose text no other loop has."""
    texts = [
        "fn close(&mut self) {\n    for name in self.names() {\n        note(name);\n    }\n}\n"
    ]
    texts.append(texts[0].replace("self.names()", "(&mut self.names).iter()"))
    texts.append(
        texts[0].replace(
            "    for name in self.names()",
            "    let names = &self.names;\n    drop(names);\n    for name in names",
        )
    )
    texts.append(texts[0].replace("self.names()", "self.names().cloned()"))
    borrowed = finding(3, "E0502", "cannot borrow `*self` as mutable, it is also immutable")
    twice = finding(3, "E0499", "cannot borrow `*self` as mutable more than once")
    later = finding(4, "E0502", "cannot borrow `*self` as mutable, it is also immutable")
    failing = ((borrowed,), (twice,), (later,), ())
    tries = [
        attempt(FileChange("fleet.py", *texts[n : n + 2]), before=failing[n], after=failing[n + 1])
        for n in range(3)
    ]
    cures = {p.body.signature.name: p.body.fix for p in extract(history(*tries), ("error",))}
    assert "-    for name in self.names() {\n+    for name in self.names().cloned()" in (
        cures["E0502"].diff
    )
    assert len(cures["E0502"].vain) == 2


def test_a_test_that_fails_for_another_reason_first_gives_its_first_error_too() -> None:
    name = fault("NameError", "name 'math' is not defined")
    other = fault("AssertionError", "assert 3 == 4")
    imported = FileChange("users/mail.py", "x", "import math\nx")
    tries = attempt(imported, before=(name,), after=(other,)), attempt(BOUND, before=(other,))
    assert [one.name for one in extract(history(*tries), ("error",))] == [
        "NameError: name '…' is not defined",
        "AssertionError: assert … == …",
    ]
    assert extract(history(tries[0]), ("error",)) == (), "it may only have been moved"


@pytest.mark.scenario("XTL-05")
def test_a_failed_loop_gives_no_approach_though_the_fix_that_held() -> None:
    other = (fault("KeyError", "'x'", "t::b", "shop.py"),)
    tried = (attempt(GUARD), attempt(BOUND, before=other, after=other))
    kinds = {one.kind for one in extract(history(*tried, outcome="exhausted"))}
    assert "success" not in kinds
    assert "error" in kinds
    assert "success" not in {one.kind for one in extract(history(*tried))}


CHAIN = (
    attempt(GUARD, iteration=1, tools=("edit_file", "run_command")),
    attempt(
        BOUND, iteration=2, before=(fault("AssertionError", "assert 3 == 4", "t::b", "shop.py"),)
    ),
)


@pytest.mark.document_item("001.extract.category", "001.extract.steps", "001.extract.tools")
def test_an_approach_is_a_chain_of_errors_with_the_edits_that_settled_them() -> None:
    (found,) = extract(history(*CHAIN), ("success",))
    assert isinstance(found.body, Approach)
    assert found.body.category == "debugging"
    assert found.body.tools == ("edit_file", "run_command")
    assert found.body.average_iterations == 2
    assert found.body.task == "Fix the failing tests of `.*`"
    assert "`if user is None:` was added" in found.body.steps[0]
    assert "`if amount > LIMIT:` became `if amount >= LIMIT:`" in found.body.steps[1]


def test_a_fix_is_described_by_its_lines() -> None:
    borrow = FileChange("src/lib.rs", "    let a = &rows[0];\n", "    let a = rows[0];\n")
    check = fault("E0502", "cannot borrow `rows` as mutable", path="src/lib.rs")
    (found,) = extract(history(attempt(borrow, before=(check,))), ("error",))
    assert isinstance(found.body, ErrorFix)
    assert found.body.fix.description == (
        "The error was gone after `let a = &rows[0];` became `let a = rows[0];`"
    )


@pytest.mark.document_item("001.key.extraction.rate")
def test_a_loop_that_mostly_tried_in_vain_teaches_no_approach() -> None:
    vain = attempt(BOUND, before=CHAIN[1].before, after=CHAIN[1].before, iteration=2)
    tries = (CHAIN[0], vain, vain, CHAIN[1])
    assert extract(history(*tries), ("success",)) == ()
    assert extract(history(*tries), ("success",), 0.5) != ()


def test_errors_that_were_there_together_are_no_chain() -> None:
    both = attempt(GUARD, BOUND, before=(*CHAIN[0].before, *CHAIN[1].before))
    assert len(extract(history(both), ("error",))) == 2
    assert extract(history(both), ("success",)) == ()


def test_one_edit_that_settled_everything_teaches_no_approach() -> None:
    assert extract(history(attempt(GUARD)), ("success",)) == ()


LOOKUP = FileChange(
    "users/mail.py", GUARD.before, GUARD.before.replace("find(name)", "find(name.lower())")
)


def stuck_with(*changes: FileChange) -> list[RepairAttempt]:
    return [attempt(*changes, after=(fault(),), iteration=n) for n in (1, 2, 3)]


@pytest.mark.scenario("XTL-04")
@pytest.mark.document_item("001.extract.repeated")
def test_an_error_that_stays_three_times_is_a_mistake_to_avoid_though_the_loop_failed() -> None:
    stuck = stuck_with(LOOKUP)
    (found,) = extract(history(*stuck, outcome="exhausted"), ("anti",))[:1]
    assert isinstance(found.body, Avoidance)
    assert found.body.mode == "repeated_same_error"
    assert "`user = find(name)` became `user = find(name.lower())`" in found.body.approach
    assert found.body.signature is not None
    assert extract(history(*stuck[:2], outcome="exhausted"), ("anti",)) == ()


@pytest.mark.parametrize(
    "idle",
    [
        BOUND,
        FileChange("README.md", "", "## Plan\nlook it up\n"),
        FileChange("users/mail.py", GUARD.before, f"# walk up\n{GUARD.before}"),
    ],
    ids=["elsewhere", "a plan", "a comment"],
)
def test_what_changed_no_code_where_the_error_leads_tried_nothing(idle: FileChange) -> None:
    assert extract(history(*stuck_with(idle), outcome="exhausted"), ("anti",)) == ()
    (found,) = extract(history(*stuck_with(LOOKUP, idle), outcome="exhausted"), ("anti",))
    assert isinstance(found.body, Avoidance)
    assert found.body.approach == "`user = find(name)` became `user = find(name.lower())`"


def test_a_mistake_that_was_overcome_is_told_by_the_lesson_of_its_error() -> None:
    stuck = [attempt(BOUND, after=(fault(),), iteration=n, kept=False) for n in (1, 2, 3)]
    past = history(*stuck, attempt(GUARD, iteration=4))
    assert extract(past, ("anti",)) == ()
    (found,) = extract(past, ("error",))
    assert isinstance(found.body, ErrorFix)
    assert found.body.fix.vain == ("`if amount >= LIMIT:`",)


@pytest.mark.document_item("001.extract.quality")
def test_a_change_that_broke_what_passed_is_named() -> None:
    broken = fault(check="tests/test_b.py::test_b")
    down = attempt(GUARD, after=(fault(), broken), iteration=2)
    (found,) = extract(history(down, outcome="exhausted"), ("anti",))
    assert isinstance(found.body, Avoidance)
    assert found.body.mode == "breaking_change"
    assert "`if user is None:` was added" in found.body.approach


def test_a_file_that_was_written_over_teaches_nothing_where_its_earlier_text_is_unknown() -> None:
    unknown = FileChange("users/mail.py", "", GUARD.after, unsure=True)
    assert extract(history(attempt(unknown))) == ()
    known = FileChange("users/mail.py", GUARD.before, GUARD.after)
    assert extract(history(attempt(known)), ("error",))


def test_of_several_errors_that_edits_of_several_files_settled_only_the_near_ones_are_learnt() -> (
    None
):
    """If neither error location is near an edit, its fix is unknown."""
    near = fault()
    far = fault("KeyError", "'x'", "t::far", "elsewhere.py")
    found = extract(history(attempt(GUARD, BOUND, before=(near, far))), ("error",))
    assert [one.body.signature.name for one in found if isinstance(one.body, ErrorFix)] == [
        "AttributeError"
    ]


def test_a_command_of_which_only_the_exit_code_is_known_gives_no_signature() -> None:
    silent = Check("make check", "failed", "command", "")
    assert extract(history(attempt(GUARD, before=(silent,))), ("error", "template")) == ()


@pytest.mark.document_item("001.extract.templates", "001.extract.languages")
def test_new_code_is_a_template_and_an_exchange_of_signs_is_none() -> None:
    (found,) = extract(history(attempt(GUARD)), ("template",))
    assert isinstance(found.body, CodeTemplate)
    assert found.body.language == "python"
    assert set(found.body.holes) == {"variable", "text"}
    assert extract(history(attempt(BOUND)), ("template",)) == ()


@pytest.mark.scenario("XTL-06")
def test_only_the_types_that_are_asked_for_come_and_always_the_same() -> None:
    past = history(*CHAIN)
    assert {one.kind for one in extract(past)} == {"error", "success", "template"}
    assert {one.kind for one in extract(past, ("error", "success"))} == {"error", "success"}
    assert extract(past) == extract(replace(past))


def test_a_fix_that_silences_the_check_teaches_nothing_and_is_not_recommended() -> None:
    silent = FileChange("users/mail.py", GUARD.before, f"{GUARD.before}    # type: ignore\n")
    found = extract(history(*stuck_with(LOOKUP), attempt(silent, iteration=4)))
    assert [one.kind for one in found] == ["anti"]
    assert isinstance(found[0].body, Avoidance)
    assert found[0].body.better == ""


def test_an_attempt_that_settled_another_error_failed_at_this_one() -> None:
    text = "def a():\n    return one\n\n\ndef b():\n    return two\n"
    tried = text.replace("one", "1").replace("two", "three")
    one = fault("NameError", "name 'one' is not defined", "t::a", "m.py")
    one = replace(one, places=(Location("m.py", 2, "a"),))
    two = replace(fault("TypeError", "two is wrong", "t::b"), places=(Location("m.py", 6, "b"),))
    found = extract(
        history(
            attempt(FileChange("m.py", text, tried), before=(one, two), after=(two,)),
            attempt(FileChange("m.py", tried, tried.replace("three", "2")), before=(two,)),
        ),
        ("error",),
    )
    fixes = {pattern.body.signature.name: pattern.body.fix for pattern in found
             if isinstance(pattern.body, ErrorFix)}  # fmt: skip
    assert fixes["TypeError"].vain == ("`return three`",)
    assert "-    return two\n+    return 2" in fixes["TypeError"].diff
    assert fixes["NameError"].vain == ()
    assert "two" not in fixes["NameError"].diff


def test_what_a_later_edit_did_for_another_error_is_no_part_of_the_first_ones_cure() -> None:
    text = "open(x)\nrest(1)\n\n\nclose(y)\n"
    texts = [text, text.replace("open(x)", "load(x)")]
    texts.append(text.replace("open(x)", "load(x, 1)").replace("close(y)", "stop(y)"))
    light = Check("t::c", "failed", "CloseError", "no", (Location("m.py", 5, "g"),))
    opened = Check("t::o", "failed", "OpenError", "no", (Location("m.py", 1, "f"),))
    first, last = (FileChange("m.py", *pair) for pair in pairwise(texts))
    hidden = attempt(first, before=(opened,), after=(light,), passed=frozenset())
    found = [one.body for one in extract(history(hidden, attempt(last, before=(light,))))]
    fixes = {body.signature.name: body.fix for body in found if isinstance(body, ErrorFix)}
    assert "+load(x, 1)" in fixes["OpenError"].diff
    assert "stop" not in fixes["OpenError"].diff
    assert "+stop(y)" in fixes["CloseError"].diff


def test_a_try_that_settled_another_error_and_has_nothing_to_do_with_this_one_is_none_of_it() -> (
    None
):
    one, two = fault("OneError", "no", "t::a", "m.py"), fault("TwoError", "no", "t::b", "n.py")
    first = FileChange("a.py", "a = 1\n", "a = 2\n")
    right = FileChange("a.py", "a = 2\n", "a = 3\n")
    past = attempt(first, before=(one, two), after=(two,)), attempt(right, before=(two,))
    found = [one.body for one in extract(history(*past), ("error",))]
    assert {body.signature.name: body.fix.vain for body in found if isinstance(body, ErrorFix)} == {
        "OneError": (),
        "TwoError": (),
    }


def test_what_was_changed_where_another_error_points_is_not_this_ones_fix() -> None:
    text = "def a():\n    return one\n\n\ndef b():\n    return two\n"
    new = "from numbers import one\n" + text.replace("two", "three")
    name = fault("NameError", "name 'one' is not defined", "t::a")
    name = replace(name, places=(Location("m.py", 2, "a"),))
    two = replace(fault("TypeError", "two is wrong", "t::b"), places=(Location("m.py", 6, "b"),))
    change = FileChange("m.py", text, new)
    (found,) = extract(history(attempt(change, before=(name, two), after=(two,))), ("error",))
    assert isinstance(found.body, ErrorFix)
    assert found.body.fix.diff == "+from numbers import one\n def a():\n     return one"


def _read(encoding: str, more: str = "") -> str:
    return (
        f"def load(path):\n    with open(path, encoding={encoding}{more}) as file:\n        pass\n"
    )


def _at_open(error: str, message: str, name: str) -> Check:
    return Check(name, "failed", error, message, (Location("menu.py", 2, "load"),))


def test_half_a_cure_that_was_replaced_is_no_fix_but_was_tried() -> None:
    texts = [_read('"utf-8"'), _read('"utf-8"', ', errors="replace"'),
             _read('"latin-1"'), _read('"cp1252"')]  # fmt: skip
    edits = [FileChange("menu.py", *pair) for pair in pairwise(texts)]
    names, prices = [
        _at_open("UnicodeDecodeError", "'utf-8' codec can't decode byte 0xe9", name)
        for name in ("t::names", "t::prices")
    ]
    garbage = Check("t::names", "failed", "AssertionError", "assert ['Caf?'] == ['Café']")
    dash = Check("t::names", "failed", "AssertionError", "assert {'a': 1} is None")
    missing = Check("t::prices", "failed", "KeyError", "'Müsli'")
    found = extract(
        history(
            attempt(edits[0], before=(names, prices), after=(garbage, missing)),
            attempt(edits[1], before=(garbage, missing), after=(dash,)),
            attempt(edits[2], before=(dash,)),
        ),
        ("error",),
    )
    fixes = [one.body.fix for one in found if isinstance(one.body, ErrorFix)]
    assert [one.body.signature.name for one in found if isinstance(one.body, ErrorFix)] == [
        "UnicodeDecodeError",
        "AssertionError",
    ]
    assert all('+    with open(path, encoding="cp1252")' in fix.diff for fix in fixes)
    assert '-    with open(path, encoding="utf-8") as file:' in fixes[0].diff
    assert fixes[0].vain == (
        '`with open(path, encoding="utf-8", errors="replace") as file:`',
        '`with open(path, encoding="latin-1") as file:`',
    )


@pytest.mark.parametrize(
    ("old", "half", "right"),
    [
        ("run(q, (name))", "run(f'{q} {name}')", "run(q, (name,))"),
        ("when(x)", "when(x).replace(tzinfo=None)", "when(x, utc)"),
    ],
    ids=["a text put into SQL", "a time zone dropped"],
)
def test_what_was_replaced_before_the_gate_passed_is_not_the_fix(
    old: str, half: str, right: str
) -> None:
    text = f"def a(name):\n    return {old}\n"
    first, last = text.replace(old, half), text.replace(old, right)
    one, other = [_at_open("TypeError", "uses 1, and there are 5", f"t::{n}") for n in "ab"]
    moved = _at_open("OtherError", "near 's'", "t::b")
    found = extract(
        history(
            attempt(FileChange("menu.py", text, first), before=(one, other), after=(moved,)),
            attempt(FileChange("menu.py", first, last), before=(moved,)),
        ),
        ("error", "success"),
    )
    fixes = [one.body.fix for one in found if isinstance(one.body, ErrorFix)]
    assert [(fix.diff.count(f"+    return {right}"), fix.vain) for fix in fixes] == [
        (1, (f"`return {half}`",)),
        (1, ()),
    ], "the error that came of the half is one of its own"
    assert not [one for one in found if one.kind == "success"], "what ended together is no chain"


def test_an_edit_that_stayed_to_the_end_was_not_in_vain() -> None:
    check = Check("t", "failed", "ImportError", "no 'Iterable'", (Location("flat.py", 1),))
    right = FileChange("merge.py", "import collections\n", "import collections.abc\n")
    cure = FileChange("flat.py", "from c import Iterable\n", "from c.abc import Iterable\n")
    found = extract(
        history(attempt(right, before=(check,), after=(check,)), attempt(cure, before=(check,))),
        ("error",),
    )
    assert [one.body.fix.vain for one in found if isinstance(one.body, ErrorFix)] == [()]


HEADERS = FileChange(
    "quota/headers.py",
    'def retry(headers):\n    return headers["Retry-After"]\n',
    'def retry(headers):\n    return lowered(headers)["retry-after"]\n',
)
WINDOWS = (
    "def parse(stamp):\n    return datetime.fromisoformat(stamp)\n\n\n"
    "def left(stamp, now):\n    return parse(stamp) - now\n"
)
STRIPPED = WINDOWS.replace("- now", "- now.replace(tzinfo=None)")
AWARE = WINDOWS.replace("(stamp)\n\n", "(stamp).replace(tzinfo=utc)\n\n")
PLAN = 'def limit(plan):\n    return plan.get("limit") or 60\n'
LIMIT = FileChange("quota/plans.py", PLAN, PLAN.replace(" or 60", ", 60"))
NAIVE = "can't subtract offset-naive and offset-aware datetimes"


def naive(name: str) -> Check:
    place = Location("quota/windows.py", 6, "left")
    return Check(f"tests/test_quota.py::{name}", "failed", "TypeError", NAIVE, (place,))


def test_of_several_edits_those_that_broke_nothing_are_fixes_of_their_errors() -> None:
    """One edit of an iteration fixes, another only moves its error; a third breaks a test."""
    headers = Location("quota/headers.py", 2, "retry")
    key = Check("tests/test_quota.py::retry", "failed", "KeyError", "'Retry-After'", (headers,))
    blocked, null = (
        Check(
            f"tests/test_quota.py::{name}", "failed", "AssertionError",
            f"assert {wrong} + where {wrong[:4]} = limit(plan)",
            (Location("tests/test_quota.py", 30, name),),
        )
        for name, wrong in (("test_blocked", "60 == 0"), ("test_null", "None == 60"))
    )  # fmt: skip
    first = attempt(
        HEADERS, FileChange("quota/windows.py", WINDOWS, STRIPPED),
        before=(key, naive("test_without"), blocked),
        after=(naive("test_with"), blocked), iteration=1, passed=frozenset({"test_with"}),
    )  # fmt: skip
    second = attempt(
        FileChange("quota/windows.py", STRIPPED, AWARE), LIMIT,
        before=(naive("test_with"), blocked), after=(null,), iteration=2,
    )  # fmt: skip
    mended = FileChange("quota/plans.py", LIMIT.after, PLAN.replace(" or 60", " is None"))
    third = attempt(mended, before=(null,), iteration=3)
    found = extract(history(first, second, third), ("error",))
    fixes = {
        one.signature.name: one.body.fix
        for one in found
        if isinstance(one.body, ErrorFix) and one.signature
    }
    assert "lowered(headers)" in fixes["KeyError"].diff
    assert fixes["KeyError"].files == ("quota/headers.py",)
    assert "replace(tzinfo=utc)" in fixes["TypeError"].diff
    assert fixes["TypeError"].files == ("quota/windows.py",)
    assert "now.replace(tzinfo=None)" in str(fixes["TypeError"].vain)


def test_what_may_have_broken_a_test_that_nothing_mended_is_no_fix() -> None:
    edit = FileChange("quota/windows.py", WINDOWS, STRIPPED)
    broken = attempt(HEADERS, edit, before=(naive("test_without"),), after=(naive("test_with"),))
    assert extract(history(broken, outcome="exhausted"), ("error",)) == ()
    # A report without a line of an edited file cannot be assigned to an edit.
    silent = Check("tests/test_quota.py::test_all", "failed", "AssertionError", "assert 1 == 2")
    key = Check("t::k", "failed", "KeyError", "'x'", (Location("quota/headers.py", 2, "retry"),))
    unknown = attempt(HEADERS, before=(key,), after=(silent,))
    assert extract(history(unknown, outcome="exhausted"), ("error",)) == ()
