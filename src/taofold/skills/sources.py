"""Sources of skills: given folders, the user's folder, and the project's, which needs trust.

`.agents/skills` is the folder that many programs share. A project may come from another person, and
its skills instruct the model. So `"project"` loads only the versions that this user has trusted
(`trust`); the record of it is in the user's own state folder, where no repository can write.
"""

import json
import os
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Final, Literal

from taofold.core.errors import ConfigError
from taofold.core.json_values import is_object
from taofold.reserved_places import make_folder, project_state_folder, read_file, write_file
from taofold.skills.skill import SKILL_FILE, Skill, SkillFault, examine

SHARED: Final = Path(".agents", "skills")
USER: Final = "user"
PROJECT: Final = "project"
DEEPEST: Final = 4
"""Levels of folders that are searched below a given one."""
MOST_FOLDERS: Final = 2_000
TRUST: Final = "run `taofold skills list`, read them, then `taofold skills trust`"

State = Literal["usable", "faulty", "untrusted", "changed", "hidden", "missing"]
"""`hidden`: an earlier source has this name. `changed`: another version was trusted. `missing`: the
source has no skill."""


class SkillWarning(UserWarning):
    """A skill of the user's folder or the project's that is left out, or that another one hides."""


@dataclass(frozen=True, slots=True)
class FoundSkill:
    """A folder with a `SKILL.md`: the skill, if it can be read, and whether it may be used."""

    source: str
    folder: Path
    skill: Skill | None
    faults: tuple[SkillFault, ...]
    state: State

    @property
    def name(self) -> str:
        """The name of the skill, or of the folder if the skill cannot be read."""
        return self.skill.name if self.skill is not None else self.folder.name


def user_folder() -> Path:
    """Returns the folder of this user's skills."""
    return Path.home() / SHARED


def project_folder(root: Path) -> Path:
    """Returns the folder of the skills of the project at `root`."""
    return root / SHARED


def find_skills(sources: Iterable[str | Path | Skill], root: Path | str = ".") -> tuple[Skill, ...]:
    """Returns the usable skills of the sources.

    Example:
        ```python
        from taofold.skills import find_skills

        for skill in find_skills(["skills", "user"]):
            print(skill.name, "-", skill.description)
        ```

    Args:
        sources: Folders of skills, folders of one skill, skills, `"user"` (`~/.agents/skills`) and
            `"project"` (`.agents/skills` of `root`). Of two skills with one name the first counts.
        root: Folder of the project.

    Raises:
        ConfigError: A given folder has no skill or a faulty one, or a skill of the project is not
            trusted. An ExceptionGroup of several.
    """
    usable: list[Skill] = []
    errors: list[ConfigError] = []
    for found in survey(sources, Path(root)):
        if found.state == "usable" and found.skill is not None:
            usable.append(found.skill)
        elif found.state in ("untrusted", "changed"):
            why = "is not trusted" if found.state == "untrusted" else "was changed since its trust"
            errors.append(ConfigError(f"the skill in {str(found.folder)!r} {why}: {TRUST}"))
        elif found.state == "hidden":
            _warn(f"the skill in {str(found.folder)!r} is ignored: its name is taken")
        elif found.source in (USER, PROJECT):
            # One faulty folder of many must not stop every agent of this user.
            _warn("; ".join([str(fault) for fault in found.faults]))
        else:
            errors += [ConfigError(str(fault)) for fault in found.faults if fault.fatal]
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise ExceptionGroup("the skills cannot be used", errors)
    return tuple(usable)


def _warn(text: str) -> None:
    warnings.warn(text, SkillWarning, stacklevel=3)


def survey(sources: Iterable[str | Path | Skill], root: Path) -> Iterator[FoundSkill]:
    """Yields the skills of the sources, usable or not. Arguments: `find_skills`."""
    taken: set[str] = set()
    for source in sources:
        for found in _of_source(source, root):
            hidden = found.state == "usable" and found.name in taken
            if found.state == "usable":
                taken.add(found.name)
            yield replace(found, state="hidden") if hidden else found


def _of_source(source: str | Path | Skill, root: Path) -> Iterator[FoundSkill]:
    if isinstance(source, Skill):
        yield FoundSkill(str(source.folder), source.folder, source, source.faults, "usable")
        return
    if source == USER:
        yield from _found(USER, user_folder())
        return
    if source == PROJECT:
        yield from _of_project(root)
        return
    folder = root / source
    found = list(_found(str(source), folder))
    if not found:
        wrong = "has no skill" if folder.is_dir() else "is not a folder"
        similar = get_close_matches(folder.name, (USER, PROJECT), n=1)
        hint = f"; did you mean {similar[0]!r}?" if similar else ""
        fault = SkillFault(folder, f"{wrong}: name a folder that holds a {SKILL_FILE}{hint}")
        found = [FoundSkill(str(source), folder, None, (fault,), "missing")]
    yield from found


def _of_project(root: Path) -> Iterator[FoundSkill]:
    trusted = _trusted(root)
    for found in _found(PROJECT, project_folder(root)):
        if found.skill is None:
            yield found
            continue
        known = trusted.get(found.name)
        state: State = "untrusted" if known is None else "changed"
        yield found if known == found.skill.digest else replace(found, state=state)


def _found(source: str, folder: Path) -> Iterator[FoundSkill]:
    for each in _folders(folder):
        skill, faults = examine(each)
        state: State = "faulty" if skill is None else "usable"
        yield FoundSkill(source, each, skill, tuple(faults), state)


def _folders(folder: Path) -> list[Path]:
    """Returns the folders with a `SKILL.md` at or below `folder`, sorted."""
    found: list[Path] = []
    for searched, (here, folders, files) in enumerate(os.walk(folder)):
        if searched == MOST_FOLDERS:
            raise ConfigError(f"{str(folder)!r} has more than {MOST_FOLDERS:,} folders")
        depth = len(Path(here).relative_to(folder).parts)
        is_skill = any(name.lower() == SKILL_FILE.lower() for name in files)
        if is_skill:
            found.append(Path(here))
        # A skill's own folders hold its files, and a linked folder is not entered by os.walk.
        if is_skill or depth >= DEEPEST:
            folders.clear()
        folders[:] = [
            each for each in folders if not each.startswith(".") and each != "node_modules"
        ]
    return sorted(found)


def trust(root: Path) -> list[Skill]:
    """Records the present versions of the project's skills as trusted by this user.

    Versions that were trusted before are forgotten.

    Args:
        root: Folder of the project.

    Returns:
        The trusted skills. Faulty ones are not among them.
    """
    skills = [found.skill for found in _of_project(root) if found.skill is not None]
    path = _record(root)
    make_folder(path.parent)
    write_file(path, json.dumps({skill.name: skill.digest for skill in skills}).encode())
    return skills


def _record(root: Path) -> Path:
    return project_state_folder(project_folder(root)) / "trusted_skills.json"


def _trusted(root: Path) -> dict[str, str]:
    try:
        value = json.loads(read_file(_record(root)))
    except FileNotFoundError:
        return {}
    except ValueError:
        raise ConfigError(f"{str(_record(root))!r} is damaged: {TRUST}") from None
    return {str(key): str(each) for key, each in value.items()} if is_object(value) else {}
