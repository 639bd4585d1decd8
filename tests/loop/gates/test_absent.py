"""A gate with a missing program or module is refused before iteration 1, by its own error.

Mutants: a module that a *test* cannot import counts; a name in the output alone counts; a program
that a script of the project does not find counts.
"""

from pathlib import Path

import pytest

from taofold.core.errors import ConfigError
from taofold.core.failing_checks import Check
from taofold.loop.gates.criteria import absent, gates
from taofold.loop.verdict import Gate, GateResult
from tests.loop.gates.projects import SHOP, judged, written

PYTHON = "/usr/bin/python3"


def result(command: str, output: str, code: int | None = 1, **more: object) -> GateResult:
    argv = () if ";" in command or "|" in command else tuple(command.split())
    gate = Gate(command, argv=argv, shell=not argv)
    return GateResult(gate, False, code, ran=(PYTHON, "-m"), output=output, **more)  # type: ignore[arg-type]


@pytest.mark.scenario("RLP-01")
@pytest.mark.parametrize(
    ("one", "word"),
    [
        (result("python -m nosuch", f"{PYTHON}: No module named nosuch\n"), "no module 'nosuch'"),
        (
            result("env -m python -m a.b", f"{PYTHON}: Error while finding module specification "
                   "for 'a.b' (ModuleNotFoundError: No module named 'a')"),
            "no module 'a.b'",
        ),
        (
            result("pytest -q", "Traceback …\nModuleNotFoundError: No module named 'pytest'",
                   runner="pytest"),
            "no module 'pytest'",
        ),
        (result("true; nosuch -x", "/bin/bash: line 1: nosuch: command not found", 127),
         "no program 'nosuch'"),
        (result("ls | nosuch", "sh: 1: nosuch: not found", 127), "no program 'nosuch'"),
        (result("./x", "", None, lacking="x cannot be started", started=False),
         "cannot be started"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_found(one: GateResult, word: str) -> None:
    found = absent([GateResult(Gate("true"), True, 0), one])
    assert found is not None
    assert found[0] == one.gate
    assert word in found[1]


@pytest.mark.parametrize(
    "one",
    [
        result("python -m mytool", "  File x\nModuleNotFoundError: No module named 'yaml'"),
        result("python -m mytool", "No module named mytool\nbut that was only a log line"),
        result("python -m mytool", "mytool: the exit is 1"),
        result("sh -c 'python -m nosuch'", f"{PYTHON}: No module named nosuch"),
        result("pytest -q", "E ModuleNotFoundError: No module named 'pytest'",
               runner="pytest", checks=(Check("t", "failed"),)),
        result("sh scripts/check.sh; true", "scripts/check.sh: line 3: jq: not found", 127),
        result("make check", "make: ruff: No such file or directory", 2),
        result("python -m nosuch", "", None, timed_out=True, reasons=("it did not end",)),
    ],
)  # fmt: skip
def test_what_may_be_the_work_itself_is_not_refused(one: GateResult) -> None:
    assert absent([one]) is None


def test_real_programs_say_so_in_these_words(tmp_path: Path) -> None:
    shop = written(tmp_path / "shop", SHOP)
    for command in ("python -m nosuchmodule", "python -m no.such", "true; nosuchprogram"):
        _, verdict = judged(shop, command)
        assert absent(verdict.results) is not None, command
    _, verdict = judged(shop, "python -m pytest -q")
    assert absent(verdict.results) is None


@pytest.mark.scenario("RLP-01")
def test_a_script_that_package_json_lacks_and_a_file_that_is_not_executable_are_refused(
    tmp_path: Path,
) -> None:
    root = written(
        tmp_path / "app", {"package.json": '{"scripts": {"lint": "true"}}', "check.sh": "true\n"}
    )
    bin_ = written(tmp_path / "bin", {"npm": "#!/bin/sh\n"})
    (bin_ / "npm").chmod(0o755)
    given = {"path": str(bin_)}
    assert gates(["npm run lint"], root, **given)
    assert gates(["npm ci"], root, **given)
    for command in ("npm test", "npm run build", "npm t"):
        with pytest.raises(ConfigError, match=r"package\.json has no script"):
            gates([command], root, **given)
    (root / "package.json").unlink()
    with pytest.raises(ConfigError, match=r"there is no package\.json"):
        gates(["npm run lint"], root, **given)
    with pytest.raises(ConfigError, match=r"not executable.* sh \./check\.sh"):
        gates(["./check.sh"], root, **given)


@pytest.mark.anyio
@pytest.mark.scenario("RLP-01")
async def test_such_a_loop_ends_before_iteration_1_and_nothing_of_it_stays(tmp_path: Path) -> None:
    from taofold.loop.lifecycle import rows, start
    from taofold.loop.verdict import Verdict
    from tests.loop.kit import ground_of, means, wish

    lacking = result("python -m nosuch", f"{PYTHON}: No module named nosuch")
    given = means(tmp_path, [], lambda root: Verdict(False, (lacking,)))
    with pytest.raises(ConfigError, match="cannot be run to prove completion") as refused:
        await start(given, wish(tmp_path, mode="copy"))
    assert "such as" in str(refused.value)
    [row] = await rows(given)
    assert (row.state.status, row.state.iterations) == ("aborted", ())
    assert ground_of(given).log == ["begin", "clear"]
