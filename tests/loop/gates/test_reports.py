"""Parses runners' reports into checks and detects doubtful reports."""

import json

import pytest

from taofold.loop.gates import reports
from taofold.loop.gates.commands import (
    DEVICE,
    GO_EXEC,
    IN,
    LAUNCHER,
    OUT,
    REPORTER,
    plan,
)
from taofold.loop.gates.reports import (
    RunnerReport,
    cargo,
    check,
    go,
    printed_report,
    readable_output,
    stream,
)

ROOT = "/work"
ISOLATED = ("-I", "-B", "-X", "pycache_prefix=\0cache")


@pytest.mark.parametrize(
    ("command", "runner", "argv"),
    [
        (
            "python -W error -m pytest -q tests",
            "pytest",
            ("python", "-W", "error", *ISOLATED, LAUNCHER, "pytest", IN, OUT, "-q", "tests"),
        ),
        (
            "pytest -x",
            "pytest",
            ("\0python:pytest", *ISOLATED, LAUNCHER, "pytest", IN, OUT, "-x"),
        ),
        (
            "uv run --frozen pytest -x",
            "pytest",
            ("uv", "run", "--frozen", "\0python:pytest", *ISOLATED, LAUNCHER, "pytest", IN, OUT,
             "-x"),
        ),
        (
            "poetry run python3.12 -m unittest discover -s t",
            "unittest",
            ("poetry", "run", "python3.12", *ISOLATED, LAUNCHER, "unittest", IN, OUT, "discover",
             "-s", "t"),
        ),
        (
            "node --test --experimental-x a.js",
            "node",
            ("node", f"--test-reporter={REPORTER}", f"--test-reporter-destination={DEVICE}",
             "--test-reporter=spec", "--test-reporter-destination=stdout", "--test",
             "--experimental-x", "a.js"),
        ),
        (
            "go test ./... -run X",
            "go",
            ("go", "test", "-json", f"-exec=sh '{GO_EXEC}'", "-count=1", "./...", "-run", "X"),
        ),
        (
            "go test -exec wrap ./...",
            "go",
            ("go", "test", "-json", "-count=1", "-exec", "wrap", "./..."),
        ),
        (
            "npx eslint -f stylish --max-warnings 0 src",
            "eslint",
            ("npx", "eslint", "--format=json", "--max-warnings", "0", "src"),
        ),
        (
            "cargo +nightly test -- --nocapture",
            "cargo",
            ("cargo", "+nightly", "test", "--no-fail-fast", "--", "--nocapture"),
        ),
        (
            "cargo -q test --lib -- --quiet --format terse x",
            "cargo",
            ("cargo", "test", "--no-fail-fast", "--lib", "--", "x"),
        ),
        ("cargo test --quiet", "cargo", ("cargo", "test", "--no-fail-fast")),
        (
            "npx tsc --pretty -p .",
            "tsc",
            ("npx", "tsc", "-p", ".", "--pretty", "false", "--listFiles"),
        ),
        (
            "ruff check --output-format full src",
            "ruff",
            ("ruff", "check", "--output-format=json-lines", "--no-cache", "src"),
        ),
        (
            "python -m mypy --strict --cache-dir x src",
            "mypy",
            ("python", *ISOLATED, "-m", "mypy", "--output=json", "--cache-dir=/dev/null",
             "-v", "--strict", "src"),
        ),
        ("npm test", "command", ("npm", "test")),
        ("python check.py", "command", ("python", "check.py")),
        ("ruff format --check", "command", ("ruff", "format", "--check")),
        ("node check.js", "command", ("node", "check.js")),
        ("uv run -p python3.12 nox", "command", ("uv", "run", "-p", "python3.12", "nox")),
        ("go vet ./...", "command", ("go", "vet", "./...")),
    ],
)  # fmt: skip
def test_a_command_is_recognised_and_keeps_its_arguments(
    command: str, runner: str, argv: tuple[str, ...]
) -> None:
    found = plan(command.split())
    assert (found.runner, found.argv) == (runner, argv)


def lines(*rows: dict[str, object], nonce: str = "N") -> bytes:
    return b"".join([json.dumps({"n": nonce, **row}).encode() + b"\n" for row in rows])


GOOD = {"k": "check", "id": "a::t", "status": "passed"}
BAD = {"k": "check", "id": "/work/a::t", "status": "failed", "type": "E", "message": "E: said",
       "places": [["/work/a.py", 3, "f"]], "trace": "x"}  # fmt: skip
END = {"k": "end", "code": 0}


def test_a_report_is_whole_when_it_came_to_its_end() -> None:
    report = stream(lines({"k": "collected", "ids": ["/work/a::t"]}, BAD, END), "N", ROOT)
    assert (report.whole, report.collected, report.code) == (True, ("a::t",), 0)
    [check] = report.checks
    assert (check.id, check.status, check.error_type, check.message) == (
        "a::t",
        "failed",
        "E",
        "said",
    )
    assert (check.places[0].path, check.places[0].line) == ("a.py", 3)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        lines(GOOD),
        lines(GOOD, END, GOOD),
        lines(GOOD, END, nonce="M"),
        lines(GOOD) + lines(GOOD, nonce="M") + lines(END),
        lines(GOOD) + b"garbage\n" + lines(END),
        lines(GOOD) + b"\xff\xfe\n" + lines(END),
        lines(GOOD, END)[:-10],
    ],
)
def test_a_report_is_not_whole_when_anything_is_doubtful(raw: bytes) -> None:
    assert not stream(raw, "N", ROOT).whole


def test_of_two_results_for_one_test_the_worse_counts() -> None:
    other = {**GOOD, "status": "failed"}
    for rows in ((GOOD, other), (other, GOOD)):
        assert [c.status for c in stream(lines(*rows, END), "N", ROOT).checks] == ["failed"]


def test_what_a_test_says_is_shortened() -> None:
    report = stream(lines({**BAD, "message": "m" * 90_000, "trace": "t" * 90_000}, END), "N", ROOT)
    assert len(report.checks[0].message) < 2_000
    assert len(report.checks[0].traceback) < 5_000


GO = """
{"Action":"start","Package":"ex/a"}
{"Action":"run","Package":"ex/a","Test":"TestGood"}
{"Action":"pass","Package":"ex/a","Test":"TestGood","Elapsed":0.02}
{"Action":"run","Package":"ex/a","Test":"TestBad"}
{"Action":"output","Package":"ex/a","Test":"TestBad","Output":"    a_test.go:7: got 3, want 4\\n"}
{"Action":"fail","Package":"ex/a","Test":"TestBad","Elapsed":0}
{"Action":"skip","Package":"ex/a","Test":"TestLater","Elapsed":0}
{"Action":"output","Package":"ex/a","Output":"FAIL\\n"}
{"Action":"fail","Package":"ex/a","Elapsed":0.1}
{"Action":"start","Package":"ex/b"}
{"Action":"output","Package":"ex/b","Output":"b.go:1:1: syntax error\\n"}
{"Action":"fail","Package":"ex/b","Elapsed":0}
"""


def test_go_tests_are_checks_and_a_package_that_cannot_be_built_is_an_error() -> None:
    report = go("warning: a line that is not JSON\n" + GO, ROOT)
    assert {c.id: c.status for c in report.checks} == {
        "ex/a.TestGood": "passed",
        "ex/a.TestBad": "failed",
        "ex/a.TestLater": "skipped",
        "ex/b": "error",
    }
    bad = report.checks[1]
    assert (bad.message, bad.places[0].path, bad.places[0].line) == (
        "got 3, want 4",
        "a_test.go",
        7,
    )
    assert report.whole
    assert not go(GO.replace('{"Action":"fail","Package":"ex/b","Elapsed":0}', ""), ROOT).whole
    assert not go("", ROOT).whole


def test_results_that_go_printed_before_its_tests_ended_are_doubted() -> None:
    """`go_exec.sh` prints its line after the binary ended, so the binary cannot override it."""
    said = "taofold: these tests did not come to their end\\n"
    mark = '{"Action":"output","Package":"ex/%s","Output":"' + said + '"}\n'
    report = go(mark % "a" + GO, ROOT)
    assert not report.whole
    assert report.doubts == ("ex/a ended before its tests did, and printed results",)
    # A report without results is not doubtful: missing tests count as missing.
    assert not go(mark % "c" + GO, ROOT).doubts


ESLINT = (
    'warning\n[{"filePath":"/work/src/a.js","messages":[{"ruleId":"no-undef","severity":2,'
    '"message":"\'x\' is not defined.","line":3},{"ruleId":"curly","severity":1,"message":"m",'
    '"line":4},{"ruleId":null,"severity":2,"message":"Parsing error","line":5}]},'
    '{"filePath":"/work/src/b.js","messages":[]}]\n'
)


def test_errors_of_eslint_are_findings_and_every_file_is_known() -> None:
    report = printed_report("eslint", ESLINT, ROOT)
    assert [c.id for c in report.checks] == [
        "src/a.js: no-undef 'x' is not defined.",
        "src/a.js: syntax Parsing error",
    ]
    assert report.checks[0].places[0].line == 3
    assert report.files == ("src/a.js", "src/b.js")
    assert "/work/src/a.js:4 curly m" in readable_output("eslint", ESLINT)
    assert readable_output("eslint", "Oops!") == "Oops!"


GO_PANIC = """\
=== RUN   TestPut
--- FAIL: TestPut (0.00s)
panic: assignment to entry in nil map [recovered, repanicked]

goroutine 18 [running]:
testing.tRunner.func1()
\t/usr/lib/go/src/testing/testing.go:2128 +0x329
panic({0x6bc620?, 0x6f4100?})
\t/usr/lib/go/src/runtime/panic.go:859 +0x125
ex/stock.(*Stock).Put(...)
\t/work/stock.go:13
ex/stock.TestPut(0x2ccf50dc6248)
\t/work/stock_test.go:7 +0x3c
"""


def test_a_panic_of_go_is_told_by_its_message_and_the_frames_of_the_project() -> None:
    """The format is that of go 1.27."""
    event = {"Package": "ex/stock", "Test": "TestPut"}
    rows = [{**event, "Action": "output", "Output": line} for line in GO_PANIC.splitlines(True)]
    rows.append({**event, "Action": "fail"})
    (bad,) = go("\n".join(map(json.dumps, rows)), ROOT).checks
    assert (bad.error_type, bad.message) == ("panic", "assignment to entry in nil map")
    places = [(place.path, place.line, place.function) for place in bad.places]
    assert places == [("stock_test.go", 7, "TestPut"), ("stock.go", 13, "Put")]
    silent = [{**event, "Action": "output", "Output": "=== RUN   TestPut\n"}, rows[-1]]
    (bad,) = go("\n".join(map(json.dumps, silent)), ROOT).checks
    assert bad.message == "", "that a test ran is no message"


CARGO = """
   Compiling shop v0.1.0 (/work)
     Running unittests src/lib.rs (target/debug/deps/shop-1a2b)

running 3 tests
test tests::good ... ok
test tests::later ... ignored
test tests::bad ... FAILED

failures:

---- tests::bad stdout ----

thread 'tests::bad' (77) panicked at src/lib.rs:9:5:
assertion `left == right` failed
  left: 3
 right: 4
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace


failures:
    tests::bad

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""


def test_cargo_tests_are_checks_with_their_panics() -> None:
    report = cargo(CARGO)
    name = "unittests src/lib.rs::tests::"
    assert {c.id: c.status for c in report.checks} == {
        f"{name}good": "passed",
        f"{name}later": "skipped",
        f"{name}bad": "failed",
    }
    bad = report.checks[2]
    assert bad.message == "assertion `left == right` failed\n  left: 3\n right: 4"
    assert (bad.places[0].path, bad.places[0].line) == ("src/lib.rs", 9)
    assert report.whole


@pytest.mark.parametrize(
    "text",
    [
        CARGO.replace("test tests::good ... ok", "test tests::good ... ok\ntest tests::x ... ok"),
        CARGO.partition("test result")[0],
        CARGO + CARGO.partition("running")[1] + CARGO.partition("running")[2],
        CARGO.replace("test tests::bad ... FAILED", "test tests::bad ... ok"),
    ],
)
def test_results_that_a_binary_did_not_count_are_doubted(text: str) -> None:
    assert not cargo(text).whole


def test_compiler_errors_of_cargo_are_errors() -> None:
    text = "error[E0425]: cannot find value `x`\n --> src/lib.rs:4:9\n  |\n"
    [check] = cargo(text).checks
    assert (check.status, check.error_type, check.places[0].line) == ("error", "E0425", 4)


def test_findings_keep_their_ids_when_lines_move() -> None:
    def found(line: int) -> RunnerReport:
        row = {"filename": "/work/a.py", "code": "F401", "message": "`os` unused"}
        return reports.ruff(json.dumps({**row, "location": {"row": line, "column": 1}}), ROOT)

    assert [c.id for c in found(1).checks] == [c.id for c in found(9).checks]
    assert found(9).checks[0].places[0].line == 9


def test_equal_findings_are_counted() -> None:
    row = {"file": "a.py", "line": 3, "code": "arg-type", "message": "m", "severity": "error"}
    note = {**row, "severity": "note"}
    text = "\n".join([json.dumps(row), json.dumps({**row, "line": 4}), json.dumps(note), "Found 2"])
    assert [c.id for c in reports.mypy(text, ROOT).checks] == [
        "a.py: arg-type m",
        "a.py: arg-type m #2",
    ]


def test_tsc_errors_are_findings() -> None:
    text = (
        "src/a.ts(3,7): error TS2322: Type 'string' is not assignable.\nerror TS6053: File gone.\n"
    )
    first, second = reports.tsc(text, ROOT).checks
    assert (first.error_type, first.places[0].path, first.places[0].line) == (
        "TS2322",
        "src/a.ts",
        3,
    )
    assert (second.error_type, second.places) == ("TS6053", ())


@pytest.mark.parametrize(
    "said",
    ["ProgrammingError: no such table", "sqlite3.ProgrammingError: no such table", "no such table"],
)
def test_a_message_does_not_begin_with_its_class(said: str) -> None:
    assert check("t::a", "failed", "ProgrammingError", said).message == "no such table"
    assert check("t::a", "failed", "Error", "OtherError: x").message == "OtherError: x"
