"""Sources of skills: given folders, the user's, and the project's after trust.

Mutants it catches: a project's skills without the check of trust, trust by name instead of by
content, a search that enters links or skills inside of skills.
"""

from pathlib import Path

import pytest

from taofold.core.errors import ConfigError
from taofold.reserved_places import project_state_folder
from taofold.skills import SkillWarning, find_skills, read_skill
from taofold.skills.sources import SHARED, survey, trust
from tests.skills.conftest import WriteSkill


def test_a_folder_of_skills_and_a_folder_of_one(tmp_path: Path, write_skill: WriteSkill) -> None:
    one, _ = write_skill("one"), write_skill("two", below="skills/group")
    # A folder inside a skill belongs to it, and hidden folders hold no skills.
    write_skill("inner", below="skills/one/references")
    write_skill("hidden", below="skills/.cache")
    (tmp_path / "skills" / "link").symlink_to(write_skill("linked", below="elsewhere"))
    assert [skill.name for skill in find_skills(["skills"], tmp_path)] == ["two", "one"]
    assert [skill.name for skill in find_skills([one])] == ["one"]
    assert [skill.name for skill in find_skills([read_skill(one)])] == ["one"]


def test_a_given_folder_must_hold_usable_skills(tmp_path: Path, write_skill: WriteSkill) -> None:
    (tmp_path / "empty").mkdir()
    for source, message in (("empty", "has no skill"), ("absent", "is not a folder")):
        with pytest.raises(ConfigError, match=message):
            find_skills([source], tmp_path)
    write_skill("good")
    write_skill("bad", front="name: bad\n")
    with pytest.raises(ConfigError, match="description is missing"):
        find_skills(["skills"], tmp_path)


def test_the_first_of_two_equal_names_counts(tmp_path: Path, write_skill: WriteSkill) -> None:
    mine, other = write_skill(body="mine", below="a"), write_skill(body="other", below="b")
    with pytest.warns(SkillWarning, match="its name is taken"):
        [skill] = find_skills([mine, other])
    assert skill.body == "mine"


def test_a_faulty_skill_of_the_user_is_left_out_with_a_warning(
    tmp_path: Path, write_skill: WriteSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert find_skills(["user"]) == ()
    write_skill("good", below=Path("home", SHARED))
    write_skill("bad", front="name: bad\n", below=Path("home", SHARED))
    with pytest.warns(SkillWarning, match="description is missing"):
        [skill] = find_skills(["user"])
    assert skill.name == "good"


def test_skills_of_a_project_need_trust_in_their_version(
    tmp_path: Path, write_skill: WriteSkill
) -> None:
    folder = write_skill(files={"scripts/sum.py": "print(1)"}, below=SHARED)
    assert find_skills(["project"], tmp_path / "other") == ()
    with pytest.raises(ConfigError, match=r"is not trusted: run `taofold skills list`"):
        find_skills(["project"], tmp_path)
    assert [skill.name for skill in trust(tmp_path)] == ["reports"]
    assert [skill.name for skill in find_skills(["project"], tmp_path)] == ["reports"]
    # The trust of one folder is not that of another with the same skill.
    write_skill(files={"scripts/sum.py": "print(1)"}, below=Path("clone", SHARED))
    with pytest.raises(ConfigError, match="is not trusted"):
        find_skills(["project"], tmp_path / "clone")
    # A script is as much a part of the version as the instructions.
    (folder / "scripts" / "sum.py").write_text("print(2)")
    with pytest.raises(ConfigError, match="was changed since its trust"):
        find_skills(["project"], tmp_path)
    # A skill that came later under another name was never trusted.
    (folder / "scripts" / "sum.py").write_text("print(1)")
    write_skill("later", below=SHARED)
    states = {found.name: found.state for found in survey(["project"], tmp_path)}
    assert states == {"later": "untrusted", "reports": "usable"}


def test_the_record_of_trust_is_the_users_and_damage_ends_it(
    tmp_path: Path, write_skill: WriteSkill
) -> None:
    write_skill(below=SHARED)
    trust(tmp_path)
    record = project_state_folder(tmp_path / SHARED) / "trusted_skills.json"
    assert not record.is_relative_to(tmp_path / SHARED)
    record.write_text("{")
    with pytest.raises(ConfigError, match="is damaged"):
        find_skills(["project"], tmp_path)
    record.write_text("[]")
    with pytest.raises(ConfigError, match="is not trusted"):
        find_skills(["project"], tmp_path)
