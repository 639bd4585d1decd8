"""The workload: an episode of N model turns, the first N - 1 of which call the tool `add`.

The model is deterministic and reads the turn's number off the history it is shown, so no
contestant can skip feeding observations back. The names are those a contestant of the wider
harness may use (docs/internals/benchmarks.md), which puts its own module of this name in front of
this one.
"""

import os

os.environ.setdefault("NO_PROXY", "127.0.0.1,localhost")

SYSTEM = "You are a calculator agent. Use the tool add(a, b) until the job is done."
TOOL_CALLS = 0
"""Calls of `add` in this process."""


def prompt(n_steps: int) -> str:
    return f"Please run the job steps={n_steps}; and report."


def stream_prompt(n_tokens: int) -> str:
    return f"Please talk tokens={n_tokens}; and stop."


def add(a: int, b: int) -> int:
    """Add two integers.

    Args:
        a: the first integer
        b: the second integer
    """
    global TOOL_CALLS
    TOOL_CALLS += 1
    return a + b


def call_json(turn: int) -> str:
    """The arguments the model gives at `turn`, counted from 0."""
    return f'{{"a": {turn}, "b": 1}}'


def final_text(n_steps: int) -> str:
    return f"DONE after {n_steps - 1} calls"


def steps_of(text: str) -> int:
    """The N of `prompt(N)`."""
    start = text.index("steps=") + len("steps=")
    return int(text[start : text.index(";", start)])
