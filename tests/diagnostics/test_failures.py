"""Parses failure output of programs into checks. The texts are real output, shortened."""

import pytest

from taofold.core.failing_checks import Check, Location
from taofold.diagnostics import MOST, causes_of, failing_checks, passing_names

OUTPUT = {
    "pytest": (
        "=================================== FAILURES ====================\n"
        "____ test_a ____\nshop.py:1: in total\nE   KeyError: 'b'\n"
        "=========== short test summary info ======\n"
        "FAILED test_shop.py::test_a - KeyError: 'b'\n1 failed in 0.01s\n",
        ("test_shop.py::test_a", "KeyError", "'b'", Location("shop.py", 1, "total")),
    ),
    "unittest": (
        "======\nERROR: test_b (__main__.T.test_b)\n-------\n"
        "Traceback (most recent call last):\n"
        '  File "t_u.py", line 4, in test_b\n    f()\n  File "u.py", line 9, in f\n    {}[1]\n'
        "    ~~^^^\nKeyError: 'x'\n\n----\nRan 1 test in 0.001s\n\nFAILED (errors=1)\n",
        ("__main__.T.test_b", "KeyError", "'x'", Location("u.py", 9, "f")),
    ),
    "unittest, of a module that cannot be imported": (
        "======\nERROR: tests.test_a (unittest.loader._FailedTest.tests.test_a)\n-------\n"
        "ImportError: Failed to import test module: tests.test_a\n"
        "Traceback (most recent call last):\n"
        '  File "/lib/unittest/loader.py", line 162, in loadTestsFromName\n'
        "    module = __import__(module_name)\n"
        "ModuleNotFoundError: No module named 'tests.test_a'\n\n\n----\nRan 1 test in 0.001s\n",
        (
            "tests.test_a",
            "ModuleNotFoundError",
            "No module named 'tests.test_a'",
            Location(""),
        ),
    ),
    "pytest, of a configuration that cannot be loaded": (
        "ImportError while loading conftest '/w/conftest.py'.\n"
        "conftest.py:1: in <module>\n    import none_such\n"
        "E   ModuleNotFoundError: No module named 'none_such'\n",
        (
            "/w/conftest.py",
            "ModuleNotFoundError",
            "No module named 'none_such'",
            Location("conftest.py", 1, "<module>"),
        ),
    ),
    "tap": (
        "TAP version 13\nnot ok 1 - null\n  ---\n  duration_ms: 0.3\n"
        "  failureType: 'testCodeFailure'\n"
        "  error: \"Cannot read properties of null (reading 'items')\"\n"
        "  name: 'TypeError'\n  stack: |-\n    total (file:///w/cart.mjs:2:29)\n"
        "    Test.run (node:internal/test_runner/test:796:25)\n  ...\n1..1\n",
        (
            "null",
            "TypeError",
            "Cannot read properties of null (reading 'items')",
            Location("/w/cart.mjs", 2, "total"),
        ),
    ),
    "tap of a file that cannot be loaded": (
        "TAP version 13\n# node:internal/modules/esm/resolve:283\n#     throw new NOT_FOUND(\n"
        "# Error [ERR_MODULE_NOT_FOUND]: Cannot find module '/w/src/mail' imported from /w/a.js\n"
        "#     at load (file:///w/a.js:3:1)\n#\n# Node.js v20.1.0\n# Subtest: test/a.test.js\n"
        "not ok 1 - test/a.test.js\n  ---\n  location: 'test/a.test.js:1:1'\n"
        "  failureType: 'testCodeFailure'\n  error: 'test failed'\n  ...\n1..1\n",
        (
            "test/a.test.js",
            "ERR_MODULE_NOT_FOUND",
            "Cannot find module '/w/src/mail' imported from /w/a.js",
            Location("/w/a.js", 3, "load"),
        ),
    ),
    "junit": (
        '<testsuites><testsuite><testcase classname="test_shop" name="test_a">'
        '<failure message="KeyError: &apos;b&apos;">def test_a(): ...\n'
        "E   KeyError: 'b'\n</failure></testcase></testsuite></testsuites>",
        ("test_shop.test_a", "KeyError", "'b'", Location("")),
    ),
    "cargo test": (
        "---- tests::un stdout ----\n\nthread 'tests::un' (22) panicked at src/lib.rs:2:129:\n"
        "called `Option::unwrap()` on a `None` value\nstack backtrace:\n  0: rust_begin\n",
        (
            "tests::un",
            "panic",
            "called `Option::unwrap()` on a `None` value",
            Location("src/lib.rs", 2),
        ),
    ),
    "rustc": (
        "error[E0277]: cannot subtract `&str` from `i32`\n --> src/lib.rs:1:32\n  |\n",
        (
            "src/lib.rs: E0277 cannot subtract `&str` from `i32`",
            "E0277",
            "cannot subtract `&str` from `i32`",
            Location("src/lib.rs", 1),
        ),
    ),
    "go test": (
        "--- FAIL: TestAdd (0.00s)\n    add_test.go:7: Add(1,2) = -1, want 3\nFAIL\n",
        ("TestAdd", "", "Add(1,2) = -1, want 3", Location("add_test.go", 7)),
    ),
    "go build": (
        "# example.com/add\n./add.go:4:9: undefined: foo\n",
        ("add.go:  undefined: foo", "", "undefined: foo", Location("add.go", 4)),
    ),
    "tsc": (
        "x.ts(2,27): error TS18047: 'u.email' is possibly 'null'.\n",
        (
            "x.ts: TS18047 'u.email' is possibly 'null'.",
            "TS18047",
            "'u.email' is possibly 'null'.",
            Location("x.ts", 2),
        ),
    ),
    "tsc --pretty": (
        "\x1b[96mx.ts\x1b[0m:\x1b[93m3\x1b[0m:\x1b[93m1\x1b[0m - \x1b[91merror\x1b[0m\x1b[90m "
        "TS2304: \x1b[0mCannot find name 'foo'.\n",
        (
            "x.ts: TS2304 Cannot find name 'foo'.",
            "TS2304",
            "Cannot find name 'foo'.",
            Location("x.ts", 3),
        ),
    ),
    "eslint": (
        "\n/w/check.js\n  2:1  error  'console' is not defined  no-undef\n\n1 problem (1 error)\n",
        (
            "/w/check.js: no-undef 'console' is not defined",
            "no-undef",
            "'console' is not defined",
            Location("/w/check.js", 2),
        ),
    ),
    "eslint, of a file of the root, as a gate keeps it": (
        "check.js\n  2:1  error  'console' is not defined  no-undef\n\n1 problem (1 error)\n",
        (
            "check.js: no-undef 'console' is not defined",
            "no-undef",
            "'console' is not defined",
            Location("check.js", 2),
        ),
    ),
    "pylint": (
        "************* Module m\nm.py:1:0: W0611: Unused import os (unused-import)\n",
        (
            "m.py: unused-import Unused import os",
            "unused-import",
            "Unused import os",
            Location("m.py", 1),
        ),
    ),
    "ruff": (
        "F401 [*] `os` imported but unused\n --> m.py:1:8\n  |\nFound 1 error.\n",
        (
            "m.py: F401 `os` imported but unused",
            "F401",
            "`os` imported but unused",
            Location("m.py", 1),
        ),
    ),
    "mypy": (
        'm.py:3: error: Incompatible return value type (got "int", expected "str")'
        "  [return-value]\n"
        "Found 1 error in 1 file (checked 1 source file)\n",
        (
            'm.py: return-value Incompatible return value type (got "int", expected "str")',
            "return-value",
            'Incompatible return value type (got "int", expected "str")',
            Location("m.py", 3),
        ),
    ),
    "traceback": (
        'Traceback (most recent call last):\n  File "run.py", line 3, in <module>\n    f()\n'
        "shop.errors.OutOfStock: no more\n",
        ("run.py: OutOfStock", "OutOfStock", "no more", Location("run.py", 3)),
    ),
    "node": (
        "/w/check.js:1\nconst shop = {}\n   ^\n\n"
        "TypeError: Cannot read properties of undefined (reading 'price')\n"
        "    at Object.price (/w/check.js:1:40)\n"
        "    at node:internal/main/run_main_module:28:49\n\nNode.js v20.20.2\n",
        (
            "/w/check.js: TypeError",
            "TypeError",
            "Cannot read properties of undefined (reading 'price')",
            Location("/w/check.js", 1, "price"),
        ),
    ),
    "node by its code": (
        "node:internal/modules/esm/resolve:283\n    throw new ERR_MODULE_NOT_FOUND(\n    ^\n\n"
        "Error [ERR_MODULE_NOT_FOUND]: Cannot find module '/w/hello' imported from /w/index.js\n"
        "    at finalizeResolution (node:internal/modules/esm/resolve:283:11)\n",
        (
            "ERR_MODULE_NOT_FOUND",
            "ERR_MODULE_NOT_FOUND",
            "Cannot find module '/w/hello' imported from /w/index.js",
            Location(""),
        ),
    ),
    "shell": (
        "bash: line 1: nosuchcmd: command not found\n",
        ("shell", "shell", "nosuchcmd: command not found", Location("")),
    ),
    "script": (
        "FAILED: got './hook.sh: line 3: [: too many arguments'\n",
        ("hook.sh: shell", "shell", "[: too many arguments", Location("hook.sh", 3)),
    ),
}


@pytest.mark.parametrize("program", OUTPUT)
def test_the_failure_in_the_output_of(program: str) -> None:
    text, expected = OUTPUT[program]
    (check,) = failing_checks(text)
    assert (check.id, check.error_type, check.message, check.place) == expected


@pytest.mark.parametrize(
    "text",
    [
        "exit code 1\n",
        "ok 1 - adds\n1..1\n",
        "12 passed in 0.5s\n",
        "note: see https://example.com:443/x for errors\n",
        "warning: unused variable\n --> src/lib.rs:1:5\n",
    ],
)
def test_nothing_is_made_up(text: str) -> None:
    assert failing_checks(text) == ()


def test_two_errors_of_one_place_are_two_checks() -> None:
    text = "".join(f"TypeError: {name}\n    at f (/w/a.js:1:1)\n\n" for name in ("one", "two"))
    assert [check.message for check in failing_checks(text)] == ["one", "two"]
    assert len({check.id for check in failing_checks(text)}) == 2


def test_the_signature_of_a_finding_stays_when_its_line_moves() -> None:
    one, other = (failing_checks(f"m.py:{n}: error: Boom 0x{n}f  [misc]")[0] for n in (3, 4))
    assert one.signature.partition(":")[2] != ""
    assert one.id.replace("0x3f", "") == other.id.replace("0x4f", "")


def test_reading_is_bounded() -> None:
    text = "".join(f"m.py:{n}: error: Boom {n}  [misc]\n" for n in range(5 * MOST))
    assert len(failing_checks(text)) == MOST


def test_an_endless_line_is_read_in_time() -> None:
    for text in ("a" * 200_000, "x: " * 60_000, "--- FAIL: " * 20_000, "a/" * 100_000 + ":1:1: E1"):
        assert isinstance(failing_checks(text), tuple)


def test_the_place_of_a_check_is_the_innermost_that_is_no_test() -> None:
    places = (
        Location("tests/test_a.py", 3, "test_a"),
        Location("a.py", 4, "f"),
        Location("conftest.py", 1),
    )
    assert Check("x", "failed", places=places).place == places[1]
    assert Check("x", "failed", places=places[:1]).place == places[0]
    assert Check("x", "failed").place == Location("")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("TAP version 13\nok 1 - adds\nnot ok 2 - takes\nok 3 - skips # SKIP\n", {"adds", "skips"}),
        ("✔ adds (1.2ms)\n✖ takes (0.3ms)\n", {"adds"}),
        ("test tests::adds ... ok\ntest tests::takes ... FAILED\n", {"tests::adds"}),
        ("--- PASS: TestAdd (0.00s)\n--- FAIL: TestTake (0.00s)\n", {"TestAdd"}),
        ("a.py::test_a PASSED   [ 50%]\na.py::test_b FAILED  [100%]\n", {"a.py::test_a"}),
        ("test_a (m.T.test_a) ... ok\ntest_b (m.T.test_b) ... FAIL\n", {"test_a"}),
        ("TypeError: x is null\n    at run (/w/a.js:3:1)\n", set[str]()),
        ("a.py:3:1: F401 unused\n", None),
        ("FAILED a.py::test_b - KeyError: 1\n1 failed, 3 passed in 0.01s\n", None),
        ("make: *** [all] Error 1\n", None),
    ],
    ids=["tap", "node", "cargo", "go", "pytest", "unittest", "a program", "a linter", "-q", "make"],
)
def test_what_passed_is_read_where_it_is_named(text: str, names: set[str] | None) -> None:
    assert passing_names(text) == names


CHAINED = """\
F                                                                        [100%]
=================================== FAILURES ===================================
__________________________________ test_start __________________________________
    def load(d):
        try:
>           return d["port"]
E           KeyError: 'port'

test_c.py:6: KeyError

The above exception was the direct cause of the following exception:

        except KeyError as error:
>           raise ConfigError("bad config") from error
E           test_c.ConfigError: bad config

test_c.py:8: ConfigError

During handling of the above exception, another exception occurred:

    def test_start():
>       assert start() == 1
E           test_c.StartError: cannot start: no config

test_c.py:13: StartError
=========================== short test summary info ============================
FAILED test_c.py::test_start - test_c.StartError: cannot start: no config
1 failed in 0.31s
"""
RAISED = """\
Traceback (most recent call last):
  File "c.py", line 6, in load
    return d["port"]
KeyError: 'port'

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "c.py", line 8, in load
    raise ConfigError("bad config") from error
c.ConfigError: bad config
"""
UNITTEST = f"ERROR: test_a (m.T.test_a)\n{'-' * 70}\n{RAISED}\n{'-' * 70}\nRan 1 test in 0.001s\n"
NODE = """\
Error: bad config
    at load (/w/c.js:2:60)
    at /w/c.js:3:1 {
  [cause]: SyntaxError: Expected property name or '}' in JSON at position 1
      at JSON.parse (<anonymous>)
}
"""


@pytest.mark.parametrize(
    ("text", "raised", "causes"),
    [
        (CHAINED, "StartError", (("KeyError", "'port'"), ("ConfigError", "bad config"))),
        (UNITTEST, "ConfigError", (("KeyError", "'port'"),)),
        (NODE, "Error",
         (("SyntaxError", "Expected property name or '}' in JSON at position 1"),)),
    ],
    ids=["pytest", "unittest", "node"],
)  # fmt: skip
def test_of_a_chain_of_exceptions_each_is_read(
    text: str, raised: str, causes: tuple[tuple[str, str], ...]
) -> None:
    (check,) = failing_checks(text)
    assert (check.error_type, causes_of(check)) == (raised, causes)


def test_the_causes_are_read_of_what_a_gate_keeps_too() -> None:
    """A gate keeps what pytest or Python printed."""
    printed = CHAINED.partition("test_start ___")[2].partition("\n")[2]
    for text in (printed, RAISED):
        check = Check("t", "failed", "OtherError", "x", traceback=text)
        assert causes_of(check)[0] == ("KeyError", "'port'")
    assert causes_of(Check("t", "failed", "KeyError", "x", traceback="KeyError: x")) == ()
