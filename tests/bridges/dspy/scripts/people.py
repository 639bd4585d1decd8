"""In DSPy's environment: `react` and `own` run programs; `ask` runs ReAct until an approval is
needed; `go` decides and resumes; `crash` compiles and kills itself in the middle; `resume`
continues and counts its calls; `example` runs the one in `examples/`.
"""

import asyncio
import contextlib
import contextvars
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from model import CASES, say

from taofold import Agent, Limits, tool
from taofold.bridges.dspy import (
    Compile,
    Compiled,
    Through,
    imported,
    program_strategy,
    signature,
)
from taofold.bridges.dspy import compile as compile_
from taofold.bridges.dspy.compilation import KNOWN, REFUSED
from taofold.core.errors import ConfigError
from taofold.files import Config, build, read_agent
from taofold.log.open import open_log
from taofold.runtime.control import decide
from taofold.runtime.setup import Decision
from taofold.testing.models import FunctionModel, ScriptedModel

ROOT = Path(__file__).resolve().parents[4]
SENT: list[str] = []


def choose(request: Any) -> str:
    system, last = request.conversation[0].content, request.conversation[-1].content
    if "next_tool_name" not in system:
        return json.dumps({"reasoning": "it was sent", "answer": "done"})
    if "observation_0" in last:
        return json.dumps({"next_thought": "end", "next_tool_name": "finish", "next_tool_args": {}})
    given = {"text": "hello"}
    return json.dumps(
        {"next_thought": "I must send it", "next_tool_name": "send", "next_tool_args": given}
    )


@tool(effect="once", tier=3)
def send(text: str) -> str:
    """Send a text."""
    SENT.append(text)
    return "sent"


def asking(log: str, strategy: Any) -> Agent[Any, Any]:
    return Agent(FunctionModel(choose), strategy=strategy, output=Any, tools=[send], log=log)


async def react() -> dict[str, Any]:
    looked: list[list[str]] = []
    prompts: list[Any] = []

    @tool(effect="read")
    def look(where: str) -> str:
        """Look somewhere."""
        looked.append([where])
        return f"nothing in {where}"

    @tool(effect="once", tier=2)
    def change(where: str) -> str:
        """Change something."""
        raise AssertionError("it must not run on a guess")

    def search(request: Any) -> str:
        prompts.append([[m.role, m.content] for m in request.conversation])
        system, last = request.conversation[0].content, request.conversation[-1].content
        if "next_tool_name" not in system:
            return json.dumps({"reasoning": "I looked", "answer": "found"})
        where = "second" if "observation_0" in last else "first"
        if "observation_1" in last:
            return json.dumps(
                {"next_thought": "", "next_tool_name": "finish", "next_tool_args": {}}
            )
        given = {"where": where}
        return json.dumps({"next_thought": "", "next_tool_name": "look", "next_tool_args": given})

    def sloppy(request: Any) -> str:
        system, last = request.conversation[0].content, request.conversation[-1].content
        if "next_tool_name" not in system:
            return json.dumps({"reasoning": "it failed", "answer": "none"})
        if "observation_0" in last:
            return json.dumps(
                {"next_thought": "", "next_tool_name": "finish", "next_tool_args": {}}
            )
        return '{"next_thought": "go", "next_tool_name": "change", "next_tool_args": {"where": "x"}'

    own = signature("goal -> answer")
    cases = [{"goal": "the key", "answer": "found"}]
    teacher = Agent(
        FunctionModel(search), output=Any, tools=[look, change], limits=Limits(steps=None),
        strategy=Compile(signature=own, training=cases, module="react",
                         teleprompter="LabeledFewShot"),
    )  # fmt: skip
    program = imported((await teacher.run("compile")).output)
    told: dict[str, list[Any]] = {"prompts": [], "answers": [], "stopped": [], "limited": [],
                                  "guessed": []}  # fmt: skip
    looked.clear()
    for strategy in (Through, Compiled):
        more: Any = {"signature": own, "module": "react"} if strategy is Through else {}
        prompts.clear()
        agent = Agent(FunctionModel(search), output=Any, tools=[look, change],
                      strategy=strategy(program=program, **more), approve="all")  # fmt: skip
        result = await agent.run("the key")
        told["answers"].append(result.output)
        told["prompts"].append(list(prompts))
        kept = list(looked)
        short = await agent.replace(strategy=strategy(program=program, steps=1, **more)).run(
            "the key"
        )
        told["stopped"].append(short.stop_reason)
        few = await agent.replace(limits=Limits(steps=1)).run("the key")
        told["limited"].append([few.stop_reason, few.output])
        looked[:] = kept
        guess = await agent.replace(model=FunctionModel(sloppy)).run("the key")
        told["guessed"].append(guess.steps[0].observations[0].refused)
    return {**told, "looked": looked}


async def own() -> dict[str, Any]:
    from concurrent.futures import ThreadPoolExecutor

    import dspy

    class Shout(dspy.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = dspy.ChainOfThought("goal -> answer")

        def forward(self, goal: str) -> Any:
            return dspy.Prediction(answer=self.inner(goal=goal).answer.upper())

    class Many(Shout):
        def forward(self, goal: str) -> Any:
            here = contextvars.copy_context
            with ThreadPoolExecutor(4) as pool:
                asked = [pool.submit(here().run, self.inner, goal=goal) for _ in range(8)]
            return [one.result() for one in asked][-1]

    class Graded(Shout):
        def forward(self, goal: str) -> Any:
            cases = [dspy.Example(goal=f"send {n}").with_inputs("goal") for n in range(6)]
            judge = dspy.Evaluate(devset=cases, metric=lambda case, made: made.answer == "done",
                                  display_progress=False)  # fmt: skip
            return dspy.Prediction(answer=str(judge(self.inner).score))

    class Endless(Shout):
        def forward(self, goal: str) -> Any:
            while True:  # it swallows what it can, as ReAct does with what its tools raise
                with contextlib.suppress(Exception):
                    self.inner(goal=goal)

    async def slow(request: Any) -> str:
        await asyncio.sleep(0.01)
        return choose(request)

    agent: Agent[Any, Any] = Agent(FunctionModel(choose), strategy=program_strategy(Shout),
                                   output=Any)  # fmt: skip
    answer = (await agent.run("send it")).output
    script = [
        {"thought": "ask", "action": {"tool": "shout", "parameters": {"goal": "send it"}}},
        {"thought": "end", "action": {"tool": "finish", "parameters": {"answer": "x"}}},
    ]
    boss = Agent(ScriptedModel(map(json.dumps, script)), tools=[agent.as_tool("shout")],
                 approve="all")  # fmt: skip
    asked = await boss.run("shout")
    many = await agent.replace(strategy=program_strategy(Many), model=FunctionModel(slow)).run("x")
    graded = await agent.replace(strategy=program_strategy(Graded), limits=Limits(steps=None)).run(
        "x"
    )
    endless = await agent.replace(
        strategy=program_strategy(Endless), limits=Limits(steps=None, model_calls=5)
    ).run("x")
    for thread in threading.enumerate():
        if thread.name == "taofold-dspy":
            thread.join(10)
    alive = [t.name for t in threading.enumerate() if t.name == "taofold-dspy"]
    return {"answer": answer, "as_tool": asked.steps[0].observations[0].result,
            "threads": many.error, "graded": graded.output, "stopped": endless.stop_reason,
            "alive": alive}  # fmt: skip


async def example(folder: Path) -> dict[str, Any]:
    words = {"money": "billing", "Login": "technical", "demo": "sales", "twice": "billing"}

    def route(request: Any) -> str:
        last = request.conversation[-1].content
        known = [team for word, team in words.items() if word in last]
        if not known:
            known = [c["team"] for c in file.keys.variables["training"] if c["ticket"] in last]
        return json.dumps({"reasoning": "r", "team": known[0]})

    path = ROOT / "examples" / "dspy" / "tickets.yaml"
    file, faults = read_agent(path, root=path.parent)
    assert file is not None, [str(one) for one in faults]
    agent = build(file, Config(), folder)
    model = FunctionModel(route)
    result = await agent.replace(model=model, models=dict.fromkeys(agent.models, model)).run(
        "I was charged twice for May"
    )
    return {"output": result.output, "error": result.error}


async def refused() -> dict[str, Any]:
    import dspy

    cases = [{"question": "1 + 1", "answer": "2"}]
    found: dict[str, Any] = {}
    for name, teleprompter in {
        **{name: name for name in REFUSED}, "as_class": dspy.Ensemble
    }.items():  # fmt: skip
        try:
            await compile_("question -> answer", cases, model=ScriptedModel([]),
                           teleprompter=teleprompter)  # fmt: skip
        except ConfigError as error:
            found[name] = str(error)
    classes = {n: one for n, one in vars(dspy.teleprompt).items() if isinstance(one, type)}
    theirs = [n for n, one in classes.items() if hasattr(one, "compile") and n != "Teleprompter"]
    return {**found, "theirs": theirs, "known": KNOWN, "refused": list(REFUSED)}


async def main(verb: str, folder: Path) -> dict[str, Any]:
    log = f"sqlite:{folder / 'people.db'}"
    agent = asking(log, Through(signature=signature("goal -> answer"), module="react"))
    if verb == "ask":
        result = await agent.run("send hello", run_id="mail")
        left = [t.name for t in threading.enumerate() if t.name == "taofold-dspy" and t.is_alive()]
        return {"status": result.status, "sent": SENT, "threads": left}
    if verb == "go":
        opened = open_log(log)
        first = await agent.resume("mail")
        await decide(opened, first.pending[0].id, Decision("approve"))
        result = await agent.resume("mail")
        thought = result.steps[0].thought.content
        again = await agent.replay(result)
        return {"status": result.status, "sent": SENT, "output": result.output,
                "thought": thought, "replayed": again.output}  # fmt: skip
    if verb == "react":
        return await react()
    if verb == "own":
        return await own()
    if verb == "refused":
        return await refused()
    if verb == "example":
        return await example(folder)
    calls = 0

    def counted(request: Any) -> str:
        nonlocal calls
        calls += 1
        if verb == "crash" and calls == 25:
            os.kill(os.getpid(), signal.SIGKILL)
        return say(request)

    few = {"max_bootstrapped_demos": 0, "max_labeled_demos": 0, "minibatch": False}
    given: dict[str, Any] = {
        "training": CASES[::2], "validation": CASES[1::2], "teleprompter": "MIPROv2",
        "teleprompter_options": {"num_candidates": 3, "num_trials": 4, **few},
        "model": FunctionModel(counted), "log": log,
    }  # fmt: skip
    if verb == "crash":
        await compile_("question -> answer", **given, run_id="cut")
    resumed = await compile_("question -> answer", **given, resume="cut")
    after, calls = calls, 0
    again = await compile_("question -> answer", **given, resume="cut")
    asked, calls = calls, 0
    whole = await compile_("question -> answer", **given)
    records = resumed.run.run.records
    changed = [r.event for r in records if type(r.event).__name__ == "PromptChanged"]
    same = again.program == resumed.program == whole.program
    return {"success": resumed.run.success, "after": after, "whole": calls, "asked": asked,
            "changed": len(changed), "same": same}  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], Path(sys.argv[2])))))
