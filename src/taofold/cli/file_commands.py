"""`taofold check|graph|init`: agent, flow, policy and configuration files. No run is started.

`init` writes the templates that stand here. What may stand in a file, and how its faults are found,
is in `taofold.files`.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from taofold.cli import options
from taofold.cli.output import USAGE, fail, give, give_json, invocation, say
from taofold.core.text import times, visible

if TYPE_CHECKING:
    from taofold.files.checked_yaml import Fault
    from taofold.policy import Policy


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
    from taofold.cli.project import operator_policy
    from taofold.files.export import json_schema

    if schema and not files:
        give_json(json_schema())
        return
    if schema or not files:
        fail("name files to check, or say --schema alone: taofold check agent.yaml")
    operator = operator_policy()
    faults: list[Fault] = []
    for path in files:
        faults += _check(path, operator, run_code=run_code)
    if json:
        rows = [
            {"file": f.source, "line": f.line, "path": f.path, "message": f.text} for f in faults
        ]
        give_json(rows)
    else:
        for fault in faults:
            # A file's name is untrusted, and a pipe may end at a terminal.
            give(visible(str(fault)))
    if faults:
        if not json:
            say(times(len(faults), "fault"))
        raise typer.Exit(USAGE)
    if not json:
        say(f"{times(len(files), 'file')} checked: no faults")


def _check(path: Path, operator: "Policy", *, run_code: bool) -> "list[Fault]":
    from taofold.files.checked_yaml import check as against
    from taofold.files.checked_yaml import load
    from taofold.files.config import Config, read_learning
    from taofold.files.flow.file import FlowFile, read_agent
    from taofold.files.flow.paths import unset_reads
    from taofold.files.policy import PolicyFile
    from taofold.reserved_places import is_seed_settings

    document, faults = load(path)
    if document is None:
        return faults
    if is_seed_settings(path):
        return read_learning([path])[1]  # of other keys there their own program knows
    if path.name in ("config.yml", "config.yaml"):
        return against(document, Config)[1]
    # Files say nowhere what they are. A policy has only a policy's keys;
    # an empty file, or one with wrong keys, is taken for one by its name.
    policy = set(document.value) <= set(PolicyFile.model_fields)
    if (document.value and policy) or (
        path.stem.endswith("policy") and "model" not in document.value
    ):
        return against(document, PolicyFile)[1]
    file, faults = read_agent(path, operator)
    if isinstance(file, FlowFile):
        for name in sorted(file.flow.needs):
            say(
                f"note: {path}: no node sets state.{name}: it must be there at the start "
                f"(--set {name}=…, or named in state_schema)"
            )
        for read in unset_reads(file.flow):
            way = " → ".join([*read.trail, "end" if read.path == ("result",) else "here"])
            fault = document.fault(
                read.path,
                f"state.{read.name} is not set on the path {way}",
                f"set it there, or read get(state, {read.name!r}, …)",
            )
            say(f"note: {fault}")
    if file is None or not run_code:
        return faults
    return _build(path, operator)


def _build(path: Path, operator: "Policy") -> "list[Fault]":
    from taofold.core.errors import ConfigError
    from taofold.files.checked_yaml import Fault, FaultyFile
    from taofold.files.config import Config
    from taofold.files.flow.file import build, read_agent

    file, faults = read_agent(path, operator)
    if file is None:
        return faults
    try:
        # With an empty configuration: the file is checked, not this project.
        build(file, Config(), Path.cwd())
    except ExceptionGroup as group:
        return [
            error.fault if isinstance(error, FaultyFile) else Fault(str(path), str(error))
            for error in group.exceptions
        ]
    except ConfigError as error:
        return [Fault(str(path), str(error))]
    return []


def graph(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A flow file (.yaml).")],
) -> None:
    """Draw a flow: prints Mermaid text, which GitHub and most editors show as a picture."""
    from taofold.files.checked_yaml import refuse
    from taofold.files.export import mermaid
    from taofold.files.flow.file import FlowFile, read_agent

    read, faults = read_agent(file, source=str(file))
    if read is None:
        refuse(faults, f"{file} cannot be drawn")
    if not isinstance(read, FlowFile):
        fail(f"{str(file)!r} is an agent without nodes: there is nothing to draw")
    give(mermaid(read.flow).rstrip("\n"))


AGENT: Final = """\
# yaml-language-server: $schema=.taofold/agent.schema.json
# An agent. Run it:    taofold run agent.yaml "make the tests pass"
# Check this file:     taofold check agent.yaml

name: helper

# provider:model, or a list of which the first that works answers.
# offline:repair needs no key and no network; it only repairs Python code with failing tests.
model: offline:repair
# model: [openai:gpt-5, ollama:llama3.2]

instructions: |
  You work on the files of this project. Look before you change anything, change as little
  as you can, and check your work by running it.

# Built-in tools (files, command), or your own functions as module:attr.
tools:
  - files                    # list, read, search, write, edit; never outside the work root
  # - files: {root: src, write: false}
  - command                  # runs programs, contained where bubblewrap works
  # - my_package.tools:word_count

# What the answer is: str, int, float, bool, list, dict, or module:Class.
output: str

limits:
  steps: 30
  seconds: 1800
  # usd: 0.50                # needs a model with a known price
  # per_tool: {run_command: 20}

# What may happen without asking. A project may only tighten the operator's policy.
policy: policy.yaml

# Let the agent ask you a question; the run waits for the answer.
ask_user: false
"""

POLICY: Final = """\
# yaml-language-server: $schema=.taofold/policy.schema.json
# What agents of this project may do. It can only tighten the operator's policy, which is
# ~/.config/taofold/policy.yaml (the same keys).

# conservative: everything that writes asks · balanced · autonomous: tier 2 does not ask
autonomy: balanced

# Tiers: 1 runs, 2 asks with a prepared card, 3 always asks, 4 is forbidden.
# They may be raised here, never lowered.
tiers: {}
#  run_command: 3
#  write_file: 4

# Tools that may be used at all (default: all the agent has), and tools that may not.
# allow: [read_file, list_files, search]
deny: []

# Seconds in which a person must decide; 0 = no bound.
approve_seconds: 0
"""


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Write over what is there.")] = False,
) -> None:
    """Write agent.yaml, policy.yaml and the schemas that let an editor complete them."""
    import json

    from taofold.cli.project import FOLDER
    from taofold.files.export import json_schema
    from taofold.files.policy import PolicyFile
    from taofold.log.open import make_home
    from taofold.reserved_places import write_file

    if not folder.is_dir():
        fail(f"{str(folder)!r} is no directory")
    texts = {"agent.yaml": AGENT, "policy.yaml": POLICY}
    there = [name for name in texts if (folder / name).exists()]
    if there and not force:
        fail(
            f"{' and '.join(there)} exist already in {str(folder.resolve())!r}; --force writes over"
        )
    schemas = {"agent": json_schema(), "policy": PolicyFile.model_json_schema()}
    try:
        make_home(folder / FOLDER)
        for name, schema in schemas.items():
            text = json.dumps(schema, indent=1, ensure_ascii=False)
            write_file(folder / FOLDER / f"{name}.schema.json", f"{text}\n".encode())
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"{error.filename!r} cannot be written: {error.strerror}; name another folder")
    say(f"wrote {', '.join(str(folder / name) for name in texts)}, and schemas for your editor")
    say(f"try: {invocation()} check agent.yaml policy.yaml")
    say(f'     {invocation()} run agent.yaml "make the tests pass"')
