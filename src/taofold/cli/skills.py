"""Commands `taofold skills`: list, check and show skills, and trust those of a project."""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taofold.cli import options
from taofold.cli.output import fail, give, give_json, say
from taofold.core.text import line, times, visible

if TYPE_CHECKING:
    from taofold.skills.sources import FoundSkill

app = typer.Typer(
    no_args_is_help=True,
    help="Skills: folders with instructions for a kind of task (agentskills.io). SOURCE is a "
    "folder, `user` (~/.agents/skills) or `project` (.agents/skills of this folder).",
)
Sources = Annotated[
    list[str] | None, typer.Argument(metavar="[SOURCE]...", help="Default: project and user.")
]


def _survey(sources: Sequence[str] | None) -> "list[FoundSkill]":
    from taofold.skills.sources import PROJECT, USER, survey

    return list(survey(sources or (PROJECT, USER), Path.cwd()))


def _facts(found: "FoundSkill") -> dict[str, Any]:
    skill = found.skill
    return {
        "name": found.name,
        "state": found.state,
        "source": found.source,
        "folder": str(found.folder),
        "description": skill.description if skill else "",
        "version": skill.digest if skill else "",
        "files": list(skill.files) if skill else [],
        "scripts": list(skill.scripts) if skill else [],
        "faults": [str(fault) for fault in found.faults],
    }


@app.command("list")
def list_(sources: Sources = None, json: options.Json = False) -> None:
    """List skills and whether agents may use them."""
    from taofold.cli.render.tables import table

    rows = _survey(sources)
    if json:
        give_json([_facts(found) for found in rows])
        return
    if not rows:
        say("no skills: they are folders with a SKILL.md in .agents/skills or ~/.agents/skills")
        return
    cells = [
        (
            found.name,
            found.state,
            found.source,
            line(found.skill.description if found.skill else str(found.faults[0]), 100),
        )
        for found in rows
    ]
    table(("skill", "state", "source", "description"), cells)
    if any(found.state in ("untrusted", "changed") for found in rows):
        say("read them with `taofold skills show NAME`, then run `taofold skills trust`")


@app.command()
def check(sources: Sources = None, json: options.Json = False) -> None:
    """Check skills against the specification. The exit code is 1 if one breaks it."""
    rows = _survey(sources)
    faults = [(found, fault) for found in rows for fault in found.faults]
    if json:
        give_json([_facts(found) for found in rows])
    for _, fault in () if json else faults:
        give(visible(f"{fault}" if fault.fatal else f"{fault} (usable)"))
    if not json:
        skills = [found for found in rows if found.state != "missing"]
        faulty = len({found.folder for found in skills if found.faults})
        say(f"{times(len(skills), 'skill')}, {faulty or 'none'} with faults")
    if faults:
        raise typer.Exit(1)


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a skill, or its folder.")],
    json: options.Json = False,
) -> None:
    """Show a skill as a model reads it, with its files and its version."""
    from taofold.skills.skill import SKILL_FILE

    rows = _survey([name]) if Path(name, SKILL_FILE).is_file() else _survey(None)
    chosen = [found for found in rows if found.name == name or str(found.folder) == name]
    chosen = chosen or (rows if len(rows) == 1 and Path(name).is_dir() else [])
    if not chosen:
        similar = get_close_matches(name, [found.name for found in rows], n=1)
        hint = f"did you mean {similar[0]!r}? " if similar else ""
        fail(f"there is no skill {name!r}; {hint}`taofold skills list` shows the names")
    found = chosen[0]
    if json:
        give_json({**_facts(found), "body": found.skill.body if found.skill else ""})
        return
    if found.skill is None:
        fail("\n".join([visible(str(fault)) for fault in found.faults]))
    skill = found.skill
    facts = {
        "name": skill.name,
        "description": skill.description,
        "state": found.state,
        "folder": str(skill.folder),
        "version": skill.digest[:12],
        "license": skill.license,
        "needs": skill.compatibility,
        "asks for": skill.allowed_tools,
        "files": ", ".join(path for path in skill.files if path not in skill.scripts),
        "scripts": ", ".join(skill.scripts),
        **skill.metadata,
    }
    for key, value in facts.items():
        if value:
            give(f"{line(key, 40)}: {' '.join(visible(value).split())}")
    give(f"\n{visible(skill.body)}")


@app.command()
def trust() -> None:
    """Allow agents of this user to use the skills of this project in their present version.

    A skill that changes later is refused until it is trusted again. Read the skills first: their
    text instructs the model.
    """
    from taofold.skills import sources

    skills = sources.trust(Path.cwd())
    for skill in skills:
        give(f"{skill.name}  {skill.digest[:12]}  {visible(line(skill.description, 80))}")
    folder = sources.project_folder(Path.cwd())
    say(f"trusted: {times(len(skills), 'skill')} in {visible(str(folder))}")
