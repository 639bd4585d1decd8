"""Converts a completion criterion to gates, or refuses and names the expected form."""

from pathlib import Path

import pytest

from taofold.core.errors import ConfigError
from taofold.loop.gates.criteria import gates, suggestion
from taofold.loop.verdict import Gate
from tests.loop.gates.projects import RIGHT, SHOP, again, judged, written


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return written(tmp_path / "shop", SHOP)


@pytest.mark.scenario("RLP-01")
@pytest.mark.parametrize(
    "text",
    [
        "the code is clean",
        "all tests pass",
        "make it better",
        "make sure that everything works",
        "test everything works",
        "find all bugs",
        "no-such-program --check",
        "./run-checks.sh",
        "python -m pytest 'unclosed",
        "FOO=1",
        "FOO=$NO_SUCH_VARIABLE true",
        "LD_PRELOAD=./x.so python -m pytest",
        "python -m pytest -q AND looks good",
        "python -m pytest -q AND ",
        "python -m pytest -q AND",
        "AND python -m pytest -q",
        "   ",
        "coverage report shows >80%",
        "test coverage is above 80 %",
        "make works",
        "passes",
    ],
)
def test_what_cannot_be_run_is_refused(shop: Path, text: str) -> None:
    with pytest.raises(ConfigError):
        gates([text], shop)


@pytest.mark.scenario("RLP-01")
def test_no_criterion_at_all_is_refused_with_an_example(shop: Path) -> None:
    with pytest.raises(ConfigError, match="python -m pytest"):
        gates([], shop)


@pytest.mark.scenario("RLP-01")
@pytest.mark.parametrize(
    ("text", "files", "command"),
    [
        ("the tests are green", {"tests/test_a.py": ""}, "python -m pytest -q"),
        ("the tests are green", {"Cargo.toml": ""}, "cargo test"),
        ("the tests are green", {"package.json": "{}"}, "npm test"),
        ("the tests are green", {"go.mod": ""}, "go test ./..."),
        ("it is lint free", {"a.py": ""}, "ruff check ."),
        ("types are right", {"a.py": ""}, "mypy ."),
        ("types are right", {"tsconfig.json": ""}, "npx tsc --noEmit"),
        ("the build succeeds", {"Cargo.toml": ""}, "cargo build"),
    ],
)
def test_a_refusal_says_what_to_write_instead(
    tmp_path: Path, text: str, files: dict[str, str], command: str
) -> None:
    written(tmp_path, files)
    assert suggestion(text, tmp_path) == command
    with pytest.raises(ConfigError, match=command.partition(" ")[0]):
        gates([text], tmp_path)


def test_there_is_no_suggestion_for_an_empty_directory(tmp_path: Path) -> None:
    assert suggestion("tests pass", tmp_path) == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("python -m pytest -q", [Gate("", argv=("python", "-m", "pytest", "-q"))]),
        ("make check", [Gate("", argv=("make", "check"))]),
        ("make -j2 check", [Gate("", argv=("make", "-j2", "check"))]),
        ("A=1 B='x y' true", [Gate("", env={"A": "1", "B": "x y"}, argv=("true",))]),
        ("H=$HOME true", [Gate("", env={"H": "$HOME"}, argv=("true",))]),
        ("H=$HOME true | cat", [Gate("", shell=True)]),
        ("true AND false", [Gate("", argv=("true",)), Gate("", argv=("false",))]),
        ("true && false", [Gate("", argv=("true",)), Gate("", argv=("false",))]),
        ("sh -c 'true && false'", [Gate("", argv=("sh", "-c", "true && false"))]),
        ('sh -c "true && false"', [Gate("", shell=True)]),
        (
            "sh -c 'true AND false' && true",
            [Gate("", argv=("sh", "-c", "true AND false")), Gate("", argv=("true",))],
        ),
        ("echo a\\&&", [Gate("", shell=True)]),
        ("cd shop && true", [Gate("", folder="shop", argv=("true",))]),
        ("true | false", [Gate("", shell=True)]),
        ("cd .. && true", [Gate("", shell=True)]),
        ("true || make x", [Gate("", shell=True)]),
        ("! grep -r TODO shop", [Gate("", shell=True)]),
        ("grep -q 'a|b' Makefile", [Gate("", argv=("grep", "-q", "a|b", "Makefile"))]),
        ("test -f Makefile", [Gate("", argv=("test", "-f", "Makefile"))]),
    ],
)
def test_commands_are_read_without_running_anything(
    shop: Path, text: str, expected: list[Gate]
) -> None:
    found = gates([text], shop)
    shown = [(g.argv, g.env, g.folder, g.shell) for g in found]
    assert shown == [(g.argv, g.env, g.folder, g.shell) for g in expected]


@pytest.mark.parametrize(
    "claim",
    [
        *("passes", "pass", "passes.", "succeeds", "works", "is green", "runs clean"),
        *("exits 0", "exits with 0", "exits with code 0", "exits with exit code 0", "returns 0"),
        *(
            "returns status 0",
            "exits successfully",
            "completes without errors",
            "reports no errors",
        ),
    ],
)
def test_a_sentence_that_a_command_passes_is_the_command(shop: Path, claim: str) -> None:
    """Mutant: the claim's words are arguments."""
    for command in ("make check", "python -m pytest -q", "cd shop && true"):
        assert gates([f"{command} {claim}"], shop) == gates([command], shop)
    both = gates([f"make check {claim} AND python -m pytest {claim}"], shop)
    assert [gate.argv for gate in both] == [("make", "check"), ("python", "-m", "pytest")]


def test_words_that_name_something_are_arguments(shop: Path) -> None:
    (shop / "passes").touch()
    assert gates(["cat passes"], shop)[0].argv == ("cat", "passes")
    assert gates(["grep -q 'is green' Makefile"], shop)[0].argv[-2] == "is green"
    assert gates(["grep -rq works"], shop)[0].argv[-1] == "works"
    assert gates(["echo it exits 1"], shop)[0].argv == ("echo", "it", "exits", "1")


def test_a_sentence_about_coverage_is_refused_with_the_command(shop: Path) -> None:
    with pytest.raises(ConfigError, match="--cov-fail-under=80"):
        gates(["coverage report shows >80%"], shop)


def test_many_gates_are_refused(shop: Path) -> None:
    with pytest.raises(ConfigError, match="the limit is 20"):
        gates([" AND ".join(["true"] * 21)], shop)


@pytest.mark.scenario("RLP-03")
def test_both_of_two_criteria_must_hold(shop: Path) -> None:
    judge, first = judged(shop, "python -m pytest -q AND grep -q checked NOTES")
    assert [result.passed for result in first.results] == [False, False]
    written(shop, {"shop/till.py": RIGHT})
    verdict = again(judge)
    assert [result.passed for result in verdict.results] == [True, False]
    assert not verdict.passed
    assert verdict.quality == 2 / 3
    written(shop, {"NOTES": "checked\n"})
    assert again(judge).passed


@pytest.mark.scenario("RLP-04", "PEER-13")
def test_a_success_marker_is_not_success(shop: Path) -> None:
    command = "sh -c 'echo Ralph Loop: SUCCESS; exit 1'"
    _, verdict = judged(shop, command)
    assert "SUCCESS" in verdict.results[0].output
    assert not verdict.passed
