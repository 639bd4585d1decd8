"""The protocol's extension for tasks (`io.modelcontextprotocol/tasks`), as the package takes it.

Messages only; `tasks` follows a task of somebody else's server, `server` offers runs as tasks.
"""

from functools import cache
from typing import Any, Final, Literal

from pydantic import Field

from taofold.bridges.mcp.package import load
from taofold.core.errors import ConfigError

EXTENSION: Final = "io.modelcontextprotocol/tasks"
TASK: Final = "task"
"""The `resultType` of an answer that is a task; the key of its id in what is kept."""


@cache
def extension() -> Any:
    """What tells servers that tasks are understood; None if the mcp package knows no extensions."""
    try:
        client = load("mcp.client.extension")
    except ConfigError:
        return None
    claim = client.ResultClaim(result_type=TASK, model=messages()["created"], resolve=_unresolved)

    class TasksExtension(client.ClientExtension):  # type: ignore[misc, name-defined]
        identifier = EXTENSION

        def claims(self) -> Any:
            return (claim,)

    return TasksExtension()


async def _unresolved(*_: Any) -> Any:
    raise NotImplementedError("tasks are followed by the bridge, not by the package")


@cache
def messages() -> dict[str, Any]:
    """The requests and results of the extension, by name: classes over those of the package."""
    types = load("mcp.types")

    class Created(types.Result):  # type: ignore[misc, name-defined]
        result_type: Literal["task"] = Field("task", alias="resultType")
        task_id: str = Field(alias="taskId")
        poll_interval_ms: float | None = Field(None, alias="pollIntervalMs")

    class Seen(types.Result):  # type: ignore[misc, name-defined]
        status: str
        status_message: str | None = Field(None, alias="statusMessage")
        poll_interval_ms: float | None = Field(None, alias="pollIntervalMs")
        task_requests: dict[str, Any] | None = Field(None, alias="inputRequests")
        result: dict[str, Any] | None = None
        error: dict[str, Any] | None = None

    class TaskRequest(types.Request):  # type: ignore[misc, name-defined]
        method: str
        params: dict[str, Any]
        name_param = "taskId"

    return {"created": Created, "seen": Seen, "request": TaskRequest, "done": types.EmptyResult}
