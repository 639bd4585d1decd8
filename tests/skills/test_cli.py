"""`taofold skills` and `taofold run --skills`, as a user types them.

Mutants it catches: `trust` in the list of commands that agents may call, exit code 0 after faults.
"""

import json
from pathlib import Path

import pytest

from taofold.reserved_places import MARK
from taofold.skills.sources import SHARED
from tests.skills.conftest import WriteSkill
from tests.terminal import Taofold, taofold

__all__ = ["taofold"]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_skills_of_a_project_are_listed_read_trusted_and_used(
    taofold: Taofold, write_skill: WriteSkill
) -> None:
    folder = write_skill(below=SHARED)
    code, out, err = taofold("skills", "list")
    assert code == 0
    assert "reports  untrusted  project  Writes reports." in out
    assert "`taofold skills trust`" in err
    code, _, err = taofold("run", "hello", "--skills", "project", "--model", "test:answer")
    assert code == 2
    assert "is not trusted" in err
    code, out, _ = taofold("skills", "show", "reports")
    assert code == 0
    assert "Add the figures of each month." in out
    code, out, err = taofold("skills", "trust")
    assert code == 0
    assert out.startswith("reports  ")
    assert "trusted: 1 skill" in err
    [row] = json.loads(taofold("skills", "list", "--json").out)
    assert (row["state"], row["folder"]) == ("usable", str(folder))
    assert taofold("run", "hello", "--skills", "project", "--model", "test:answer").code == 0
    (folder / "notes.md").write_text("new")
    assert "reports  changed" in taofold("skills", "list").out
    code, _, err = taofold("run", "hello", "--skills", "project", "--model", "test:answer")
    assert code == 2
    assert "was changed since its trust" in err


def test_check_names_each_fault_with_its_line(taofold: Taofold, write_skill: WriteSkill) -> None:
    write_skill("good")
    assert taofold("skills", "check", "skills").code == 0
    write_skill("bad", front="name: bad\ndescription: ''\n")
    write_skill("odd", front="name: odd\ndescription: d\nlicence: MIT\n")
    code, out, err = taofold("skills", "check", "skills")
    assert code == 1
    bad, odd = out.splitlines()
    assert bad.endswith("bad/SKILL.md:3: description: is empty")
    assert "SKILL.md:4: licence: is not a key of a skill; did you mean 'license'?" in odd
    assert odd.endswith(" (usable)")
    assert "3 skills, 2 with faults" in err
    write_skill("none", front="name: none\ndescription:\n")
    assert "none/SKILL.md:3: description: is empty" in taofold("skills", "check", "skills").out
    code, out, err = taofold("skills", "check", "absent")
    assert code == 1
    assert "0 skills, none with faults" in err
    assert "absent: is not a folder" in out


def test_text_of_a_skill_does_not_act_on_the_terminal(
    taofold: Taofold, write_skill: WriteSkill
) -> None:
    front = 'name: {name}\ndescription: "a\\e[2J"\nmetadata:\n  "a\\e[1A": "b\\e[1A"\n'
    write_skill(front=front, body="x\x1b]0;title\x07")
    for command in (("list", "skills"), ("check", "skills"), ("show", "skills/reports")):
        code, out, err = taofold("skills", *command)
        assert code == 0
        assert not {"\x1b", "\x07"} & set(out + err)


def test_an_agent_cannot_trust_skills(
    taofold: Taofold, write_skill: WriteSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_skill(below=SHARED)
    monkeypatch.setenv(MARK, "run_command")
    assert taofold("skills", "trust").code != 0
    assert "untrusted" in taofold("skills", "list").out


def test_wrong_names_are_one_line(taofold: Taofold, write_skill: WriteSkill) -> None:
    code, _, err = taofold("skills", "show", "nothing")
    assert code == 2
    assert "`taofold skills list` shows the names" in err
    code, _, err = taofold("skills", "list")
    assert code == 0
    assert "no skills" in err
    code, _, err = taofold("run", "hello", "--skills", "nothing", "--model", "test:answer")
    assert code == 2
    assert "nothing: is not a folder" in err
    write_skill("reports", below=".agents/skills")
    assert "did you mean 'reports'?" in taofold("skills", "show", "report").err
    err = taofold("run", "hello", "--skills", "usr", "--model", "test:answer").err
    assert "a folder that holds a SKILL.md; did you mean 'user'?" in err
    write_skill()
    code, _, err = taofold("run", "cmd:echo", "hello", "--skills", "skills")
    assert code == 2
    assert "leave --skills out" in err
