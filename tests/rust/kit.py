"""One project, two programs, and a provider that follows a script."""

import json
import subprocess
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from tests.conformance_kit import UNCOMPARED
from tests.ports import PATIENCE

AGENT = """
name: counter
tools:
  - name: word_count
    description: Count the words of a file.
    parameters: {path: str, lines?: bool}
    command: [wc, -w, "{{ path }}"]
ask_user: true
policy: {tiers: {word_count: 3}}
limits: {steps: 6}
"""
FLOW = """
name: pipeline
input: question
nodes:
  - name: think
    uses: reason.cot
    with: {problem: "{{ state.question }}", output_format: int}
  - name: check
    uses: reason.react
    with: {goal: "Is {{ state.think.answer }} right?", max_steps: 3}
result: "{{ state.check.final_answer }}"
"""


def action(tool: str, **parameters: Any) -> str:
    call = {"tool": tool, "parameters": parameters, "rationale": "it is needed"}
    return json.dumps({"thought": f"I use {tool}.", "thought_type": "reasoning", "action": call})


COUNT = action("word_count", path="a.txt")
ANSWER = action("finish", answer="3 words")


class Result(NamedTuple):
    """The result of a program."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Program = Callable[..., Result]
Script = Callable[[Sequence[str]], None]


def program(*command: str) -> Program:
    def run(*arguments: str) -> Result:
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=PATIENCE, check=False
        )
        return Result(done.returncode, done.stdout, done.stderr)

    return run


def begun(
    first: Program, goal: str = "count a.txt", agent: str = "agent.yaml", *options: str
) -> str:
    waiting = first("run", agent, goal, "--approve", "wait", "--json", *options)
    assert waiting.code == 3, waiting
    run: str = waiting.json["id"]
    return run


def identical(run: str, *programs: Program) -> None:
    for replaying in programs:
        replayed = replaying("runs", "replay", run, "--json")
        assert replayed.code == 0, replayed
        assert replayed.json["identical"] is True


def events(rust: Program, run: str) -> list[dict[str, Any]]:
    """Returns the events of a run without the fields on which runtimes may differ."""
    _, *records = rust("runs", "export", run).out.splitlines()
    found = [without(json.loads(record)["event"]) for record in records]
    # Rust parks and resumes a run at each question, even with automatic approval.
    return [event for event in found if event["e"] not in ("parked", "resumed")]


def without(value: Any) -> Any:
    left_out = {*UNCOMPARED, "deciders", "policy"} - {"digest", "preview"}
    if isinstance(value, dict):
        return {name: without(each) for name, each in value.items() if name not in left_out}
    return [*map(without, value)] if isinstance(value, list) else value


def done(program: Program, *options: str) -> str:
    result = program("run", "agent.yaml", "go", "--approve", "all", "--json", *options)
    assert result.code == 0, result
    run: str = result.json["id"]
    return run
