"""A tool that is defined in an agent file: a command with places for its parameters.

The command is a list of arguments, never a shell's line: what a model writes fills places and
can neither add an argument nor begin an option.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, cast

from pydantic import BaseModel, Field

from taofold.actions.types import NoType, record
from taofold.core.errors import ConfigError
from taofold.spec.document import Document, Place, Strict, check
from taofold.spec.faults import Fault
from taofold.spec.template import Template, Unrenderable, is_template
from taofold.tools import Outcome, RunContext, Tool
from taofold.tools.command import command_tool
from taofold.tools.tool import check_name, external

_TIMEOUT: Final = 60.0


class InlineKeys(Strict):
    """The keys of a tool that is defined in place."""

    name: str
    description: Annotated[str, Field(min_length=1)]
    parameters: dict[str, Any] = {}
    """Names and types, as in `{path: str, lines?: bool}`."""
    command: Annotated[list[str], Field(min_length=1)]
    tier: Annotated[int, Field(ge=2, le=4)] = 2
    """It may only be raised: commands that are not contained are tier 3 in any case."""
    timeout: Annotated[float, Field(gt=0, le=3600)] = _TIMEOUT


@dataclass(frozen=True, slots=True)
class InlineTool:
    """A tool without faults."""

    keys: InlineKeys
    parameters: type[BaseModel]
    command: tuple[str | Template, ...]


def read_inline(
    document: Document, value: Any, place: Place
) -> tuple[InlineTool | None, list[Fault]]:
    """The tool, or everything wrong with it."""
    keys, faults = check(document, InlineKeys, value, place)
    if keys is None:
        return None, faults
    parameters: type[BaseModel] | None = None
    try:
        check_name(keys.name)
    except ConfigError as error:
        faults.append(document.fault((*place, "name"), str(error)))
    try:
        parameters = record(keys.parameters, "Parameters")
    except NoType as error:
        faults.append(document.fault((*place, "parameters", *error.path), str(error)))
    known: set[str] = set() if parameters is None else set(parameters.model_fields)
    command: list[str | Template] = []
    for number, part in enumerate(keys.command):
        try:
            made = Template(part) if is_template(part) else part
        except Unrenderable as error:
            faults.append(document.fault((*place, "command", number), str(error)))
            continue
        command.append(made)
        strange = sorted(made.names - known) if isinstance(made, Template) else []
        if strange and parameters is not None:
            text = f"{strange[0]!r} is not among the parameters"
            faults.append(document.fault((*place, "command", number), text))
    if command and isinstance(command[0], Template):
        text = "the program must stand there as it is"
        faults.append(document.fault((*place, "command", 0), text))
    if faults or parameters is None:
        return None, faults
    return InlineTool(keys, parameters, tuple(command)), []


def make_inline(tool: InlineTool, root: Path, *, network: bool = False) -> Tool:
    """The tool, whose command runs in `root` as `run_command` would."""
    keys = tool.keys
    shell = command_tool(root, network=network, timeout=keys.timeout)
    return external(
        keys.name,
        keys.description,
        tool.parameters.model_json_schema(),
        partial(_call, tool, shell),
        context=True,
        tier=max(keys.tier, int(shell.tier)),
        effect="once",
        timeout=keys.timeout,
        sequential=True,
        toolset="inline",
        preview=partial(_preview, tool, shell),
    )


async def _call(
    tool: InlineTool, shell: Tool, ctx: RunContext[Any], parameters: dict[str, Any]
) -> Outcome:
    try:
        command = arguments(tool, parameters)
    except ValueError as error:
        return Outcome(str(error), "failure")
    function: Any = shell.function
    return cast("Outcome", await function(ctx, command=command))


def _preview(tool: InlineTool, shell: Tool, parameters: dict[str, Any]) -> str:
    assert shell.preview is not None
    return shell.preview({"command": arguments(tool, parameters)})


def arguments(tool: InlineTool, parameters: Mapping[str, Any]) -> list[str]:
    """The command with its places filled.

    Raises:
        ValueError: a place cannot be filled, or what fills it would be an option.
    """
    given = tool.parameters.model_validate(parameters).model_dump()
    filled: list[str] = []
    for part in tool.command:
        if isinstance(part, str):
            filled.append(part)
            continue
        value = part.render(given)
        text = value if isinstance(value, str) else str(value)
        if text.startswith("-") and not part.source.startswith("-"):
            raise ValueError(f"{text!r} begins with '-': it would be an option of the program")
        filled.append(text)
    return filled
