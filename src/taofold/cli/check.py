"""`taofold check`: agent, policy and configuration files, offline."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from taofold.cli import options
from taofold.cli.outcome import USAGE, fail, give, give_json, say

if TYPE_CHECKING:
    from taofold.policy import Policy
    from taofold.spec import Fault


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("check")(check)


def check(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Agent, flow, policy or configuration files."),
    ] = None,
    run_code: Annotated[
        bool, typer.Option("--import", help="Import what the files name, which runs its code.")
    ] = False,
    schema: Annotated[
        bool,
        typer.Option("--schema", help="Print the JSON Schema of agent and flow files instead."),
    ] = False,
    json: options.Json = False,
) -> None:
    """Check files without running anything: all faults at once, each with its line."""
    from taofold.cli.place import operator_policy
    from taofold.spec.schema import published

    if schema and not files:
        give_json(published())
        return
    if schema or not files:
        fail("name files to check, or say --schema alone: taofold check agent.yaml")
    operator = operator_policy()
    faults: list[Fault] = []
    for path in files:
        faults += _check(path, operator, run_code=run_code)
    if json:
        told = [
            {"file": f.source, "line": f.line, "path": f.path, "message": f.text} for f in faults
        ]
        give_json(told)
    else:
        for fault in faults:
            give(str(fault))
    if faults:
        if not json:
            say(f"{len(faults)} fault{'s' * (len(faults) > 1)}")
        raise typer.Exit(USAGE)
    if not json:
        say(f"{len(files)} file{'s' * (len(files) > 1)} checked: no faults")


def _check(path: Path, operator: "Policy", *, run_code: bool) -> "list[Fault]":
    from taofold.spec import Config, read_agent
    from taofold.spec.document import check as against
    from taofold.spec.document import load
    from taofold.spec.policy_file import PolicyFile

    document, faults = load(path)
    if document is None:
        return faults
    if path.name in ("config.yml", "config.yaml"):
        return against(document, Config)[1]
    policy = set(document.value) <= set(PolicyFile.model_fields)
    if (document.value and policy) or (
        path.stem.endswith("policy") and "model" not in document.value
    ):
        return against(document, PolicyFile)[1]
    file, faults = read_agent(path, operator)
    if file is None or not run_code:
        return faults
    return _build(path, operator)


def _build(path: Path, operator: "Policy") -> "list[Fault]":
    from taofold.core.errors import ConfigError
    from taofold.spec import Config, Fault, build, read_agent

    file, faults = read_agent(path, operator)
    if file is None:
        return faults
    try:
        build(file, Config(), Path.cwd())
    except ExceptionGroup as group:
        return [Fault(str(one), "") for one in group.exceptions]
    except ConfigError as error:
        return [Fault(str(path), str(error))]
    return []
