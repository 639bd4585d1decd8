"""One run of each technique over a real runtime, with a model that answers by its prompt."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from taofold import Agent, Limits, tool
from taofold.reasoning import Cot, Decompose, Plan, SelfCorrect, react
from taofold.runtime.model import Request
from tests.runtime.kit import Memo

J = json.dumps


def critic(request: Request) -> str:
    shown = request.conversation[1].content
    number = int(re.findall(r"version (\d)", shown)[-1])
    scores = [0.3, 0.8, 0.6]
    issues = [f"flaw {number}"] if number < 3 else []
    return J({"reasoning": f"v{number}", "score": scores[number], "issues": issues})


def writer(request: Request) -> str:
    before = re.findall(r"previous version:\nversion (\d)", request.conversation[1].content)
    return f"version {int(before[-1]) + 1 if before else 0}"


def correcting(request: Request) -> str:
    return critic(request) if request.role == "critic" else writer(request)


def acting(request: Request) -> str:
    """A generator that looks with a tool before it writes."""
    if request.role == "critic":
        return critic(request)
    if any('"seen"' in message.content for message in request.conversation):
        answer = {"tool": "finish", "parameters": {"answer": writer(request)}}
        return J({"thought": "seen", "thought_type": "synthesis", "action": answer})
    look = {"tool": "look", "parameters": {"what": "it"}, "rationale": "to see"}
    return J({"thought": "find the item", "thought_type": "goal", "action": look})


def splitting(request: Request) -> str:
    shown = request.conversation[1].content
    about = re.findall(r"Solve only this part:\ndo (\w+)", shown)
    here = about[-1] if about else ""
    if request.role == "planner":
        found: dict[str, Any] = {
            "": [{"id": "c", "description": "do c", "dependencies": ["a", "b"]},
                 {"id": "a", "description": "do a"}, {"id": "b", "description": "do b"}],
            "a": [{"id": "x", "description": "do x"}, {"id": "y", "description": "do y"}],
        }  # fmt: skip
        return J({"reasoning": f"split {here}", "sub_problems": found.get(here, [])})
    return J({"thinking": f"think {here}", "answer": f"answer {here or 'whole'}"})


def failing(request: Request) -> str:
    """As `splitting`, but part b cannot be answered."""
    shown = request.conversation[1].content
    if request.role == "executor" and shown.endswith("Solve only this part:\ndo b"):
        return "{"
    return splitting(request)


def planning(request: Request) -> str:
    shown = request.conversation[-1].content
    if request.role == "planner":
        again = "not reached yet" in shown
        passed = {"what": "{{ t1.output.seen }}"}
        first = [
            {"id": "t1", "tool": "look", "args": {"what": "one"}},
            {"id": "t2", "tool": "look", "args": passed},
        ]
        second = [{"id": "t3", "tool": "look", "args": {"what": "more"}}]
        return J({"thought": "sum the parts", "tasks": second if again else first})
    if request.role == "evaluator":
        return J({"reasoning": "judged", "achieved": "[t3]" in shown, "feedback": "t3 is missing"})
    return "the final answer"


@tool(tier=1, effect="read")
def look(what: str) -> dict[str, str]:
    """Look at something."""
    return {"seen": f"a {what}"}


@dataclass(frozen=True)
class Story:
    name: str
    strategy: Any
    choose: Callable[[Request], str]
    steps: list[str]
    output: str
    limits: Limits = Limits(steps=40)

    def agent(self, known: Any = None, **options: Any) -> Agent[Any, str]:
        model = Memo(choose=self.choose)
        model.known = known or {}
        return Agent(model, strategy=self.strategy, tools=[look], limits=self.limits, **options)


IMPROVED = ["critique", "revise", "critique", "revise", "critique", "finish"]
PARTS = ["decompose"] * 4 + ["solve"] * 4 + ["synthesize", "solve", "decompose", "solve"]
STORIES = [
    Story("cot", Cot(), splitting, ["finish"], "answer whole"),
    Story("self_correct", SelfCorrect(), correcting, ["draft", *IMPROVED], "version 1"),
    Story(
        "self_correct_react", SelfCorrect(inner=react), acting,
        ["look", "draft", "critique", "look", "revise", "critique", "look", "revise", "critique",
         "finish"],
        "version 1",
    ),
    Story("decompose", Decompose(), splitting, [], "answer whole"),
    Story("decompose_failing", Decompose(max_depth=1), failing, [], "answer whole"),
    Story(
        "decompose_nested", Decompose(inner=SelfCorrect(inner=Cot(), rounds=0)), splitting, [],
        "answer whole",
    ),
    Story(
        "plan", Plan(), planning,
        ["plan", "look", "look", "evaluate", "plan", "look", "evaluate", "finish"],
        "the final answer",
    ),
]  # fmt: skip
