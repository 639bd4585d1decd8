"""A tool that runs Python code, which can call other tools as functions.

    Agent("openai:gpt-5", tools=[python_tool(tools=[read_file, http_get])])

The code is a child run. Each of its tool calls is a step that is checked by the policy, approved if
needed, logged, and resumed after a crash. The code itself can only compute, so running it needs no
approval.

It runs in `Interpreter`, pydantic-monty in a worker process, without files, network or clock. Code
runs in turns: a turn ends when the code calls a tool, ends, or fails; between turns nothing runs.
The clock is constant and randomness is seeded, so the same code with the same answers takes the
same turns. An interrupted program is run again from its beginning with its earlier answers;
interpreter state is never loaded from a log. Needs the extra `code`.
"""

from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from keyword import iskeyword
from typing import Any, Final, cast

from taofold.agent import Agent
from taofold.bridges.python_sandbox import (
    CodeBounds,
    CodeFailure,
    CodeProgram,
    CodeResult,
    CodeTurn,
    FunctionCall,
    Interpreter,
    Reply,
)
from taofold.core.effects import Act, Answer, Halt, Strategy
from taofold.core.errors import ConfigError
from taofold.core.text import excerpt, times
from taofold.core.values import Action, Observation, Sideeffect, Thought, Tier
from taofold.policy import Limits
from taofold.reasoning import Task
from taofold.runtime.model import SilentModel
from taofold.tools import Outcome, Tool, Toolset
from taofold.tools.threads import WORKERS
from taofold.tools.tool import make

Bounds = CodeBounds
"""Former name of `CodeBounds`, used by examples."""

SHOWN_CHARS: Final = 8_000
"""Maximum characters of printed text in the result."""
_INTERPRET: Final = "interpret"
_ERRORS: Final = {"denied": "PermissionError", "expired": "PermissionError"}
"""Python exceptions for refusals. Every other failure is a RuntimeError."""
_DESCRIPTION: Final = """\
Run Python code in a sandbox and get what it prints and the value of its last expression.
It has no files, network or packages, and its clock stands still; json, re, math, datetime,
collections and other small modules are there. Variables do not survive between calls."""


def python_tool(
    *,
    tools: Sequence[Any] = (),
    name: str = "python",
    bounds: CodeBounds = CodeBounds(),
    limits: Limits | None = None,
) -> Tool:
    """Makes the tool.

    Args:
        tools: Tools that the code may call, as functions of the same names.
        name: The tool's name for the model.
        bounds: Limits of the code between two calls.
        limits: Limits of the child run. Turns of the code and calls of tools count as tool calls.

    Raises:
        ConfigError: A tool's name is no valid Python function name, or is taken.
    """
    inner = Agent(SilentModel(), tools=tools, name=name).toolset
    code = Code(inner, bounds)
    agent: Agent[Any, Any] = Agent(
        SilentModel(),
        tools=[code.tool, inner],
        name=name,
        output=cast("type[Any]", Any),
        strategy=code.strategy,
        limits=limits or Limits(tool_calls=2 * bounds.calls + 1),
    )
    reads = all(tool.effect == "read" for tool in inner.values())
    # Not "once": the inner calls are checked and logged one by one, so the code can be resumed.
    effect: Sideeffect = "read" if reads else "idempotent"
    return Tool(
        name=name,
        description=_described(inner),
        schema={
            "type": "object",
            "properties": {"code": {"type": "string", "description": "Python source."}},
            "required": ["code"],
            "additionalProperties": False,
        },
        tier=Tier.AUTO,
        effect=effect,
        reversible=True,
        agent=agent,
    )


class Code:
    """State shared by the strategy of the child runs and the tool that runs its turns.

    The strategy is pure, so it only passes a program's digest; the tool looks the program up here.
    Both run in one process: on resume the strategy is driven again first.
    """

    def __init__(self, tools: Toolset, bounds: CodeBounds) -> None:
        self._tools = tools
        self._names: dict[str, str] = {}
        for name in tools:
            other = self._names.setdefault(_function(name), name)
            if other != name:
                raise ConfigError(
                    f"code would call {other!r} and {name!r} by one name: rename one with renamed()"
                )
        self._calls = bounds.calls
        self._interpreter = Interpreter(bounds)
        self._programs: dict[str, CodeProgram] = {}
        self._held: Counter[str] = Counter()
        self.tool = make(
            self._turn,
            name=_INTERPRET,
            description="Run the code up to its next call.",
            effect="read",
            timeout=bounds.seconds + 10,
            max_chars=16_384,
        )

    async def _turn(self, at: str) -> Outcome:
        """Runs the next turn of the program with this digest."""
        program = self._programs.get(at)
        if program is None:
            return Outcome("this program is not being run here", "failure")
        return _outcome(await WORKERS.run(lambda: self._interpreter.turn(program)))

    def strategy(self, task: Task) -> Strategy[Answer]:
        """Alternates turns of the code and its tool calls."""
        program = CodeProgram(task.goal, frozenset(self._names))
        printed = ""
        try:
            # One more turn than calls: after the last answer the code runs to its end.
            for _ in range(self._calls + 1):
                with self._known(program):
                    # The digest, not the program, so that the log holds the code only once.
                    action = Action(_INTERPRET, {"at": program.digest})
                    [observation] = yield Act(Thought("run the code"), (action,), planned=True)
                if observation.status != "success" or not isinstance(observation.result, dict):
                    return Answer(None, "error", _unread(observation))
                record = cast("dict[str, Any]", observation.result)
                printed = excerpt(printed + record.get("printed", ""), SHOWN_CHARS)
                if "call" not in record:
                    return _ended(record, printed)
                call = FunctionCall(record["call"], tuple(record["args"]), record["kwargs"])
                reply = yield from self._made(call)
                program = program.then(call, reply)
            return Answer(
                None, "error", f"{printed}the code made more than {times(self._calls, 'call')}"
            )
        except Halt as halt:
            return Answer(None, halt.reason)

    def _made(self, call: FunctionCall) -> Strategy[Reply]:
        """Makes the call and returns its result or its Python exception."""
        named = self._tools[self._names[call.function]]
        parameters = _parameters(named, call)
        if parameters is None:
            return {"error": "TypeError", "text": f"{call.function}() got too many arguments"}
        thought = Thought(f"the code calls {call.function}")
        [observation] = yield Act(thought, (Action(named.name, parameters),), planned=True)
        return _reply(observation)

    @contextmanager
    def _known(self, program: CodeProgram) -> Generator[None]:
        """Registers the program during a turn. Two runs may share it, so uses are counted."""
        self._programs[program.digest] = program
        self._held[program.digest] += 1
        try:
            yield
        finally:
            self._held[program.digest] -= 1
            if not self._held[program.digest]:
                del self._held[program.digest], self._programs[program.digest]


def _outcome(turn: CodeTurn) -> Outcome:
    printed = {"printed": turn.printed} if turn.printed else {}
    match turn.end:
        case FunctionCall():
            call = {"call": turn.end.function, "args": [*turn.end.args], "kwargs": turn.end.kwargs}
            return Outcome({**printed, **call}, extraction=f"calls {turn.end.function}")
        case CodeResult():
            return Outcome({**printed, "value": turn.end.value}, extraction="done")
        case CodeFailure():
            last = turn.end.text.strip().rpartition("\n")[2]
            return Outcome({**printed, "error": turn.end.text}, extraction=last)


def _ended(reply: dict[str, Any], printed: str) -> Answer:
    if "error" in reply:
        return Answer(None, "error", f"{printed}{reply['error']}")
    value = reply.get("value")
    if not printed:
        return Answer("(no output)" if value is None else value)
    return Answer(printed if value is None else {"printed": printed, "value": value})


def _unread(observation: Observation) -> str:
    if observation.status == "success":
        return "the code gives a call more than 16,000 characters: give it less at a time"
    return str(observation.result)


def _reply(observation: Observation) -> Reply:
    if observation.status in ("failure", "timeout"):
        kind = (
            "TimeoutError" if observation.status == "timeout" else _ERRORS.get(observation.refused)
        )
        return {"error": kind or "RuntimeError", "text": str(observation.result)}
    return {"value": observation.result}


def _parameters(named: Tool, call: FunctionCall) -> dict[str, Any] | None:
    """Returns the arguments by name; None if there are more than parameters."""
    names = list(named.schema.get("properties", ()))
    if len(call.args) > len(names):
        return None
    return {**dict(zip(names, call.args, strict=False)), **call.kwargs}


def _function(name: str) -> str:
    """Returns a tool's name in Python."""
    identifier = name.replace("-", "_").replace(".", "_")
    if iskeyword(identifier) or identifier == _INTERPRET:
        raise ConfigError(f"code cannot call a tool named {name!r}: rename it with renamed()")
    return identifier


def _described(tools: Toolset) -> str:
    if not tools:
        return _DESCRIPTION
    lines = [
        f"- {_function(tool.name)}({', '.join(_arguments(tool))}): {_first(tool.description)}"
        for tool in tools.values()
    ]
    return f"{_DESCRIPTION}\nThese functions are there; call them without await:\n" + "\n".join(
        lines
    )


def _arguments(tool: Tool) -> list[str]:
    required = tool.schema.get("required", ())
    properties: dict[str, Any] = tool.schema.get("properties", {})
    return [
        f"{name}: {_kind(rules)}{'' if name in required else ' = …'}"
        for name, rules in properties.items()
    ]


def _kind(rules: dict[str, Any]) -> str:
    kind: Any = rules.get("type", "any")
    return kind if isinstance(kind, str) else " | ".join(cast("list[str]", kind))


def _first(text: str) -> str:
    return text.strip().partition("\n")[0]
