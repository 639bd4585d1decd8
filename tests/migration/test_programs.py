"""The unchanged programs of docs/migration: the other library's and taofold's.

A line `print(…)  # text` of a page must print that text.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from taofold.runtime import providers as registry
from taofold.testing import ScriptedModel
from tests import environments
from tests.migration.pages import OURS, blocks, other
from tests.migration.programs import PROGRAMS, Programs

SCRIPTS = Path(__file__).parent / "scripts"
QUIET = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_DISABLE_TRACKING": "true",
    "OTEL_SDK_DISABLED": "true",
}

both = pytest.mark.parametrize(
    "programs", [pytest.param(programs, id=programs.page) for programs in PROGRAMS]
)


def promised(program: str) -> list[str]:
    """Returns the texts of the comments after calls of `print`."""
    return re.findall(r"^\s*print\(.*\)  # (.*)$", program, re.MULTILINE)


@both
def test_the_other_program_prints_what_the_page_states(programs: Programs, tmp_path: Path) -> None:
    environment = environments.needs(programs.environment)
    _, program = other(programs.page)
    file = tmp_path / "program.py"
    file.write_text(program, encoding="utf-8")
    done = environment.run(
        SCRIPTS / programs.script, file, json.dumps(programs.replies),
        env={"HOME": str(tmp_path), **QUIET}, cwd=tmp_path, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert promised(program)
    assert done.stdout.splitlines()[-len(promised(program)) :] == promised(program)


@both
def test_our_program_prints_what_the_page_states(
    programs: Programs,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    program = blocks(programs.page)[OURS]
    model = ScriptedModel(list(programs.ours))

    def scripted(name: str, **settings: Any) -> ScriptedModel:
        return model

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_registered", {**registry._registered, "openai": scripted})
    exec(compile(program, programs.page, "exec"), {"__name__": "__main__"})
    assert promised(program)
    assert capsys.readouterr().out.splitlines() == promised(program)
    assert len(model.requests) == len(programs.ours)


@both
def test_a_page_states_the_version_that_its_program_was_run_with(programs: Programs) -> None:
    pins = environments.FILES / f"{programs.environment}.txt"
    pinned = {line.replace("==", " ") for line in pins.read_text("utf-8").splitlines()}
    title, _ = other(programs.page)
    assert title in pinned
