"""In DSPy's environment: signature classes, names that Pydantic has too, images, and what other
threads print while something is compiled. The last line printed is JSON."""

import asyncio
import json
import logging
import sys
import threading
from typing import Any, Literal

import dspy
from pydantic import BaseModel

from taofold import Agent
from taofold.bridges import dspy as bridge
from taofold.core.errors import ConfigError
from taofold.testing.models import FunctionModel

CALLS: list[str] = []


class Ticket(BaseModel):
    team: Literal["billing", "technical"]
    urgency: int
    tags: list[str]
    note: str | None


class Route(dspy.Signature):  # type: ignore[misc]
    """Route the ticket."""

    ticket: str = dspy.InputField(desc="as the customer wrote it")
    routed: Ticket = dspy.OutputField(desc="how soon, 1 to 3")


class Look(dspy.Signature):  # type: ignore[misc]
    """Describe it."""

    picture: dspy.Image = dspy.InputField()
    text: str = dspy.OutputField()


ROUTED = {"team": "billing", "urgency": 2, "tags": ["card"], "note": None}


async def both(program: Any, inputs: Any, say: Any) -> list[Any]:
    """The answer and the prompt of a compiled program, run by DSPy and without it."""
    found = []
    for strategy in (
        bridge.Through(signature=program.signature, program=program, inputs=inputs),
        bridge.Compiled(program=program, inputs=inputs),
    ):
        asked: list[Any] = []

        def watched(request: Any, asked: list[Any] = asked) -> str:
            asked.append([[m.role, m.content] for m in request.conversation])
            return say(request)

        result = await Agent(FunctionModel(watched), strategy=strategy, output=Any).run("x")
        found.append([result.output, asked[-1], result.error])
    return found


async def classes() -> dict[str, Any]:
    def say(request: Any) -> str:
        return json.dumps({"reasoning": "r", "routed": ROUTED})

    cases = [{"ticket": f"card {n}", "routed": Ticket(**ROUTED)} for n in range(3)]
    made = await bridge.compile(Route, cases, model=FunctionModel(say))
    ran = await both(made.program, {"ticket": "charged twice"}, say)
    return {"answers": [one[0] for one in ran], "prompts": [one[1] for one in ran],
            "instructions": made.program.signature.instructions}  # fmt: skip


async def names() -> list[Any]:
    def say(request: Any) -> str:
        return json.dumps({"reasoning": "r", "copy": "c of s", "json": 3})

    cases = [{"schema": "s", "items": "i", "copy": "c of s", "json": 3}] * 2
    made = await bridge.compile(
        "schema, items -> copy, json: int", cases, model=FunctionModel(say), score=True
    )
    assert made.scores["after"] == 1.0, made.scores
    ran = await both(made.program, {"schema": "s", "items": "i"}, say)
    return [one[0] for one in ran]


async def images() -> dict[str, str]:
    def say(request: Any) -> str:
        CALLS.append("asked")
        return "[[ ## text ## ]]\na cat"

    found = {}
    picture = dspy.Image("data:image/png;base64,iVBORw0KGgo=")
    try:
        cases = [{"picture": picture, "text": "a cat"}]
        await bridge.compile(Look, cases, model=FunctionModel(say))
    except ConfigError as error:
        found["image"] = str(error)

    class Seer(dspy.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.look = dspy.Predict(Look)

        def forward(self, question: str) -> Any:
            return self.look(picture=picture)

    seer = bridge.program_strategy(Seer, adapter="chat")
    result = await Agent(FunctionModel(say), strategy=seer, output=Any).run('{"picture": "x"}')
    return {**found, "chat": result.error}


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


async def printing() -> list[str]:
    """While a metric is at work, another thread prints."""
    kept = Kept()
    log = logging.getLogger("taofold.dspy")
    log.addHandler(kept)
    log.setLevel(logging.DEBUG)
    told: list[threading.Thread] = []

    def metric(case: Any, made: Any) -> bool:
        if not told:
            told.append(threading.Thread(target=print, args=("another thread",)))
            told[0].start()
            told[0].join()
        print("from the metric")
        return True

    before = sys.stdout
    model = FunctionModel(lambda _: json.dumps({"reasoning": "r", "answer": "a"}))
    await bridge.compile("question -> answer", [{"question": "q", "answer": "a"}], model=model,
                         metric=metric)  # fmt: skip
    assert sys.stdout is before
    return [line for line in kept.lines if "metric" in line]


async def main() -> dict[str, Any]:
    return {"class": await classes(), "names": await names(), **await images(),
            "asked": len(CALLS), "hushed": await printing()}  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main())))
