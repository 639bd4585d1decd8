"""Actions that call one of the run's tools, so that policy, tiers and approvals apply."""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from taofold.actions.kind import Call, Done, Kind, Open
from taofold.core.effects import Act, Strategy
from taofold.core.values import Action, Observation, Thought

_SAID: Final = "the flow says so"


def perform(
    node: str, tool: str, parameters: Mapping[str, Any], thought: str = ""
) -> Strategy[Observation]:
    """Call `tool` once, as a step of its own. Whoever wrote the flow planned the call."""
    why = Thought(thought or f"The next node of the flow is {node}.", "progress", synthesized=True)
    action = Action(tool, dict(parameters), _SAID)
    observations: tuple[Observation, ...] = yield Act(why, (action,), planned=True)
    return observations[0]


def done(observation: Observation) -> Done:
    """What came back, as the end of an action."""
    if observation.status in ("success", "partial"):
        return Done(observation.result)
    said = observation.result
    text = said if isinstance(said, str) else observation.extraction or repr(said)
    return Done(said, error=text or observation.status)


def _run(tool: str, call: Call[Any]) -> Strategy[Done]:
    parameters: dict[str, Any] = dict(call.keys.model_extra or {})
    if call.seconds is not None:
        parameters.setdefault("timeout_s", call.seconds)
    observation = yield from perform(call.node, tool, parameters, call.thought)
    return done(observation)


def calls(tool: str, name: str = "", description: str = "") -> Kind:
    """The action that calls `tool` with the keys under `with`."""
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
    calls("memory.store", "memory.store", "Keep a value under a name for the rest of the run."),
    calls("memory.recall", "memory.recall", "Get what was kept under a name."),
    calls("http.get", "http.get", "Get a page of the public web."),
    calls("web.search", "web.search", "Search the web, or what the backend searches."),
    calls("web.scrape", "web.scrape", "Get the readable text of a page."),
    calls("ask_user", "person.ask", "Ask the person a question and wait for the answer."),
)
