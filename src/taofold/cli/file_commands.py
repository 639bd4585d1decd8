"""Commands `taofold check`, `graph` and `init`. They start no run.

`init` writes the templates of this module. `taofold.files` defines the formats and finds faults.
"""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Final

import typer

from taofold.cli import options
from taofold.cli.output import USAGE, fail, give, give_json, invocation, say
from taofold.core.text import times, visible

if TYPE_CHECKING:
    from taofold.files.agent import AgentFile
    from taofold.files.checked_yaml import Fault
    from taofold.policy import Policy


def check(
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILE", help="Agent, flow, policy or configuration files."),
    ] = None,
    run_code: Annotated[
        bool,
        typer.Option("--import", help="Also import the modules that the files name. Runs code."),
    ] = False,
    schema: Annotated[
        bool,
        typer.Option("--schema", help="Print the JSON Schema of agent and flow files, no check."),
    ] = False,
    json: options.Json = False,
) -> None:
    """Check files and print every fault with its line. Runs nothing unless --import is given."""
    from taofold.cli.project import operator_policy
    from taofold.files.export import json_schema

    if schema and not files:
        give_json(json_schema())
        return
    if schema or not files:
        fail("give either files (taofold check agent.yaml) or --schema alone")
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
            # File names are untrusted, and the output may reach a terminal through a pipe.
            give(visible(str(fault)))
    if faults:
        if not json:
            say(times(len(faults), "fault"))
        raise typer.Exit(USAGE)
    if not json:
        say(f"{times(len(files), 'file')} checked: no faults")


def _check(path: Path, operator: "Policy", *, run_code: bool) -> "list[Fault]":
    from taofold.files.agent import missing_roots
    from taofold.files.checked_yaml import check as against
    from taofold.files.checked_yaml import load
    from taofold.files.config import Config, read_learning
    from taofold.files.flow.file import FlowFile, python_codes, read_agent
    from taofold.files.flow.paths import unset_reads
    from taofold.files.policy import PolicyFile
    from taofold.files.unknown_names import listed_names
    from taofold.reserved_places import is_seed_settings

    document, faults = load(path)
    if document is None:
        return faults
    if is_seed_settings(path):
        return read_learning([path])[1]  # other keys of this file belong to the seed's program
    if path.name in ("config.yml", "config.yaml"):
        return against(document, Config)[1]
    # Files do not declare their kind. A file with only policy keys is a policy. The name decides
    # if the file is empty or has unknown keys.
    policy = set(document.value) <= set(PolicyFile.model_fields)
    if (document.value and policy) or (
        path.stem.endswith("policy") and "model" not in document.value
    ):
        return against(document, PolicyFile)[1]
    file, faults = read_agent(path, operator)
    # A run may have another work root.
    for fault in missing_roots(file, Path.cwd()) if file is not None and not run_code else ():
        say(f"note: {fault}")
    if isinstance(file, FlowFile):
        for note in file.notes:
            say(f"note: {note}")
        for name in sorted(file.flow.needs):
            say(
                f"note: {path}: no node sets state.{name}. Set it at the start (--set {name}=…) "
                "or declare it in state_schema"
            )
        for read in unset_reads(file.flow):
            way = " → ".join([*read.trail, "end" if read.path == ("result",) else "here"])
            fault = file.document.fault(
                read.path,
                f"state.{read.name} is not set on the path {way}",
                f"set it there, or read get(state, {read.name!r}, …)",
            )
            say(f"note: {fault}")
        codes = python_codes(file)
        for fault in filter(None, codes):
            say(f"note: {fault}")
        if codes and not any(codes):
            say(f"note: {path}: the sandbox suffices for {times(len(codes), 'node')} with Python")
    if file is None:
        return faults
    if run_code:
        return _build(path, operator)
    _note_policy(file, listed_names(file))
    return faults


def _note_policy(file: "AgentFile", known: "set[str] | None") -> None:
    """Prints notes about unknown tools in the file's policy. None: the tools are not known."""
    from taofold.files.unknown_names import policy_notes

    for note in policy_notes(file, known) if known is not None else ():
        say(f"note: {visible(str(note))}")


def _build(path: Path, operator: "Policy") -> "list[Fault]":
    from taofold.agent.unknown_names import tool_names_of
    from taofold.core.errors import ConfigError
    from taofold.files.checked_yaml import Fault, FaultyFile
    from taofold.files.config import Config
    from taofold.files.flow.file import build, read_agent

    file, faults = read_agent(path, operator)
    if file is None:
        return faults
    try:
        # The empty configuration keeps the result independent of this project.
        agent = build(file, Config(), Path.cwd(), allow_python=True)
    except ExceptionGroup as group:
        return [
            error.fault if isinstance(error, FaultyFile) else Fault(str(path), str(error))
            for error in group.exceptions
        ]
    except ConfigError as error:
        return [Fault(str(path), str(error))]
    if "nodes" not in file.document.value:
        _note_policy(file, tool_names_of(agent))
    return []


def graph(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A flow file (.yaml).")],
) -> None:
    """Print a flow as Mermaid text, which GitHub and most editors render as a diagram."""
    from taofold.files.checked_yaml import refuse
    from taofold.files.export import mermaid
    from taofold.files.flow.file import FlowFile, read_agent

    read, faults = read_agent(file, source=str(file))
    if read is None:
        refuse(faults, f"{file} cannot be drawn")
    if not isinstance(read, FlowFile):
        fail(f"{str(file)!r} is an agent file; only flow files, which have `nodes`, can be drawn")
    give(mermaid(read.flow).rstrip("\n"))


AGENT: Final = """\
# yaml-language-server: $schema=.taofold/agent.schema.json
# An example agent. Check this file:  taofold check agent.yaml
# Run it
#   without a key:  taofold run agent.yaml "How many words has: to be or not to be"
#   with OpenAI:    export OPENAI_API_KEY=...
#                   taofold run agent.yaml "..." --model openai:gpt-5
#   with Ollama:    ollama pull llama3.2
#                   taofold run agent.yaml "..." --model ollama:llama3.2

name: helper

# PROVIDER:NAME, or a list: if one model fails, the next one answers.
# test:tools needs no key and no network. It is no language model: it calls each tool once with the
# simplest arguments, then answers with the names of the tools.
model: test:tools
# model: [openai:gpt-5, ollama:llama3.2]

instructions: |
  You are a helper for this project. Use your tools instead of guessing, and answer briefly.

# Your own functions as FILE.py:NAME or module:NAME, and the built-in tools.
tools:
  - agent_tools.py:count_words
  # - files: {write: false}  # list, read and search the files of this folder
  # - files                  # the same, and write and edit; asks before it writes
  # - command                # runs programs in a sandbox if bubblewrap works here; asks first

# Type of the answer: str, int, float, bool, list, dict, or module:Class.
output: str

limits:
  steps: 30
  seconds: 1800
  # usd: 0.50                # only for models with a known price
  # per_tool: {run_command: 20}

# Actions that need no approval. A project can only tighten the operator's policy.
policy: policy.yaml

# true: the agent may ask you a question, and the run waits for the answer.
ask_user: false
"""

TOOLS: Final = '''\
"""Tools of the agent in agent.yaml. A tool is a function with type hints and a docstring."""

from taofold import tool


# "read": the call changes nothing, so it needs no approval.
@tool(effect="read")
def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())
'''

GOAL: Final = "How many words has: to be or not to be"

POLICY: Final = """\
# yaml-language-server: $schema=.taofold/policy.schema.json
# What agents of this project may do. It can only tighten the operator's policy,
# ~/.config/taofold/policy.yaml, which has the same keys.

# conservative: every tool that writes needs approval. balanced: tier 2 needs it. Without this
# key the operator's value applies.
# autonomy: conservative

# Tiers: 1 runs, 2 needs approval, 3 needs approval at any autonomy, 4 is forbidden.
# A project can raise the tier of a tool, never lower it.
tiers: {}
#  run_command: 3
#  write_file: 4

# The only tools that may be used (default: all tools of the agent), and tools that may not.
# allow: [read_file, list_files, search]
deny: []

# Seconds until an approval request expires (default: the operator's; 0 = never).
# approve_seconds: 3600
"""


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Existing folder for the files.")
    ] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Overwrite existing files.")] = False,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FILE", help="Rewrite this flow of The Edge Agent in DIR instead."
        ),
    ] = None,
) -> None:
    """Write an example: agent.yaml, agent_tools.py and policy.yaml, with schemas for editors."""
    import json

    from taofold.cli.project import FOLDER
    from taofold.files.export import json_schema
    from taofold.files.policy import PolicyFile
    from taofold.log.open import make_home
    from taofold.reserved_places import write_file

    if not folder.is_dir():
        fail(f"{str(folder)!r} is not a folder: create it first, or name another one")
    if source is not None:
        _rewrite(source, folder, force=force)
        return
    texts = {"agent.yaml": AGENT, "agent_tools.py": TOOLS, "policy.yaml": POLICY}
    there = [name for name in texts if (folder / name).exists()]
    if there and not force:
        fail(f"{str(folder.resolve())!r} already has {', '.join(there)}; use --force to overwrite")
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
    program, file = invocation(), quote(str(folder / "agent.yaml"))
    goal = f'{program} run {file} "{GOAL}"'
    say(f"wrote {', '.join(str(folder / name) for name in texts)}, and schemas for your editor")
    say(f"\ncheck the files:\n  {program} check {file} {quote(str(folder / 'policy.yaml'))}")
    say(f"run the agent without a key (the model test:tools only calls each tool once):\n  {goal}")
    say(f"with OpenAI:\n  export OPENAI_API_KEY=...\n  {goal} --model openai:gpt-5")
    say(f"with Ollama:\n  ollama pull llama3.2\n  {goal} --model ollama:llama3.2")


def _rewrite(source: Path, folder: Path, *, force: bool) -> None:
    """Writes a flow of The Edge Agent in our form, beside notes of its differences."""
    from taofold.files.checked_yaml import refuse
    from taofold.files.export import rewritten
    from taofold.files.flow.file import FlowFile, read_agent

    file, faults = read_agent(source, source=str(source))
    if file is None:
        refuse(faults, f"{source} cannot be rewritten")
    if not isinstance(file, FlowFile):
        fail(f"{str(source)!r} is an agent file; only flows, which have `nodes`, are rewritten")
    target = folder / source.name
    if target.exists() and target.samefile(source):
        target = target.with_name(f"{source.stem}.taofold.yaml")
    if target.exists() and not force:
        fail(f"there is {str(target)!r} already; use --force to overwrite, or name another folder")
    try:
        target.write_text(rewritten(file), encoding="utf-8")
    except OSError as error:
        fail(f"{str(target)!r} cannot be written: {error.strerror}; name another folder")
    for note in file.notes:
        say(f"note: {note}")
    say(f"wrote {target}\n\ncheck it:\n  {invocation()} check {quote(str(target))}")
