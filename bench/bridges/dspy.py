"""Measures a call of a DSPy program inside a run: `python -m bench.bridges.dspy`.

The same program, a chain of thought with a model in memory, is called by DSPy alone and through
`program_strategy` in an agent's run (thread, effect, log and all), with both JSON adapters. The
calls alternate; the figures are medians of the times per call. DSPy runs in its own environment
(`python -m tests.environments dspy`).
"""

import asyncio
import importlib.util
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CALLS, ROUNDS = 50, 30
SAID = json.dumps({"reasoning": "I add them.", "answer": "5"})


def measure() -> None:
    import dspy

    from taofold import Agent, Limits
    from taofold.bridges.dspy import Through, program_strategy, signature
    from taofold.testing.models import FunctionModel

    class Direct:
        supports_response_schema = True
        supports_function_calling = False
        supported_params = frozenset({"temperature", "response_format"})

        def complete(self, request: Any) -> Any:
            from dspy.lm15 import Message, Response, TextPart, Usage

            return Response(
                id=None, model=request.model, message=Message.assistant([TextPart(SAID)]),
                finish_reason="stop", usage=Usage(input_tokens=0, output_tokens=0),
            )  # fmt: skip

        def close(self) -> None: ...

    class Many(dspy.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = dspy.ChainOfThought("question -> answer")

        def forward(self, question: str) -> Any:
            for _ in range(CALLS):
                last = self.inner(question=question)
            return dspy.Prediction(answer=last.answer)

    alone = dspy.LM("bench/model", engine=Direct(), cache=False, num_retries=0)
    model = FunctionModel(lambda _: SAID)
    endless = Limits(steps=None)

    async def rounds() -> None:
        for adapter in ("json", "taofold"):
            agent: Agent[Any, Any] = Agent(
                model, strategy=program_strategy(Many, adapter=adapter), output=Any, limits=endless
            )
            mine: list[float] = []
            theirs: list[float] = []
            # DSPy alone always speaks JSON in its own way: that is what one would write.
            with dspy.context(lm=alone, adapter=dspy.JSONAdapter(), disable_history=True):
                program = Many()
                for _ in range(ROUNDS):
                    begin = time.perf_counter()
                    program(question="2 + 3")
                    theirs.append((time.perf_counter() - begin) / CALLS)
                    begin = time.perf_counter()
                    result = await agent.run("2 + 3")
                    mine.append((time.perf_counter() - begin) / CALLS)
                    assert result.output == "5", result.error
            one, other = (statistics.quantiles(t, n=4)[0] * 1e3 for t in (theirs, mine))
            print(f"per call, adapter {adapter:8} DSPy {one:.2f} ms, bridged {other:.2f} ms, "
                  f"{other - one:+.2f} ms ({(other / one - 1) * 100:+.0f} %)")  # fmt: skip
        once: Agent[Any, Any] = Agent(
            model, strategy=Through(signature=signature("question -> answer")), output=Any
        )
        whole = []
        for _ in range(ROUNDS * 2):
            begin = time.perf_counter()
            await once.run("2 + 3")
            whole.append(time.perf_counter() - begin)
        print(f"a whole run with one call, module and all: {statistics.median(whole) * 1e3:.1f} ms")

    asyncio.run(rounds())


def main() -> int:
    if importlib.util.find_spec("dspy") is not None:
        measure()
        return 0
    sys.path.insert(0, str(ROOT))
    from tests import environments

    environment = environments.find("dspy")
    if environment is None:
        print("no environment: python -m tests.environments dspy", file=sys.stderr)
        return 1
    env = {"PYTHONPATH": str(ROOT / "src"), "LITELLM_LOCAL_MODEL_COST_MAP": "true"}
    env["DSPY_CACHEDIR"] = os.environ.get("DSPY_CACHEDIR", "/tmp/taofold-dspy-cache")
    done = environment.run("-m", "bench.bridges.dspy", env=env, timeout=300, cwd=ROOT)
    print(done.stdout, end="")
    print(done.stderr, end="", file=sys.stderr)
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
