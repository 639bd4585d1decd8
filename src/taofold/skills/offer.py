"""The tools by which a model uses skills: load one, read its files, run its scripts.

The list of skills is in the description of `use_skill`, so its names and descriptions are in every
request and the instructions are not. A call of `use_skill` is recorded like any other: it is the
activation. Its result stays complete when older steps are shortened (`Tool.pinned`).
"""

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

from taofold.core.text import times, visible_line
from taofold.core.values import Tier
from taofold.skills.skill import MOST_CHARS, Skill, unchanged, unchanged_file, write_copy
from taofold.tools.command import command_tool
from taofold.tools.container_network import Reach
from taofold.tools.context import Outcome, RunContext
from taofold.tools.files import FileReader
from taofold.tools.jail import Jail
from taofold.tools.temporary_folders import scratch
from taofold.tools.tool import Tool, external, object_schema
from taofold.tools.toolset import Toolset

USE: Final = "use_skill"
READ: Final = "read_skill_file"
RUN: Final = "run_skill_script"
MOST_LISTED: Final = 100
"""Maximum files of a skill that are listed."""
_USE: Final = (
    "Load the instructions of a skill. Do this before a task that the skill describes, once per "
    "skill, and follow them with the other tools. The skills:"
)


def skill_tools(
    skills: Sequence[Skill], root: Path | str = ".", *, network: bool | Reach = False
) -> Toolset:
    """Returns the tools by which a model uses the skills. No skills give no tools.

    Example:
        ```python
        from taofold import Agent
        from taofold.skills import find_skills, skill_tools

        tools = skill_tools(find_skills(["skills"]), root="work")
        agent = Agent("openai:gpt-5", tools=[tools])
        ```

    Args:
        skills: The skills. `Agent(skills=…)` takes their folders instead.
        root: Working directory of their scripts.
        network: Network of their scripts, as for `command_tool`.

    Returns:
        `use_skill`; `read_skill_file` if a skill has further files; `run_skill_script` if one has
        scripts. A script runs like a command of `command_tool`, with the same tiers.

    Raises:
        ConfigError: The working directory cannot be used.
    """
    if not skills:
        return Toolset()
    known = {skill.name: skill for skill in skills}
    tools = [_use(known)]
    if any(skill.files for skill in skills):
        tools.append(_read(known))
    if any(skill.scripts for skill in skills):
        tools.append(_run(known, root, network))
    return Toolset(tools)


def _named(names: Sequence[str], **properties: dict[str, Any]) -> dict[str, Any]:
    skill = {"type": "string", "enum": list(names), "description": "Name of the skill."}
    return object_schema(skill=skill, **properties)


def _use(skills: Mapping[str, Skill]) -> Tool:
    # One line each: a description with line ends could imitate the entry of another skill.
    lines = [
        f"- {s.name}: {visible_line(' '.join(s.description.split()))}" for s in skills.values()
    ]

    def use(parameters: dict[str, Any]) -> Outcome:
        skill = skills[parameters["skill"]]
        needs = f"Needs: {skill.compatibility}\n\n" if skill.compatibility else ""
        files = times(len(skill.files), "file")
        summary = f"skill {skill.name}, version {skill.digest[:12]}, {files}"
        return Outcome(f"{needs}{skill.body}{_files(skill)}", extraction=summary)

    return external(
        USE,
        "\n".join([_USE, *lines]),
        _named(list(skills)),
        use,
        effect="read",
        thread=False,
        pinned=True,
        max_chars=2 * MOST_CHARS,
        toolset="skills",
    )


def _files(skill: Skill) -> str:
    """Returns the list of the files that belong to the skill, for the model."""
    lines: list[str] = []
    others = [path for path in skill.files if path not in skill.scripts]
    for tool, paths in ((READ, others), (RUN, [*skill.scripts])):
        if paths:
            more = f" … and {len(paths) - MOST_LISTED} more" if len(paths) > MOST_LISTED else ""
            shown = ", ".join([visible_line(path) for path in paths[:MOST_LISTED]])
            lines.append(f"For {tool}: {shown}{more}")
    return "\n\n[files of this skill]\n" + "\n".join(lines) if lines else ""


def _changed(skill: Skill) -> str:
    return f"the files of the skill {skill.name!r} have changed since this agent was started"


def _read(skills: Mapping[str, Skill]) -> Tool:
    def read(parameters: dict[str, Any]) -> Outcome:
        skill = skills[parameters["skill"]]
        path = str(parameters["path"])
        if path not in skill.files:
            return Outcome(f"{skill.name!r} has no file {path!r}{_files(skill)}", "failure")
        content = unchanged_file(skill, path)
        if content is None:
            return Outcome(_changed(skill), "failure")
        try:
            with scratch("skill") as folder:
                write_copy({path: content}, folder)
                return FileReader(Jail(folder.resolve())).read_file(
                    path, parameters.get("start", 1)
                )
        except (OSError, ValueError) as error:
            return Outcome(str(error), "failure")

    return external(
        READ,
        "Read a file of a skill, such as references/guide.md.",
        _named(
            [name for name, skill in skills.items() if skill.files],
            path={"type": "string", "description": "The file, relative to the skill's folder."},
            start={
                "type": "integer",
                "minimum": 1,
                "default": 1,
                "description": "First line to read, counted from 1.",
            },
        ),
        read,
        effect="read",
        toolset="skills",
    )


def _run(skills: Mapping[str, Skill], root: Path | str, network: bool | Reach) -> Tool:
    runnable = {name: skill for name, skill in skills.items() if skill.scripts}
    shell = command_tool(root, network=network)

    async def run(ctx: RunContext[Any], parameters: dict[str, Any]) -> Outcome:
        skill = runnable[parameters["skill"]]
        if parameters["script"] not in skill.scripts:
            wrong = f"{skill.name!r} has no script {parameters['script']!r}{_files(skill)}"
            return Outcome(wrong, "failure")
        contents = unchanged(skill)
        if contents is None:
            return Outcome(_changed(skill), "failure")
        script = parameters["script"]
        # A copy of the files that were read: a script reaches no others of the skill's folder, and
        # none that change in the meantime.
        with scratch("skill") as folder:
            write_copy(contents, folder)
            once = command_tool(root, network=network, readable=[folder])
            call: Callable[..., Awaitable[Outcome]] = cast("Any", once.function)
            program = [*skill.scripts[script], str(folder / script)]
            return await call(ctx, [*program, *_arguments(parameters)])

    def preview(parameters: dict[str, Any]) -> str:
        skill = runnable.get(str(parameters.get("skill")))
        if skill is None:
            return ""
        version = f"{skill.name!r}, version {skill.digest[:12]}"
        shown = shlex.join([str(parameters.get("script")), *map(str, _arguments(parameters))])
        label = "contained" if shell.tier < Tier.CONFIRM else "not contained"
        return f"run {shown} of the skill {version} ({label})"

    made = external(
        RUN,
        "Run a script of a skill in the working directory and return its exit code and output. "
        "The instructions of the skill name the arguments.",
        _named(
            list(runnable),
            script={"type": "string", "description": "The file, such as scripts/check.py."},
            arguments={
                "type": "array",
                "items": {"type": "string"},
                "default": [],
                "description": "Arguments of the script.",
            },
        ),
        run,
        context=True,
        tier=shell.tier,
        effect="once",
        timeout=shell.timeout,
        longest=shell.longest,
        sequential=True,
        preview=preview,
        toolset="skills",
    )

    def place(folder: Path) -> Tool:
        return _run(skills, folder, network)

    return replace(made, root=shell.root, place=place)


def _arguments(parameters: Mapping[str, Any]) -> list[str]:
    return list(parameters.get("arguments") or [])
