"""The official `mcp` package: its import, its errors, and the task messages that it lacks.

`load` imports a module of the package on demand, or raises an error with the install command. The
package negotiates the protocol version with the peer.

The package lacks the protocol's extension for tasks (`io.modelcontextprotocol/tasks`), so this
module declares its messages. Knows nothing about servers, tools or runs.
"""

import logging
from functools import cache
from importlib import import_module
from typing import Any, Final, Literal, cast

from pydantic import Field

from taofold.core.errors import ConfigError

HINT: Final = "the mcp package is missing: pip install 'taofold[mcp]'"
_SDK_LOGGER: Final = logging.getLogger("mcp")
_SILENT: Final = logging.NullHandler()
_OLD: Final = "the mcp package is older than 2.3: pip install 'taofold[mcp]'"


def load(module: str = "mcp") -> Any:
    """Returns a module of the package.

    Raises:
        ConfigError: The package is missing, broken or older than 2; with the install command.
    """
    # Without a handler the package's tracebacks would go to the terminal.
    _SDK_LOGGER.addHandler(_SILENT)
    try:
        if not hasattr(import_module("mcp"), "Client"):
            raise ConfigError(_OLD)
        return import_module(module)
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] == "mcp":
            raise ConfigError(HINT) from error
        broken = f"the mcp package cannot be loaded ({error}): pip install 'taofold[mcp]'"
        raise ConfigError(broken) from error


def plain(model: Any) -> Any:
    """Returns a model of the package as JSON values with the protocol's names."""
    dump = getattr(model, "model_dump", None)
    return model if dump is None else dump(mode="json", by_alias=True, exclude_none=True)


def code(error: BaseException) -> int | None:
    """Returns the code of a protocol error; None if `error` is another error."""
    status = getattr(error, "code", None)
    return status if isinstance(status, int) else None


def innermost(error: BaseException) -> BaseException:
    """Returns the first error inside nested exception groups."""
    # The other errors of a group are mostly cancellations that the first one caused.
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


EXTENSION: Final = "io.modelcontextprotocol/tasks"
TASK: Final = "task"
"""The `resultType` of a task, and the key of its id in stored state."""


@cache
def extension() -> Any:
    """Returns the extension that declares support for tasks."""
    client = load("mcp.client.extension")
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
    """Returns the extension's requests and results by name, as subclasses of the package's."""
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
