"""In DSPy's environment: compiles with three teleprompters, runs the results, and hangs.

The parent process kills it. All its results are in the log below the given folder.
"""

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from model import CASES, say

from taofold.bridges import dspy
from taofold.testing.models import FunctionModel

FEW = {"max_bootstrapped_demos": 0, "max_labeled_demos": 0, "minibatch": False}
WAYS = {
    "BootstrapFewShot": {"max_bootstrapped_demos": 3, "max_labeled_demos": 3},
    "BootstrapFewShotWithRandomSearch": {"num_candidate_programs": 2, "max_bootstrapped_demos": 3},
    "MIPROv2": {"num_candidates": 3, "num_trials": 4, **FEW},
    "GEPA": {"max_metric_calls": 40},
    "model:Custom": {"instructions": "Answer with digits only."},
}


async def main(folder: Path) -> None:
    log = f"sqlite:{folder / 'runs.db'}"
    for name, options in WAYS.items():
        asked: list[Any] = []

        def watched(request: Any, asked: list[Any] = asked) -> str:
            asked.append([[m.role, m.content] for m in request.conversation])
            return say(request)

        begin = time.perf_counter()
        made = await dspy.compile(
            "question -> answer", CASES[::2], validation=CASES[1::2], model=FunctionModel(watched),
            teleprompter=name, teleprompter_options=options, log=log, key=name,
            run_id=f"compile-{name.partition(':')[0]}", score=True,
        )  # fmt: skip
        seconds = time.perf_counter() - begin
        calls = len(asked)
        asked.clear()
        said = await dspy.cot("20 + 22", program=made.program, model=FunctionModel(watched))
        again = await dspy.cot("20 + 22", model=FunctionModel(watched), adapter="chat",
                               module="predict")  # fmt: skip
        print(
            json.dumps({
                "name": name, "run": made.run.run.run_id, "version": made.program.version,
                "scores": made.scores, "prompts": asked[:1], "answer": said.answer,
                "success": said.success, "chat": again.answer, "calls": calls, "seconds": seconds,
            }),
            flush=True,
        )  # fmt: skip
    print("ready", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
