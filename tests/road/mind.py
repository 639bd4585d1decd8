"""The model of the road matrix: a function of one request, in no provider's format.

The goal holds the expected answer (`goal_for`). With tools the model first calls one that reads,
then `finish`. With a schema it writes a value of that schema. Otherwise it follows the protocol
that its prompt describes. It has no state, so a resumed or forked run gets the same answers.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jsonschema import Draft202012Validator

OPEN, CLOSE = "the value ⟦", "⟧"
TEXT = "as plain text"
"""Says that the value is a text, which a plain answer gives without quotes."""
SECOND_CRITIQUE = "The version to judge"


class Unfit(Exception):
    """The model can write nothing that the request allows."""


@dataclass(frozen=True)
class Turn:
    """One message. `calls` are the names of the tools that it calls."""

    role: str
    text: str
    calls: Sequence[str] = ()


@dataclass(frozen=True)
class Asked:
    """A request."""

    system: str
    turns: Sequence[Turn]
    tools: Mapping[str, dict[str, Any]]
    """Schemas of the parameters by the name on the wire."""
    schema: dict[str, Any] | None = None
    allowed: Sequence[str] | None = None

    @property
    def users(self) -> str:
        return "\n".join([turn.text for turn in self.turns if turn.role == "user"])


@dataclass(frozen=True)
class Said:
    """A reply: text, and at most one call of a tool with its arguments."""

    text: str
    call: tuple[str, dict[str, Any]] | None = None


def goal_for(wire: Any, *, text: bool = False) -> str:
    """A goal that asks for `wire`."""
    how = f" {TEXT}" if text else ""
    return f"Look once, then answer with {OPEN}{json.dumps(wire, ensure_ascii=False)}{CLOSE}{how}."


def reply(asked: Asked) -> Said:
    """Returns the model's reply."""
    if asked.tools:
        return _with_tools(asked)
    system = asked.system
    if "Before each tool call" in system:  # a native caller whose tools are used up
        return Said(str(value(asked)))
    if "Work in steps." in system:
        return _written(asked, _step(asked))
    if "You are a critic." in system:
        return _written(asked, {
            "reasoning": "I compared it.", "score": 0.5, "issues": ["dull"], "suggestions": [],
        })  # fmt: skip
    if "Split the problem into" in system:
        return _written(
            asked, {"reasoning": "Two parts.", "sub_problems": [_part("a"), _part("b")]}
        )
    if "You plan how to reach a goal" in system:
        seen = "(no results yet)" not in asked.users
        tasks = [] if seen else [_task(asked)]
        return _written(asked, {"thought": "One look is enough.", "tasks": tasks})
    if "You judge whether a goal is reached" in system:
        return _written(asked, {
            "reasoning": "It was looked up.", "achieved": True, "feedback": "", "missing": [],
            "suggestions": [],
        })  # fmt: skip
    if '"thinking"' in system:
        answer = "done" if "Solve only this part" in asked.users else value(asked)
        return _written(asked, {"thinking": "It is in the goal.", "answer": answer})
    if asked.schema is not None or "one JSON value of this type" in system:
        return _written(asked, value(asked))
    if "the answer itself and nothing else" in system:
        return Said(str(value(asked)))
    raise Unfit(f"the prompt describes no form of a reply: {system[:300]!r}")


def value(asked: Asked) -> Any:
    """The value that the goal asks for."""
    _, _, rest = asked.users.partition(OPEN)
    # A conversation may contain the goal more than once, each with the same value.
    written, closed, _ = rest.partition(CLOSE)
    if not closed:
        raise Unfit(f"no value is asked for in {asked.users[:300]!r}")
    return json.loads(written)


def _goal(asked: Asked) -> str:
    text = TEXT if f"{CLOSE} {TEXT}" in asked.users else ""
    return goal_for(value(asked), text=bool(text))


def _written(asked: Asked, answer: Any) -> Said:
    """The answer as JSON, in the form that the schema allows, if there is one."""
    if asked.schema is not None:
        answer = fitted(answer, asked.schema)
    return Said(json.dumps(answer, ensure_ascii=False))


def _part(name: str) -> dict[str, Any]:
    return {"id": name, "description": f"part {name}", "dependencies": [], "complex": False}


def _task(asked: Asked) -> dict[str, Any]:
    tool = _listed(asked)[0]
    return {
        "id": "task_1", "description": "look", "tool": tool, "depends": [],
        "args": _arguments(asked, tool),
    }  # fmt: skip


def _listed(asked: Asked) -> list[str]:
    """The tools that the prompt lists, without those of the strategy itself."""
    names = re.findall(r"^- ([\w.]+)\(", asked.system, re.MULTILINE)
    return [name for name in names if name not in ("plan", "evaluate", "summarize", "finish")]


def _arguments(asked: Asked, tool: str) -> dict[str, Any]:
    return {"at": "here"} if tool == "look" else {"goal": _goal(asked)}


def _step(asked: Asked) -> dict[str, Any]:
    """Returns one step in the text protocol: look, then finish."""
    before = "\n".join([turn.text for turn in asked.turns if turn.role == "assistant"])
    names = [] if "This is your last turn" in asked.users else _listed(asked)
    for tool in names:
        if f'"tool": "{tool}"' not in before:
            return _act("I look first.", "goal", tool, _arguments(asked, tool))
    return _act("I know it now.", "synthesis", "finish", {"answer": value(asked)})


def _act(thought: str, kind: str, tool: str, parameters: Any) -> dict[str, Any]:
    action = {"tool": tool, "parameters": parameters, "rationale": "It is needed."}
    return {"thought": thought, "thought_type": kind, "action": action}


def _with_tools(asked: Asked) -> Said:
    """Returns one native turn: look, then finish, or an answer in text without `finish`."""
    called = {name for turn in asked.turns for name in turn.calls}
    own = ("plan", "evaluate", "summarize", "finish", "ask_user")
    allowed = asked.tools if asked.allowed is None else asked.allowed
    for tool in asked.tools:
        if tool not in own and tool not in called and tool in allowed:
            arguments = fitted(_arguments(asked, tool), asked.tools[tool])
            return Said("I look first.", (tool, arguments))
    if "finish" not in allowed or "finish" not in asked.tools:
        return Said(str(value(asked)))
    return Said("I know it.", ("finish", fitted({"answer": value(asked)}, asked.tools["finish"])))


# --- schemas -------------------------------------------------------------------------------------


def fitted(answer: Any, schema: dict[str, Any]) -> Any:
    """The answer as the schema allows it.

    Constrained decoding has a model write what a schema requires beyond its answer: an object
    around it, and null for what is left out.

    Raises:
        Unfit: the schema allows no form of the answer.
    """
    around = [name for name in schema.get("required", ()) if isinstance(answer, object)]
    candidates = [answer, *({name: answer} for name in around[:1])]
    judge = Draft202012Validator(schema)
    for candidate in candidates:
        filled = _filled(candidate, schema, schema)
        if judge.is_valid(filled):
            return filled
    why = "; ".join([error.message[:200] for error in judge.iter_errors(answer)])
    raise Unfit(f"the schema does not allow {answer!r}: {why}")


def _filled(answer: Any, schema: Any, root: dict[str, Any]) -> Any:
    """The answer with null, or the default, for each required property that it lacks."""
    if not isinstance(schema, dict):
        return answer
    if "$ref" in schema:
        return _filled(answer, _target(schema["$ref"], root), root)
    for branch in [*schema.get("anyOf", ()), *schema.get("oneOf", ())]:
        filled = _filled(answer, branch, root)
        if Draft202012Validator({**branch, "$defs": root.get("$defs", {})}).is_valid(filled):
            return filled
    if isinstance(answer, dict):
        properties = schema.get("properties", {})
        filled = {key: _filled(each, properties.get(key), root) for key, each in answer.items()}
        missing = [name for name in schema.get("required", ()) if name not in filled]
        return filled | {name: properties.get(name, {}).get("default") for name in missing}
    if isinstance(answer, list):
        return [_filled(each, schema.get("items"), root) for each in answer]
    return answer


def _target(reference: str, root: dict[str, Any]) -> Any:
    node: Any = root
    for step in reference.removeprefix("#").strip("/").split("/"):
        if step:
            node = node[step.replace("~1", "/").replace("~0", "~")]
    return node
