"""Generated runs that either runtime can drive: replies, tools, limits and approvals.

`generate` makes a scenario from a seed. `Pythons` drives its runs in this process, `Rusts` in the
program of `rust/taofold/examples/crossing.rs`; both work on one SQLite log. The tools are
implemented in both languages.
"""

import asyncio
import json
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from pathlib import Path
from random import Random
from typing import Any, Final, Literal, TypeAlias

from taofold import Agent, Decision, Limits, Principal, tool
from taofold.core import events as e
from taofold.core.content import ToolCall
from taofold.core.errors import TaofoldError
from taofold.core.json_values import plain
from taofold.core.reply import Reply
from taofold.core.values import Profile
from taofold.log.log import Log
from taofold.runtime.control import decide, pending
from taofold.runtime.model import Request
from taofold.testing.models import FunctionModel
from taofold.tools.context import Outcome

Verb: TypeAlias = Literal["start", "resume", "allow", "deny", "replay"]
Line: TypeAlias = str | dict[str, Any]
STRATEGIES: Final = ("react", "cot", "direct", "self_correct", "decompose", "plan")
GOAL: Final = "Find the code of 7."


def _result(n: int) -> dict[str, Any]:
    return {"n": n, "code": f"C{n}_x"}


@tool(effect="read", tier=1)
def look(n: int) -> dict[str, Any]:
    """Looks up a number."""
    return _result(n)


@tool(effect="read", tier=1)
def flaky(n: int) -> Outcome:
    """Looks up a number, if it is even."""
    return Outcome(f"no answer for {n}", "failure") if n % 2 else Outcome(_result(n))


@tool(effect="once", tier=1, reversible=True)
def change(n: int) -> dict[str, Any]:
    """Changes a number."""
    return _result(n)


@tool(effect="once", tier=3)
def pay(n: int) -> dict[str, Any]:
    """Pays a number."""
    return _result(n)


TOOLS: Final = (look, flaky, change, pay)


@dataclass(frozen=True)
class Scenario:
    """One run as both runtimes drive it. The last reply of a role is repeated."""

    strategy: str
    strict: bool
    native: bool
    steps: int
    tool_calls: int | None
    verdict: Literal["allow", "deny"]
    replies: dict[str, list[Line]]
    has_tools: bool = True

    @property
    def profile(self) -> Profile:
        return Profile(window=1_000_000, window_known=True, native_tools=self.native)

    @property
    def offered(self) -> tuple[Any, ...]:
        return TOOLS if self.strategy in ("react", "plan") and self.has_tools else ()

    def wire(self) -> dict[str, Any]:
        declared = [
            {
                "name": tool.name,
                "description": tool.description,
                "schema": tool.schema,
                "effect": tool.effect,
                "tier": int(tool.tier),
            }
            for tool in self.offered
        ]
        return {
            "strategy": self.strategy,
            "goal": GOAL,
            "strict": self.strict,
            "profile": plain(self.profile),
            "steps": self.steps,
            "tool_calls": self.tool_calls,
            "tools": declared,
            "replies": self.replies,
        }


def generate(seed: int) -> Scenario:
    """Returns the scenario of a seed."""
    chance = Random(seed)
    strategy = STRATEGIES[seed % len(STRATEGIES)]
    native = strategy == "react" and chance.random() < 0.3
    replies = _Replies(chance)
    return Scenario(
        strategy=strategy,
        strict=chance.random() < 0.3,
        native=native,
        steps=chance.choice((2, 3, 5, 8)),
        tool_calls=chance.choice((None, None, None, 2)),
        verdict=chance.choice(("allow", "allow", "deny")),
        replies=replies.native() if native else getattr(replies, strategy)(),
    )


def without_tools(seed: int) -> Scenario:
    """Returns a scenario of a model with native calls that has nothing to call."""
    replies = _Replies(Random(seed)).plain()
    return Scenario("react", False, True, 5, None, "allow", replies, has_tools=False)


class _Replies:
    """Generates a model's replies: mostly valid ones, sometimes typical mistakes."""

    KINDS = (
        "goal",
        "progress",
        "extraction",
        "reasoning",
        "exception",
        "synthesis",
        "musing",
        None,
    )
    THOUGHTS = (
        "I look it up, because it is asked for.",
        "Looking at the code.",
        "The code is C7_x.",
        "It failed, so I try another number.",
        "",
    )

    def __init__(self, chance: Random) -> None:
        self.chance = chance

    def call(self) -> dict[str, Any]:
        name = self.chance.choice((*[tool.name for tool in TOOLS], "look", "look", "serch"))
        parameters = {"n": self.chance.randrange(12)} if self.chance.random() < 0.95 else {}
        call: dict[str, Any] = {"tool": name, "parameters": parameters}
        if self.chance.random() < 0.8:
            call["rationale"] = self.chance.choice(("it is asked for", "Reading the file"))
        return call

    def remark(self) -> dict[str, Any]:
        remark: dict[str, Any] = {"thought": self.chance.choice(self.THOUGHTS)}
        if kind := self.chance.choice(self.KINDS):
            remark["thought_type"] = kind
        if self.chance.random() < 0.2:
            remark["because"] = [self.chance.randrange(3)]
        if self.chance.random() < 0.3:
            remark["learned"] = "C7_x is there"
        return remark

    def dressed(self, value: Any) -> str:
        """Returns the value as JSON in a form that models send."""
        text = json.dumps(value)
        return self.chance.choice(
            [
                *[text] * 8,
                f"```json\n{text}\n```",
                f"Here it is:\n{text}",
                f"<think>Hm.</think>{text}",
                text[:-1] + ",}" if text.endswith("}") else text,
                text[: len(text) // 2],
                text.replace('"', "'"),
            ]
        )

    def odd(self) -> str:
        return self.chance.choice(
            [
                "",
                "The code is C7_x.",
                '{"thought": "I lo',
                "null",
                "[1, 2]",
                '{"thought": "I think."}',
                'Thought: I look.\nAction: look\nAction Input: {"n": 7}\nObservation: C9_x',
                "Thought: I know.\nFinal Answer: C7_x",
                "{",
                "the set {a}",
                '"C7_x"',
                "<think>I lo",
            ]
        )

    def several(self, good: Callable[[], str], most: int = 6) -> list[Line]:
        count = self.chance.randrange(1, most)
        return [good() if self.chance.random() < 0.85 else self.odd() for _ in range(count)]

    def react(self) -> dict[str, list[Line]]:
        def turn() -> str:
            calls = [self.call() for _ in range(self.chance.choice((1, 1, 1, 2, 3)))]
            several = {"action": calls[0]} if len(calls) == 1 else {"actions": calls}
            return self.dressed(self.remark() | several)

        return {"executor": [*self.several(turn), self.finish()]}

    def finish(self) -> str:
        answer: dict[str, Any] = {"answer": self.chance.choice(("C7_x", "no code", ""))}
        if self.chance.random() < 0.2:
            answer["success"] = False
        action = {"tool": "finish", "parameters": answer, "rationale": "it is there"}
        return self.dressed(self.remark() | {"action": action})

    def native(self) -> dict[str, list[Line]]:
        def turn(number: int) -> Line:
            calls: list[dict[str, Any]] = []
            for place in range(self.chance.choice((1, 1, 2))):
                call = self.call()
                arguments = json.dumps(call["parameters"])
                if self.chance.random() < 0.1:
                    arguments = arguments[:-1]
                id_ = f"c{number}.{place}"
                calls.append({"name": call["tool"], "arguments": arguments, "id": id_})
            return {"text": self.chance.choice(self.THOUGHTS), "calls": calls}

        turns: list[Line] = [turn(number) for number in range(self.chance.randrange(1, 6))]
        return {"executor": [*turns, "The code is C7_x."]}

    def plain(self) -> dict[str, list[Line]]:
        def reply() -> str:
            return self.chance.choice((self.finish(), self.odd(), "I know.\n\nObservation: C7_x."))

        return {"executor": [*self.several(reply), "The code is C7_x."]}

    def reasoned(self) -> str:
        value: dict[str, Any] = {"answer": self.chance.choice(("C7_x", 7, ["a"], ""))}
        if self.chance.random() < 0.8:
            value["thinking"] = "It is 7."
        return self.dressed(value)

    def cot(self) -> dict[str, list[Line]]:
        return {"executor": self.several(self.reasoned)}

    def direct(self) -> dict[str, list[Line]]:
        return {"executor": self.several(lambda: self.chance.choice(("C7_x", "`C7_x`", " C7_x\n")))}

    def self_correct(self) -> dict[str, list[Line]]:
        def critique() -> str:
            issues = ["too short"] if self.chance.random() < 0.7 else []
            score = self.chance.choice((0.2, 0.5, 0.9, 3))
            value = {"score": score, "issues": issues, "suggestions": [], "thinking": "Hm."}
            return self.dressed(value)

        texts = [f"version {n}" for n in range(self.chance.randrange(1, 4))]
        return {"executor": [*texts], "critic": self.several(critique)}

    def decompose(self) -> dict[str, list[Line]]:
        # The parts run concurrently, so each of them gets the same replies.
        ids = ["a", "b", "c"][: self.chance.randrange(4)]
        parts = [
            {
                "id": id_,
                "description": f"part {id_}",
                "dependencies": [it for it in ids if self.chance.random() < 0.3],
                "complex": self.chance.choice((False, None, True)),
            }
            for id_ in ids
        ]
        split = self.dressed({"reasoning": "so it is easier", "sub_problems": parts})
        done = json.dumps({"reasoning": "it is simple", "sub_problems": []})
        return {
            "planner": [split, done],
            "executor": [self.chance.choice((self.reasoned(), self.odd()))],
            "finalizer": self.several(self.reasoned, 3),
        }

    def plan(self) -> dict[str, list[Line]]:
        number = iter(range(1, 1000))

        def plan() -> str:
            ids = [f"t{next(number)}" for _ in range(self.chance.randrange(4))]
            tasks: list[dict[str, Any]] = []
            for place, id_ in enumerate(ids):
                call = self.call()
                depends = [it for it in ids[:place] if self.chance.random() < 0.4]
                n: Any = call["parameters"].get("n", 0)
                if place and self.chance.random() < 0.3:
                    end = self.chance.choice((".n", ".nothing", "", "[0]"))
                    n = "{{ " + ids[0] + ".output" + end + " }}"
                name = call["tool"] if self.chance.random() < 0.95 else "look"
                tasks.append({"id": id_, "tool": name, "args": {"n": n}, "depends": depends})
            return self.dressed({"thought": self.chance.choice(self.THOUGHTS), "tasks": tasks})

        def verdict() -> str:
            achieved = self.chance.random() < 0.5
            return self.dressed({"achieved": achieved, "feedback": "no code", "missing": ["C7"]})

        def retry() -> str:
            n = self.chance.randrange(12)
            give_up = self.chance.random() < 0.3
            return self.dressed({"tool": "flaky", "args": {"n": n}, "give_up": give_up})

        return {
            "planner": self.several(plan),
            "executor": self.several(retry, 4),
            "evaluator": self.several(verdict, 4),
            "finalizer": ["C7_x"],
        }


def replied(records: Iterable[e.Record]) -> Counter[str]:
    """Returns the number of recorded replies by role."""
    return Counter(r.event.role for r in records if isinstance(r.event, e.Replied))


@dataclass
class Pythons:
    """Drives runs in this process."""

    log: Log

    async def __call__(self, orders: Sequence[tuple[Verb, str, Scenario]]) -> list[dict[str, Any]]:
        return [await self._perform(*order) for order in orders]

    async def _perform(self, verb: Verb, run: str, scenario: Scenario) -> dict[str, Any]:
        records = [] if verb == "start" else await self.log.read(run)
        agent = self._agent(scenario, replied(records))
        try:
            match verb:
                case "start":
                    result = await agent.run(GOAL, run_id=run)
                case "resume":
                    result = await agent.resume(run)
                case "replay":
                    await agent.replay(run)
                    return {}
                case "allow" | "deny":
                    for asked in await pending(self.log, run):
                        verdict = "approve" if verb == "allow" else "deny"
                        await decide(self.log, asked.id, Decision(verdict), by=Principal())
                    return {}
        except TaofoldError as error:
            return {"refused": f"{type(error).__name__}: {error}"}
        return {"status": result.status, "stop_reason": result.stop_reason, "error": result.error}

    def _agent(self, scenario: Scenario, given: Counter[str]) -> Agent[Any, Any]:
        scripts = {
            role: chain(lines[given[role] :], repeat(lines[-1]))
            for role, lines in scenario.replies.items()
        }

        def say(request: Request) -> Reply:
            line = next(scripts[request.role])
            if isinstance(line, str):
                return Reply(line, model="scripted:model")
            calls = [ToolCall(**call) for call in line["calls"]]
            return Reply(line["text"], calls, model="scripted:model")

        return Agent(
            model=FunctionModel(say, scenario.profile, "scripted:model"),
            tools=list(scenario.offered),
            strategy=scenario.strategy,
            strict=scenario.strict,
            limits=Limits(steps=scenario.steps, tool_calls=scenario.tool_calls),
            log=self.log,
        )


@dataclass
class Rusts:
    """Drives runs in a program of the Rust runtime, on the log at `path`."""

    program: Path
    path: Path

    async def __call__(self, orders: Sequence[tuple[Verb, str, Scenario]]) -> list[dict[str, Any]]:
        lines = [
            json.dumps({"verb": verb, "run": run, "scenario": scenario.wire()})
            for verb, run, scenario in orders
        ]
        process = await asyncio.create_subprocess_exec(
            self.program, self.path, stdin=PIPE, stdout=PIPE, stderr=PIPE
        )
        out, err = await process.communicate("\n".join(lines).encode())
        assert process.returncode == 0, err.decode()
        return [json.loads(line) for line in out.splitlines()]
