"""The state of a program with a loop of its own: it changes only through actions."""

import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from pydantic import BaseModel

from taofold.log import run_store as records
from taofold.tools.tool import make


class AgentState(BaseModel):
    """A copy of the state's data. Changes to it have no effect."""

    data: dict[str, Any] = {}


class TagentStore:
    """State that changes only through `dispatch` and keeps its history.

    Example:
        ```python
        from taofold.compat.tagent import TagentStore

        store = TagentStore({"count": 1})
        store.dispatch(lambda state: ("count", state["count"] + 1))
        print(store.state.data["count"], store.travel(-1).data["count"])  # 2 1
        ```
    """

    def __init__(self, initial_state: Mapping[str, Any] | None = None) -> None:
        self.history = records.Store(initial_state)
        """The records behind the state."""
        self.tools: dict[str, Callable[..., Any]] = {}
        self.conversation_history: list[dict[str, str]] = []

    @property
    def state(self) -> AgentState:
        """The current state."""
        # A copy, because TAgent's programs write into it.
        return AgentState(data=deepcopy(dict(self.history.state.data)))

    def register_tool(self, name: str, tool_func: Callable[..., Any]) -> None:
        """Registers a tool under `name`.

        Raises:
            ConfigError: The name is unsafe, or a model cannot use the function.
        """
        make(tool_func, name=name)
        self.tools[name] = tool_func

    def dispatch(
        self,
        action_func: Callable[[dict[str, Any]], tuple[str, Any] | None],
        verbose: bool = False,
    ) -> None:
        """Runs an action on a copy of the state's data and applies its `(key, value)`, if any.

        An action that returns None or another false value changes nothing. `verbose` prints the
        update to stderr.
        """
        name = getattr(action_func, "__name__", "action")
        result = action_func(self.state.data) or None
        self._apply_reducer(result, name)
        if verbose:
            update = "no update" if result is None else f"{result[0]} = {result[1]!r}"
            sys.stderr.write(f"{name}: {update}\n")

    def travel(self, seq: int) -> AgentState:
        """Returns the state after update number `seq`, from 0. -1 is the state before the first."""
        return AgentState(data=deepcopy(dict(self.history.travel(seq).data)))

    def rewind(self, seq: int) -> AgentState:
        """Returns to the state after update `seq`. Later updates no longer count."""
        self.history.rewind(seq)
        return self.state

    def _apply_reducer(self, result: tuple[str, Any] | None, action: str = "") -> None:
        """Applies an update. None changes nothing.

        Raises:
            ConfigError: The update is not a `(key, value)` pair.
        """
        self.history.dispatch(lambda _: result, name=action)
