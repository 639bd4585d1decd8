"""Actions that call a tool of the run (`calls`), and the built-in tools: memory, wait, approve.

Actions call tools of the run, so that policy, tiers and approvals apply.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from taofold.core.effects import Act, Strategy
from taofold.core.values import Action, Observation, Thought
from taofold.files.actions.action import ActionCall, Done, Kind, Misuse, Open
from taofold.tools import Outcome, RunContext, Tool
from taofold.tools.tool import make

WAIT: Final = "flow.wait"
APPROVE: Final = "flow.approve"
LONGEST_WAIT_S: Final = 600.0
"""Maximum seconds that a flow may wait before it tries again."""
_ABSENT: Final = "nothing is kept as"


def store(ctx: RunContext[Any], key: str, value: Any) -> Outcome:
    """Store a value under a name for the rest of the run.

    Args:
        ctx: The context of the call.
        key: The name.
        value: Any JSON value.
    """
    return Outcome(f"stored {key!r}", extraction=key, update=(f"memory.{key}", value))


def recall(ctx: RunContext[Any], key: str, default: Any = None) -> Outcome:
    """Get the value that was stored under a name.

    Args:
        ctx: The context of the call.
        key: The name.
        default: The result if nothing was stored.
    """
    slot = f"memory.{key}"
    if slot in ctx.data:
        return Outcome(ctx.data[slot])
    # A default of null equals none, so a missing key is then a failure.
    if default is not None:
        return Outcome(default)
    stored = [name[7:] for name in ctx.data if name.startswith("memory.")]
    return Outcome(f"{_ABSENT} {key!r}; kept are {stored}", "failure")


async def _wait(seconds: float) -> str:
    """Wait before the next attempt.

    Args:
        seconds: How long.
    """
    await asyncio.sleep(min(seconds, LONGEST_WAIT_S))
    return f"waited {seconds:g} s"


def _approve(node: str, question: str = "") -> str:
    """Ask for approval to continue.

    Args:
        node: The node that waits.
        question: Text for the approver.
    """
    return f"{node} may go on"


def memory() -> tuple[Tool, ...]:
    """Returns `memory.store` and `memory.recall`: values in the run's state."""
    return (
        make(
            store,
            name="memory.store",
            effect="idempotent",
            tier=1,
            reversible=True,
            thread=False,
            toolset="memory",
        ),
        make(recall, name="memory.recall", effect="read", thread=False, toolset="memory"),
    )


def wait() -> Tool:
    """Returns a tool that waits between attempts. A resumed flow does not wait again."""
    return make(_wait, name=WAIT, effect="read", timeout=LONGEST_WAIT_S + 1, toolset="flow")


def approve() -> Tool:
    """Returns a tool that stops until an approver agrees: tier 3, so no autonomy skips it."""
    return make(
        _approve,
        name=APPROVE,
        effect="read",
        tier=3,
        thread=False,
        toolset="flow",
        preview=lambda p: f"{p.get('node')}: {p.get('question') or 'go on?'}",
    )


_SAID: Final = "the flow says so"


def perform(
    node: str, tool: str, parameters: Mapping[str, Any], thought: str = ""
) -> Strategy[Observation]:
    """Calls `tool` once, as a separate step. The author of the flow planned the call."""
    why = Thought(thought or f"The next node of the flow is {node}.", "progress", synthesized=True)
    action = Action(tool, dict(parameters), _SAID)
    # The repetition guard applies to models only, and the author wrote this call.
    observations: tuple[Observation, ...] = yield Act(why, (action,), planned=True)
    return observations[0]


def done(observation: Observation) -> Done:
    """Returns an observation as the end of an action."""
    if observation.status in ("success", "partial"):
        return Done(observation.result)
    result = observation.result
    text = result if isinstance(result, str) else observation.extraction or repr(result)
    return Done(result, error=text or observation.status)


def _run(tool: str, call: ActionCall[Any]) -> Strategy[Done]:
    return _called(tool, call, dict(call.keys.model_extra or {}))


def _called(tool: str, call: ActionCall[Any], parameters: dict[str, Any]) -> Strategy[Done]:
    if call.seconds is not None:
        # A `timeout_s` under `with` takes precedence over the node's `timeout`.
        parameters.setdefault("timeout_s", call.seconds)
    observation = yield from perform(call.node, tool, parameters, call.thought)
    return done(observation)


def _keep(tool: str, call: ActionCall[Any]) -> Strategy[Done]:
    """Stores or recalls a value. `reply: true` returns the mapping that The Edge Agent returns."""
    parameters: dict[str, Any] = dict(call.keys.model_extra or {})
    if parameters.pop("reply", False) is not True:
        return (yield from _called(tool, call, parameters))
    # The original makes a text of every key.
    key = parameters["key"] = str(parameters.get("key"))
    # With a default, the tool does not tell whether a value was kept.
    default = parameters.pop("default", None)
    ended = yield from _called(tool, call, parameters)
    if tool == "memory.store":
        value = {"stored": ended.good, "key": key, "namespace": "default"}
        return replace(ended, value=value)
    absent = ended.error.startswith(_ABSENT)
    if not ended.good and not absent:
        return ended
    found = not absent and ended.value is not None
    return Done({"value": ended.value if found else default, "found": found, "key": key})


def keeps(tool: str, description: str) -> Kind:
    """Returns the action that stores or recalls a value of the run."""
    kind = calls(tool, tool, description)
    return replace(kind, run=partial(_keep, tool), own=("reply",), misuses=_misused_reply)


def _misused_reply(written: Mapping[str, Any]) -> list[Misuse]:
    if isinstance(written.get("reply", False), bool):
        return []
    return [Misuse("reply", f"must be true or false, not {written['reply']!r}")]


def calls(tool: str, name: str = "", description: str = "") -> Kind:
    """Returns the action that calls `tool` with the keys under `with`."""
    return Kind(
        name or f"tool.{tool}",
        description or f"Call the tool {tool}.",
        Open,
        partial(_run, tool),
        tools=(tool,),
    )


BUILT_IN: Final[tuple[Kind, ...]] = (
    calls("list_files", "file.list", "List the files of a directory below the work root."),
    calls("read_file", "file.read", "Read a file below the work root."),
    calls("search", "file.search", "Search the files below the work root."),
    calls("write_file", "file.write", "Write a file below the work root."),
    calls("edit_file", "file.edit", "Replace an exact text in a file."),
    calls("run_command", "command.run", "Run a program, contained where that works."),
    keeps("memory.store", "Keep a value under a name for the rest of the run."),
    keeps("memory.recall", "Get what was kept under a name."),
    calls("http.get", "http.get", "Get a page of the public web."),
    calls("web.search", "web.search", "Search the web, or what the backend searches."),
    calls("web.scrape", "web.scrape", "Get the readable text of a page."),
    calls("ask_user", "person.ask", "Ask the person a question and wait for the answer."),
)
