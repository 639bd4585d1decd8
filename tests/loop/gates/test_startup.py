"""An error at a gate's start names the missing program and its search path.

Mutants: the message of the container, of `env`, of a shell or of `make` is not read; a program that
the work must create, called by a path, counts; the loop's end omits the message.
"""

import shutil
import venv
from pathlib import Path

import pytest

from taofold.loop.decisions import Close, decide
from taofold.loop.gates.criteria import absent
from taofold.loop.gates.startup import unstarted
from taofold.loop.values import LoopLimits
from taofold.loop.verdict import Gate, GateResult, Verdict
from taofold.tools.containment import installed_outside, linked_environment
from tests.loop.gates.projects import again, judged, written
from tests.loop.kit import begun, iteration, state_after

PATH = "/a:/b"


def script(folder: Path, text: str) -> Path:
    file = folder / "check.sh"
    file.write_text(text)
    file.chmod(0o755)
    return file


@pytest.mark.parametrize(
    ("printed", "code", "name"),
    [
        ("./check.sh: 2: jq: not found\n", 127, "jq"),
        ("./check.sh: line 2: jq: command not found\n", 127, "jq"),
        ("first: not found\nsh: 1: jq: not found\n", 127, "jq"),
        ("make: jq: No such file or directory\nmake: *** [Makefile:2: x] Error 127\n", 2, "jq"),
        ("make[1]: jq: No such file or directory\nmake[1]: *** [x] Error 127\n", 2, "jq"),
        ("/usr/bin/env: ‘jq’: No such file or directory\n", 127, "jq"),
        ("sh: 1: jq: not found\n", 1, ""),
        ("sh: 1: ./build/tool: not found\n", 127, ""),
        ("make: jq: No such file or directory\n", 2, ""),
        ("it was jq: not found\nall well\n", 0, ""),
    ],
)
def test_a_program_that_a_script_calls_is_looked_for_on_the_path(
    tmp_path: Path, printed: str, code: int, name: str
) -> None:
    found = unstarted(script(tmp_path, "#!/bin/sh\n"), tmp_path, PATH, code, printed)
    if not name:
        assert found is None
        return
    assert found == (f"there is no program '{name}' on the gates' PATH ({PATH})", False)


@pytest.mark.parametrize(
    ("first", "word"),
    [
        ("#!/no/such/interpreter\n", "its first line names '/no/such/interpreter'"),
        ("#!/usr/bin/env nosuchinterpreter\n", "no program 'nosuchinterpreter' on the gates' PATH"),
        ("#!/usr/bin/env -S nosuchinterpreter -x\n", "no program 'nosuchinterpreter'"),
    ],
)
def test_a_script_whose_interpreter_is_missing_is_refused_before_iteration_1(
    tmp_path: Path, first: str, word: str
) -> None:
    shop = written(tmp_path / "shop", {"check.sh": first, "a.py": "x = 1\n"})
    (shop / "check.sh").chmod(0o755)
    _, verdict = judged(shop, "./check.sh")
    found = absent(verdict.results)
    assert found is not None
    assert word in found[1]


def test_a_folder_that_is_a_link_out_of_the_work_root_is_named(tmp_path: Path) -> None:
    written(tmp_path / "outside", {"bin/tool": "#!/bin/sh\n"})
    (tmp_path / "outside" / "bin" / "tool").chmod(0o755)
    shop = written(tmp_path / "shop", {"a.py": "x = 1\n"})
    (shop / "tools").symlink_to("../outside")
    _, verdict = judged(shop, "tools/bin/tool", contain="always")
    found = absent(verdict.results)
    assert found is not None
    assert f"'tools' is a link to '{tmp_path}/outside', outside of the work root" in found[1]


SAYS = "import installed, sys; sys.exit(installed.WHY)"


@pytest.mark.parametrize("contain", ["always", "never"])
@pytest.mark.parametrize("command", [f".venv/bin/python -c '{SAYS}'", "make check", "check"])
def test_an_environment_that_is_a_link_out_of_the_work_root_is_used(
    command: str, contain: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = tmp_path / "environments" / "shop"
    venv.create(outside, symlinks=True)
    (packages,) = outside.glob("lib/*/site-packages")
    installed = packages / "installed.py"
    installed.write_text("WHY = 7\n")
    script(outside / "bin", f"#!{outside}/bin/python\n{SAYS}\n").rename(outside / "bin" / "check")
    shop = written(tmp_path / "shop", {"Makefile": f"check:\n\t@.venv/bin/python -c '{SAYS}'\n"})
    (shop / ".venv").symlink_to("../environments/shop")
    monkeypatch.setenv("VIRTUAL_ENV", str(shop / ".venv"))
    judge, verdict = judged(shop, command, contain=contain)
    assert "exit code" in verdict.reasons[0], verdict.results[0].output
    installed.write_text("WHY = 0\n")
    assert again(judge).passed
    # The rest of the path is not checked.
    (shop / ".venv").unlink()
    (shop / ".venv").symlink_to(tmp_path)
    assert again(judge).results[0].passed


TOOL = '#!/usr/bin/env node\nif (require("dep") !== 0) process.exit(7);\n'
USES = 'import dep from "dep";\nimport test from "node:test";\n'


@pytest.mark.parametrize("contain", ["always", "never"])
@pytest.mark.parametrize("command", ["../../node_modules/.bin/tool", "node --test", "npm run lint"])
def test_packages_of_node_above_the_work_root_are_used(
    command: str, contain: str, tmp_path: Path
) -> None:
    if shutil.which(command.partition(" ")[0]) is None and not command.startswith("."):
        pytest.skip("its runner is not installed")
    packages = written(
        tmp_path / "node_modules",
        {"dep/index.js": "module.exports = 7;\n", "tool/tool.js": TOOL, ".bin/other": ""},
    )
    (packages / "tool" / "tool.js").chmod(0o755)
    (packages / ".bin" / "tool").symlink_to("../tool/tool.js")
    shop = written(
        tmp_path / "packages" / "shop",
        {
            "package.json": '{"name": "shop", "scripts": {"lint": "tool"}}',
            "a.test.mjs": f'{USES}test("a", () => {{ if (dep !== 0) throw new Error("no"); }});\n',
        },
    )
    judge, verdict = judged(shop, command, contain=contain)
    assert "exit code" in verdict.reasons[0], verdict.results[0].output
    (packages / "dep" / "index.js").write_text("module.exports = 0;\n")
    assert again(judge).passed


@pytest.mark.parametrize("place", ["home", "root", "no environment", "a project"])
def test_a_link_shows_no_more_than_an_environment(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    around = written(
        tmp_path / "around", {"made.mark": "", "bin/tool": "", "pyvenv.cfg": "home = /usr/bin\n"}
    )
    shop = written((around if place == "root" else tmp_path) / "shop", {"a.py": "x = 1\n"})
    if place == "home":
        monkeypatch.setenv("HOME", str(around))
    elif place == "no environment":
        (around / "pyvenv.cfg").unlink()
    elif place == "a project":
        # Made with `python -m venv .`: the link would show all that lies beside it.
        (around / ".env").write_text("TOKEN=secret\n")
    (shop / ".venv").symlink_to(around)
    assert linked_environment(shop / ".venv", shop) is None
    assert installed_outside(shop) == ()


def test_what_a_script_lacks_is_no_refusal_but_the_reason(tmp_path: Path) -> None:
    shop = written(tmp_path / "shop", {"check.sh": "nosuchprogram\n", "a.py": "x = 1\n"})
    _, verdict = judged(shop, "sh check.sh")
    assert absent(verdict.results) is None
    assert "no program 'nosuchprogram' on the gates' PATH" in verdict.results[0].reasons[0]
    assert verdict.unstarted.startswith("`sh check.sh`: there is no program 'nosuchprogram'")


def test_the_end_of_such_a_loop_says_what_could_not_be_started() -> None:
    lacks = GateResult(Gate("sh check.sh"), False, 127, lacking="there is no program 'jq' (/a)")
    verdict = Verdict(False, (lacks,))
    opened, ended = iteration(1, verdict)
    state = state_after(*begun(bounds=LoopLimits(iterations=1)), opened, ended)
    move = decide("l", state, state.at)
    assert isinstance(move, Close)
    assert move.ending == "exhausted"
    assert "a gate could not start" in move.reason
    assert "there is no program 'jq' (/a)" in move.reason
