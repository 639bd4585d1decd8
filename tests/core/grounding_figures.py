"""Prints how often the rules about thoughts agree with the labels of a reader.

Run: `python -m tests.core.grounding_figures`. It prints the figures of both halves of 300 short
traces: the rules were chosen on the first half (`dev`), the second half (`held`) was never looked
at. One annotator, who had not seen the rules, invented and labelled the traces for this project.
Each line of a file is a JSON object with `observations`, the `thought` that follows them, and its
labels `grounded`, `aim` and `reason`.
"""

import json
import time
from pathlib import Path
from typing import Any

from taofold.core.vague_text import lacks_aim
from taofold.core.values import Action, Observation, Step, Thought
from tests.core.judging import ground

DATA = Path(__file__).parent / "data"


def rows(half: str) -> list[dict[str, Any]]:
    """Returns the labelled traces of a half."""
    text = (DATA / f"grounding_{half}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def steps(row: dict[str, Any]) -> list[Step]:
    """Returns a trace as steps; the last one has its thought."""
    seen = [
        Step(number, Thought("."), (Action("t", {}),), (Observation(text),))
        for number, text in enumerate(row["observations"], 1)
    ]
    last = Step(len(seen) + 1, Thought(row["thought"]), (Action("t", {}),), (Observation(""),))
    return [*seen, last]


def figures(half: str) -> dict[str, int]:
    """Counts where the rules agree with the labels."""
    labelled = rows(half)
    judged = [(row["grounded"], ground(steps(row), goal="")[-1].grounded) for row in labelled]
    aims = [(row["aim"], lacks_aim(row["thought"])) for row in labelled]
    return {
        "traces": len(labelled),
        "grounding agrees": sum([label == rule for label, rule in judged]),
        "grounded": sum([label for label, _ in judged]),
        "recognised": sum([label and rule for label, rule in judged]),
        "ungrounded accepted": sum([rule and not label for label, rule in judged]),
        "without an aim": sum([not aim for aim, _ in aims]),
        "caught": sum([lacking and not aim for aim, lacking in aims]),
        "false alarms": sum([lacking and aim for aim, lacking in aims]),
    }


def microseconds() -> float:
    """Returns the time of the grounding rule for one step."""
    traces = [steps(row) for half in ("dev", "held") for row in rows(half)]
    began = time.perf_counter()
    for _ in range(5):
        for trace in traces:
            ground(trace, goal="")
    return (time.perf_counter() - began) * 1e6 / 5 / sum([len(trace) for trace in traces])


if __name__ == "__main__":
    dev, held = figures("dev"), figures("held")
    print(f"{'':22}{'dev':>6}{'held':>6}")
    for name, figure in dev.items():
        print(f"{name:22}{figure:6}{held[name]:6}")
    print(f"{microseconds():.0f} µs for the grounding of one step")
