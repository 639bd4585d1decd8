"""TAgent's `Store`: a state, the tools, the conversation, and updates through actions only."""

import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from pydantic import BaseModel

from taofold.log import store as records
from taofold.tools.tool import make


class AgentState(BaseModel):
    """The state's data, as a program may look at it: a copy, changing it changes nothing."""

    data: dict[str, Any] = {}


class TagentStore:
    """State that changes only through `dispatch` and remembers how it came about.

    >>> store = TagentStore({"count": 1})
    >>> store.dispatch(lambda state: ("count", state["count"] + 1))
    >>> store.state.data["count"], store.travel(-1).data["count"]
    (2, 1)
    """

    def __init__(self, initial_state: Mapping[str, Any] | None = None) -> None:
        self.history = records.Store(initial_state)
        """The records behind the state."""
        self.tools: dict[str, Callable[..., Any]] = {}
        self.conversation_history: list[dict[str, str]] = []

    @property
    def state(self) -> AgentState:
        """The state now."""
        # A copy: TAgent's programs write into what they are given.
        return AgentState(data=deepcopy(dict(self.history.state.data)))

    def register_tool(self, name: str, tool_func: Callable[..., Any]) -> None:
        """Keep `tool_func` under `name`.

        Raises:
            ConfigError: the name is unsafe, or a model could not be offered this function.
        """
        make(tool_func, name=name)
        self.tools[name] = tool_func

    def dispatch(
        self,
        action_func: Callable[[dict[str, Any]], tuple[str, Any] | None],
        verbose: bool = False,
    ) -> None:
        """Run an action on a copy of the state's data and apply its `(key, value)`, if any.

        With `verbose` the update is told on stderr.
        """
        name = getattr(action_func, "__name__", "action")
        result = action_func(self.state.data)
        self._apply_reducer(result, name)
        if verbose:
            update = "no update" if result is None else f"{result[0]} = {result[1]!r}"
            sys.stderr.write(f"{name}: {update}\n")

    def travel(self, seq: int) -> AgentState:
        """The state after update number `seq`, from 0; -1 is the state before the first."""
        return AgentState(data=deepcopy(dict(self.history.travel(seq).data)))

    def rewind(self, seq: int) -> AgentState:
        """Go back to the state after update `seq`; later updates no longer count."""
        self.history.rewind(seq)
        return self.state

    def _apply_reducer(self, result: tuple[str, Any] | None, action: str = "") -> None:
        """Apply an update; None is none.

        Raises:
            ConfigError: it is no `(key, value)` pair.
        """
        self.history.dispatch(lambda _: result, name=action)
