"""The official `mcp` package: how it is loaded, its errors, and messages for tasks that it lacks.

`load` imports a module of it when a server is reached, or says how to install it. The package
negotiates the version of the protocol with the other side.

The package does not have the protocol's extension for tasks (`io.modelcontextprotocol/tasks`): its
messages are declared here, and nothing else of it. Knows nothing about servers, tools or runs.
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
        ConfigError: The package is missing, broken or older than 2; with the way to install it.
    """
    # What it logs is for whoever listens: without a handler, tracebacks go to the terminal.
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
    """A model of the package as JSON, with the names of the protocol."""
    dump = getattr(model, "model_dump", None)
    return model if dump is None else dump(mode="json", by_alias=True, exclude_none=True)


def code(error: BaseException) -> int | None:
    """Returns the code of an error of the protocol; None if `error` is none."""
    status = getattr(error, "code", None)
    return status if isinstance(status, int) else None


def innermost(error: BaseException) -> BaseException:
    """What went wrong, out of the groups that task groups make of it."""
    # The first of each group: the others are mostly cancellations that it caused.
    while isinstance(error, BaseExceptionGroup):
        error = cast("BaseExceptionGroup[BaseException]", error).exceptions[0]
    return error


EXTENSION: Final = "io.modelcontextprotocol/tasks"
TASK: Final = "task"
"""The `resultType` of an answer that is a task; the key of its id in what is kept."""


@cache
def extension() -> Any:
    """Returns the extension that tells servers that tasks are understood."""
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
