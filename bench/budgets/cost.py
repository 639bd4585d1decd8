"""Measures the CPU time that budgets add to a step: the same runs with and without them.

    python bench/budgets/cost.py [--log memory|sqlite|postgresql://…]

Both sides run in turn in one process, so that both see the same noise. A step is a model call and
a call of a tool; the model is in the process. Prints the medians and their ratio.
"""

import argparse
import tempfile
from pathlib import Path
from statistics import median
from time import process_time

from taofold import Agent, Budget, Limits, MemoryLog, Policy, Principal, tool
from taofold.core.values import Profile, Reply, ToolCall, Usage
from taofold.log.open import open_log
from taofold.testing.models import FunctionModel

STEPS, ROUNDS = 20, 40
BUDGETS = [
    Budget(per="principal", period="day", tokens=10**12),
    Budget(per="tag:team", period="month", tokens=10**12),
    Budget(period="month", usd=10**9),
]


@tool(effect="read", thread=False)
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def answer(request):
    turn = (len(request.conversation) - 2) // 2
    usage = Usage(1000, 10, usd=0.01)
    if turn == STEPS - 1:
        return Reply("done", usage=usage)
    return Reply(calls=(ToolCall("add", f'{{"a": {turn}, "b": 1}}', f"c{turn}"),), usage=usage)


def agent(log, budgets):
    model = FunctionModel(answer, profile=Profile(window=10**9, native_tools=True), usd=(1.0, 1.0))
    limits = Limits(steps=STEPS + 1, tool_calls=None, model_calls=None, seconds=None)
    return Agent(model, tools=[add], log=log, limits=limits, policy=Policy(budgets=budgets))


def per_step(one):
    begun = process_time()
    result = one.run_sync("Add.", principal=Principal("ann"), tags={"team": "x"})
    assert result.success, result.error
    return (process_time() - begun) / STEPS * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--log", default="sqlite", help="memory, sqlite, or an address")
    kind = parser.parse_args().log
    with tempfile.TemporaryDirectory() as folder:
        address = str(Path(folder) / "runs.db") if kind == "sqlite" else kind
        log = MemoryLog() if kind == "memory" else open_log(address)
        sides = {"without": agent(log, ()), "with": agent(log, BUDGETS)}
        samples = {name: [] for name in sides}
        for turn in range(ROUNDS + 4):
            for name, one in sides.items():
                spent = per_step(one)
                if turn >= 4:  # the first rounds compile and warm up
                    samples[name].append(spent)
    without, with_ = (median(samples[name]) for name in ("without", "with"))
    ratios = sorted(b / a for a, b in zip(samples["without"], samples["with"], strict=True))
    low, high = ratios[len(ratios) // 4], ratios[-len(ratios) // 4]
    print(f"{kind}: {without:.0f} µs of CPU per step without budgets, {with_:.0f} with three")
    print(f"ratio {median(ratios):.2f} (quartiles {low:.2f} to {high:.2f}, {len(ratios)} pairs)")


if __name__ == "__main__":
    main()
