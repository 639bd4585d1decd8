"""`taofold init`: a commented agent file, a policy file and the editor hint."""

from pathlib import Path
from typing import Annotated, Final

import typer

from taofold.cli.outcome import fail, say
from taofold.cli.program import invocation

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


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("init")(init)


def init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Where.")] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Write over what is there.")] = False,
) -> None:
    """Write agent.yaml, policy.yaml and the schemas that let an editor complete them."""
    import json

    from taofold.cli.place import FOLDER
    from taofold.log.adapters import make_home
    from taofold.spec.policy_file import PolicyFile
    from taofold.spec.schema import published

    if not folder.is_dir():
        fail(f"{str(folder)!r} is no directory")
    texts = {"agent.yaml": AGENT, "policy.yaml": POLICY}
    there = [name for name in texts if (folder / name).exists()]
    if there and not force:
        fail(
            f"{' and '.join(there)} exist already in {str(folder.resolve())!r}; --force writes over"
        )
    schemas = {"agent": published(), "policy": PolicyFile.model_json_schema()}
    try:
        make_home(folder / FOLDER)
        for name, schema in schemas.items():
            text = json.dumps(schema, indent=1, ensure_ascii=False)
            (folder / FOLDER / f"{name}.schema.json").write_text(text + "\n", encoding="utf-8")
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"{error.filename!r} cannot be written: {error.strerror}; name another folder")
    say(f"wrote {', '.join(str(folder / name) for name in texts)}, and schemas for your editor")
    say(f"try: {invocation()} check agent.yaml policy.yaml")
    say(f'     {invocation()} run agent.yaml "make the tests pass"')
