"""LangChain's tools as ours."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from taofold.bridges.foreign import foreign_tool, foreign_tools
from taofold.bridges.langchain.call import call
from taofold.bridges.langchain.schema import Parameters, parameters_of
from taofold.core.errors import ConfigError
from taofold.core.values import Sideeffect
from taofold.tools import Outcome, RunContext, Tool, Toolset

Inject = Mapping[str, Callable[[RunContext[Any]], Any]]


def tool_of(
    thing: Any,
    *,
    name: str = "",
    tier: int | None = None,
    effect: Sideeffect | None = None,
    inject: Inject | None = None,
    **options: Any,
) -> Tool:
    """A LangChain tool as ours. Its arguments are checked here, also those of a dict schema.

    What it raises (`ToolException`) or handles (`handle_tool_error`) is a failed observation, and
    LangGraph's `interrupt()` a question to a person.

    Args:
        thing: the tool.
        name: another name than its own.
        tier: how much say a person has; by default 1 for reads, 2 for the rest.
        effect: "once" unless said otherwise.
        inject: Values for its injected parameters, made from the call's context, as
            `{"user": lambda ctx: ctx.principal.id}`. No model can write these parameters.
        **options: those of `taofold.tool`.

    Raises:
        ConfigError: it needs an injected parameter that nobody supplies, or it wants to end the
            agent's run itself (`return_direct`).
    """
    parameters = parameters_of(thing)
    supplied = dict(inject or {})
    _refuse(thing, parameters, supplied)

    async def perform(ctx: RunContext[Any], given: dict[str, Any]) -> Outcome:
        injected = {parameters.injected[key]: value(ctx) for key, value in supplied.items()}
        return await call(thing, ctx, {**given, **injected})

    return foreign_tool(
        name or str(thing.name),
        str(thing.description or ""),
        parameters.offered,
        perform,
        toolset="langchain",
        forbidden=parameters.forbidden,
        tier=tier,
        effect=effect,
        **options,
    )


def tools_of(
    things: object, *, reads: Iterable[str] = (), prefix: str = "", **options: Any
) -> Toolset:
    """The tools of a toolkit, or several; those named in `reads` only read."""
    return foreign_tools(things, tool_of, reads, prefix, **options)


def _refuse(thing: Any, parameters: Parameters, supplied: Mapping[str, object]) -> None:
    if odd := supplied.keys() - parameters.injected.keys():
        raise ConfigError(
            f"inject: the LangChain tool {thing.name!r} has no injected parameter "
            f"{', '.join(map(repr, sorted(odd)))}"
        )
    if missing := [name for name in parameters.needed if name not in supplied]:
        raise ConfigError(
            f"the LangChain tool {thing.name!r} needs {', '.join(map(repr, missing))} injected, "
            f"as LangGraph does: give tool_of(…, inject={{{missing[0]!r}: lambda ctx: …}})"
        )
    if getattr(thing, "return_direct", False):
        raise ConfigError(
            f"the LangChain tool {thing.name!r} has return_direct=True: it would end the run with "
            "its own output as the answer. Here the agent answers: set return_direct to False"
        )
