"""One skill: reading, refusals with their lines, and faults that are only reported.

Mutants it catches: `followlinks=True`, a frontmatter that ends at the first line of dashes in the
body, a fatal fault that is not fatal, a digest over the contents without the names.
"""

import os
from pathlib import Path

import pytest

from taofold.core.errors import ConfigError
from taofold.skills import read_skill
from taofold.skills.skill import MOST_CHARS, examine, unchanged
from tests.prerequisites import SKILLS
from tests.skills.conftest import WriteSkill


def test_all_parts_of_a_skill_are_read(write_skill: WriteSkill) -> None:
    front = (
        "name: reports\ndescription: >\n  Writes\n  reports.\nlicense: MIT\n"
        "compatibility: Needs pandas.\nmetadata:\n  author: ada\n  version: '1.0'\n"
        "allowed-tools: Bash(git:*) Read\n"
    )
    files = {
        "scripts/sum.py": "print(1)",
        "scripts/table.xsd": "<xsd/>",
        "tools/run": "#!/usr/bin/env -S bash -e\necho 1\n",
        "references/style.md": "Short sentences.",
    }
    folder = write_skill(front=front, body="Text.\n\n---\n\nMore.\n", files=files)
    skill = read_skill(folder)
    assert (skill.name, skill.description) == ("reports", "Writes reports.")
    assert skill.body == "Text.\n\n---\n\nMore."
    assert (skill.license, skill.compatibility) == ("MIT", "Needs pandas.")
    assert skill.metadata == {"author": "ada", "version": "1.0"}
    assert skill.allowed_tools == "Bash(git:*) Read"
    assert list(skill.files) == [
        "references/style.md",
        "scripts/sum.py",
        "scripts/table.xsd",
        "tools/run",
    ]
    assert skill.scripts == {"scripts/sum.py": ("python",), "tools/run": ("bash", "-e")}
    assert skill.faults == ()
    assert unchanged(skill) is not None


FRONTS = {
    "no name": ("description: d\n", "SKILL.md: name is missing"),
    "no description": ("name: {name}\n", "SKILL.md: description is missing"),
    "empty description": ("name: {name}\ndescription: '  '\n", "SKILL.md:3: description: is empty"),
    "number as name": ("name: 12\ndescription: d\n", "SKILL.md:2: name: must be text, not 12"),
    "list as description": (
        "name: {name}\ndescription: [a]\n",
        "SKILL.md:3: description: must be text, not ['a']",
    ),
    "blank in the name": (
        "name: two words\ndescription: d\n",
        "SKILL.md:2: name: 'two words' may have only lowercase letters, digits and hyphens",
    ),
    "line end in the name": ('name: "a\\nb"\ndescription: d\n', "SKILL.md:2: name: 'a\\nb' may"),
    "quote in the name": ("name: a'b\ndescription: d\n", 'SKILL.md:2: name: "a\'b" may'),
    "long name": (
        f"name: {'a' * 65}\ndescription: d\n",
        "SKILL.md:2: name: has 65 characters, the limit is 64",
    ),
    "a list": ("- name\n", "SKILL.md:1: has no keys between the lines '---'"),
    "nothing": ("", "SKILL.md:1: has no keys between the lines '---'"),
    "two names": ("name: a\nname: b\ndescription: d\n", "SKILL.md:3: not readable YAML"),
    "an alias": ("name: &a x\ndescription: *a\n", "SKILL.md:3: not readable YAML"),
    "a tag": ("name: !!python/object x\ndescription: d\n", "SKILL.md:2: not readable YAML"),
    "an open quote": ("name: 'x\ndescription: d\n", "not readable YAML"),
    "a tab": ("name: x\n\tdescription: d\n", "SKILL.md:3: not readable YAML"),
}


@pytest.mark.parametrize("kind", FRONTS)
def test_a_faulty_beginning_is_refused_with_its_line(kind: str, write_skill: WriteSkill) -> None:
    front, message = FRONTS[kind]
    folder = write_skill(front=front)
    with pytest.raises(ConfigError) as caught:
        read_skill(folder)
    assert f"{folder}/" in str(caught.value)
    assert message in str(caught.value)


FILES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "SKILL.md:1: does not begin with '---'"),
    "no beginning": (b"# Reports\n", "SKILL.md:1: does not begin with '---'"),
    "no end": (b"---\nname: reports\ndescription: d\n", "SKILL.md:1: has no second line '---'"),
    "latin-1": (
        "---\nname: reports\ndescription: é\n---\n".encode("latin-1"),
        "SKILL.md:3: is not",
    ),
    "NUL": (b"---\nname: reports\ndescription: d\n---\na\0b", "SKILL.md:5: has a NUL character"),
    "too long": (
        b"---\nname: reports\ndescription: d\n---\n" + b"a" * MOST_CHARS,
        f"the limit is {MOST_CHARS:,}: move parts into files",
    ),
}


@pytest.mark.parametrize("kind", FILES)
def test_an_unreadable_file_is_refused(kind: str, write_skill: WriteSkill) -> None:
    content, message = FILES[kind]
    folder = write_skill(files={"SKILL.md": content})
    with pytest.raises(ConfigError) as caught:
        read_skill(folder)
    assert message in str(caught.value)


def test_folders_that_hold_no_skill_are_refused(tmp_path: Path, write_skill: WriteSkill) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    lower = write_skill()
    (lower / "SKILL.md").rename(lower / "skill.md")
    for folder, message in (
        ("absent", "does not exist"),
        ("file", "is a file, not a folder"),
        ("empty", "has no SKILL.md: a skill needs that file"),
        (lower, "has no SKILL.md: rename skill.md"),
    ):
        with pytest.raises(ConfigError, match=message):
            read_skill(tmp_path / folder)


def test_links_and_special_files_are_refused(tmp_path: Path, write_skill: WriteSkill) -> None:
    """A link could lead to a secret of the user, a FIFO would block the reader."""
    (tmp_path / "secret").write_text("key")
    linked, piped, directory = (write_skill(name) for name in ("linked", "piped", "directory"))
    (linked / "notes.md").symlink_to(tmp_path / "secret")
    os.mkfifo(piped / "notes.md")
    (directory / "references").symlink_to(tmp_path)
    for folder, message in (
        (linked, "notes.md: is a link"),
        (piped, "notes.md: is not a regular file"),
        (directory, "references: is a link"),
    ):
        with pytest.raises(ConfigError, match=message):
            read_skill(folder)
    # Only folders of these names are no part of a skill.
    for name, make in ((".venv", Path.symlink_to), (".git", lambda path, _: os.mkfifo(path))):
        odd = write_skill(f"odd{name.strip('.')}")
        make(odd / name, tmp_path / "secret")
        with pytest.raises(ConfigError, match=r"is a link|is not a regular file"):
            read_skill(odd)
    instructions = write_skill("instructions")
    (instructions / "SKILL.md").unlink()
    (instructions / "SKILL.md").symlink_to(tmp_path / "secret")
    with pytest.raises(ConfigError, match=r"SKILL\.md: is a link"):
        read_skill(instructions)


LENIENT = {
    "another name": ("name: report\ndescription: d\n", "2: name: 'report' should be the name of"),
    "capitals": (
        "name: Reports\ndescription: d\n",
        "2: name: 'Reports' should have only lowercase",
    ),
    "two hyphens": ("name: a--b\ndescription: d\n", "2: name: 'a--b' should have single hyphens"),
    "a hyphen at the end": ("name: a-\ndescription: d\n", "2: name: 'a-' should have single"),
    "a long description": (
        f"name: {{name}}\ndescription: {'a' * 1025}\n",
        "3: description: has 1,025 characters, the limit is 1,024",
    ),
    "an unknown key": (
        "name: {name}\ndescription: d\nlicence: MIT\n",
        "4: licence: is not a key of a skill; did you mean 'license'?",
    ),
    "a number in metadata": (
        "name: {name}\ndescription: d\nmetadata:\n  version: 1.0\n",
        "5: metadata.version: must be text, not 1.0",
    ),
    "metadata of text": (
        "name: {name}\ndescription: d\nmetadata: x\n",
        "4: metadata: must be keys with texts",
    ),
    "a list of tools": (
        "name: {name}\ndescription: d\nallowed-tools: [Read]\n",
        "4: allowed-tools: must be text, not ['Read']",
    ),
    "long compatibility": (
        f"name: {{name}}\ndescription: d\ncompatibility: {'a' * 501}\n",
        "4: compatibility: has 501 characters, the limit is 500",
    ),
    "a colon without quotes": (
        'name: {name}\ndescription: Use it when: the user asks for a "report".\n',
        "3: is not YAML: put the text after the first colon in quotes",
    ),
}


@pytest.mark.parametrize("kind", LENIENT)
def test_skills_of_other_programs_are_read_and_their_faults_kept(
    kind: str, write_skill: WriteSkill
) -> None:
    front, message = LENIENT[kind]
    skill = read_skill(write_skill(front=front))
    [fault] = skill.faults
    assert not fault.fatal
    assert message in str(fault)
    assert len(skill.description) <= 1024
    if "colon" in kind:
        assert skill.description == 'Use it when: the user asks for a "report".'


def test_all_faults_are_reported_at_once(write_skill: WriteSkill) -> None:
    skill, faults = examine(write_skill(front="name: a b\ndescription: 1\nmood: good\n"))
    assert skill is None
    assert [fault.line for fault in faults] == [2, 3, 4]
    with pytest.raises(ExceptionGroup, match="cannot be used"):
        read_skill(faults[0].path.parent)


def test_a_body_may_be_empty_but_is_reported(write_skill: WriteSkill) -> None:
    [fault] = read_skill(write_skill(body="")).faults
    assert "no instructions" in str(fault)


def test_the_version_covers_names_and_contents(write_skill: WriteSkill) -> None:
    folder = write_skill(files={"a.md": "x", "b.md": "y"})
    skill = read_skill(folder)
    for change in ("content", "name", "new", "less"):
        if change == "content":
            (folder / "a.md").write_text("z")
        elif change == "name":
            (folder / "a.md").write_text("x")
            (folder / "b.md").rename(folder / "c.md")
        elif change == "new":
            (folder / "c.md").rename(folder / "b.md")
            (folder / "d.md").touch()
        else:
            (folder / "d.md").unlink()
            (folder / "b.md").unlink()
        assert unchanged(skill) is None, change
    (folder / "b.md").write_text("y")
    assert unchanged(skill) is not None
    assert read_skill(folder).digest == skill.digest


@SKILLS.mark
def test_public_skills_are_read() -> None:
    """Every skill of the given repositories can be used."""
    files = list(Path(os.environ["TAOFOLD_SKILLS"]).rglob("SKILL.md"))
    assert len(files) >= 30
    for file in files:
        skill = read_skill(file.parent)
        assert skill.body, file
        assert all("SKILL.md" in str(fault) for fault in skill.faults)


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_all_ends_of_lines_and_a_byte_order_mark_are_read(
    mark: str, end: str, write_skill: WriteSkill
) -> None:
    """Mutant: a single carriage return ends no line."""
    text = f"{mark}---\nname: reports\ndescription: d\n---\nOne.\nTwo.\n".replace("\n", end)
    skill = read_skill(write_skill(files={"SKILL.md": text.encode()}))
    assert (skill.name, skill.description, skill.body) == ("reports", "d", "One.\nTwo.")
