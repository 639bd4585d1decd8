"""The table of features by runtime in `rust/README.md`, compared with both runtimes.

`TAOFOLD_RECORD=1 python -m pytest tests/rust/test_parity.py` renews it.
"""

import json
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer

from taofold.agent.strategies import STRATEGIES
from taofold.cli.app import app
from taofold.files.actions import build_actions_registry
from taofold.files.agent import AgentKeys
from taofold.files.flow.flow import FlowKeys, NodeKeys
from taofold.runtime.providers import providers
from tests.prerequisites import TAOFOLD_RS
from tests.rust.kit import Program

pytestmark = [pytest.mark.rust, TAOFOLD_RS.mark]

README: Final = Path(__file__).parents[2] / "rust" / "README.md"
TABLE: Final = re.compile(
    r"(?<=<!-- table of tests/rust/test_parity.py -->\n).*?(?=<!-- -->)", re.DOTALL
)
# Read before `project` removes it from the environment.
RECORD: Final = bool(os.environ.get("TAOFOLD_RECORD"))
OWN: Final = {"run": {"--agent"}}
"""Options that only the Rust program has."""
PROBES: Final = {
    "strategy.yaml": "strategy: nothing",
    "action.yaml": "nodes: [{name: a, uses: nothing}]",
    "agent.yaml": "nothing: 1",
    "node.yaml": "nodes: [{name: a, uses: llm.call, nothing: 1}]",
    "flow.yaml": "nodes: [{name: a, uses: llm.call}]\nnothing: 1",
    "discover.yaml": "discover: [.]",
}
"""Invalid files for which the program lists the known names."""


def probed(rust: Program, project: Path) -> dict[str, dict[str, Any]]:
    for name, text in PROBES.items():
        (project / name).write_text(text)
    faults = rust("check", "--json", *PROBES).json
    return {fault["file"]: fault for fault in faults}


def listed(message: str, mark: str) -> set[str]:
    return set(re.split(r", | and ", message.partition(mark)[2].strip()))


def fields(keys: Any) -> set[str]:
    return {field.alias or name for name, field in keys.model_fields.items()}


def verbs(command: Any, *names: str) -> Iterator[str]:
    """Returns the leaf commands below `command`, by their full names."""
    inner = getattr(command, "commands", None)
    if inner is None:
        yield " ".join(names)
        return
    for name, each in inner.items():
        if not each.hidden:
            yield from verbs(each, *names, name)


def verbs_of(rust: Program, *names: str) -> Iterator[str]:
    help_text = rust(*names, "--help").out
    found = re.search(r"^Commands:\n((?:  .*\n|\n)*)", help_text, re.MULTILINE)
    if found is None:
        yield " ".join(names)
        return
    for name in re.findall(r"^  (\w+)", found[1], re.MULTILINE):
        if name != "help":
            yield from verbs_of(rust, *names, name)


def row(what: str, python: Iterable[str], rust: Iterable[str]) -> str:
    here, there = set(python), set(rust)
    assert there <= here, f"{what}: the Python runtime lacks {there - here}"
    cells = [" ".join(f"`{name}`" for name in sorted(each)) for each in (there, here - there)]
    return f"| {what} | {cells[0]} | {cells[1] or 'none'} |\n"


def test_the_table_says_what_each_runtime_has(rust: Program, project: Path) -> None:
    """Mutant: a strategy that is left out of `strategy_of` in `rust/taofold/src/agent/mod.rs`."""
    faults = probed(rust, project)
    message = {name: fault["message"] for name, fault in faults.items()}
    refused = {faults["discover.yaml"]["path"]}
    keys = listed(message["agent.yaml"], "known are ") - refused
    nodes = listed(message["node.yaml"], "known are ")
    flow = listed(message["flow.yaml"], "known are ")
    (project / "agent.yaml").write_text("name: a")
    unknown = rust("run", "agent.yaml", "x", "--model", "nothing:x").err
    actions = build_actions_registry(installed=False)
    rows = [
        row("strategies", STRATEGIES, listed(message["strategy.yaml"], "known are ")),
        row("actions of flows", actions, listed(message["action.yaml"], "known are ")),
        row("keys of agents", fields(AgentKeys), keys),
        row("keys of flows", fields(FlowKeys) - fields(AgentKeys), flow - fields(AgentKeys)),
        row("keys of nodes", fields(NodeKeys), nodes),
        row("providers", providers(), listed(unknown, "known are ")),
        row("commands", verbs(typer.main.get_command(app)), verbs_of(rust)),
    ]
    table = "".join(["| | in both | in Python alone |\n|---|---|---|\n", *rows])
    page = README.read_text(encoding="utf-8")
    if RECORD:
        page = TABLE.sub(lambda _: table, page)
        README.write_text(page, encoding="utf-8")
    [written] = TABLE.findall(page)
    assert written == table


def test_every_option_of_the_program_in_rust_is_one_of_pythons(rust: Program) -> None:
    command: Any = typer.main.get_command(app)
    strange: dict[str, Any] = {}
    for verb in verbs_of(rust):
        mine = command
        for name in verb.split():
            mine = mine.commands[name]
        known = {option for each in mine.params for option in (*each.opts, *each.secondary_opts)}
        help_text = rust(*verb.split(), "--help").out
        found = re.findall(r"^ {2,6}(?:(-\w), )?(--[\w-]+)", help_text, re.MULTILINE)
        options = {option for pair in found for option in pair if option} - {"--help", "-h"}
        options -= OWN.get(verb, set())
        if options - known:
            strange[verb] = sorted(options - known)
    assert json.dumps(strange) == "{}"
