"""The models of an agent, connected: what its file names, or what `--model` says instead."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NoReturn, cast

from taofold.core.errors import ConfigError
from taofold.core.values import Profile

if TYPE_CHECKING:
    from taofold.agent import Agent
    from taofold.runtime.model import Model, OnText, Request
    from taofold.spec import AgentFile, FlowFile

NO_MODEL: Final = (
    "no model: pass --model provider:model, set TAOFOLD_MODEL, or say `model:` in the "
    "agent file or in .taofold/config.yml (offline:repair needs no key and no network)"
)


class Nobody:
    """Stands where a flow that asks no model would have one. It refuses to be asked."""

    name = "no model"
    profile = Profile()

    async def complete(self, request: "Request", on_text: "OnText | None" = None) -> NoReturn:
        """Raise `ConfigError`: an action asked that does not say it would."""
        raise ConfigError(NO_MODEL)

    def price(self, input_tokens: int, output_tokens: int) -> float:
        """Nothing is bought."""
        return 0.0


def live(
    agent: "Agent[Any, Any]", model: str, provider: str
) -> "tuple[Model, Mapping[str, Model]]":
    """The agent's default model and its others by name; `model`, if said, takes every place.

    Raises:
        ConfigError: there is no model, or it cannot be used.
    """
    from taofold.runtime.model import resolve

    if model:
        one = resolve(model, provider=provider)
        return one, dict.fromkeys(agent.models, one)
    if not agent.model:
        raise ConfigError(NO_MODEL)
    others = {name: resolve(spec, provider=provider) for name, spec in agent.models.items()}
    return resolve(agent.model, provider=provider), others


def everywhere(agent: "Agent[Any, Any]", model: "Model") -> "Agent[Any, Any]":
    """The agent with `model` in every place, also in the agents that are its tools."""
    from taofold.agent import Agent
    from taofold.tools import Tool

    def inner(thing: Any) -> Any:
        if isinstance(thing, Agent):
            return everywhere(cast("Agent[Any, Any]", thing), model)
        if not isinstance(thing, Tool):
            return thing
        tool = cast("Tool[..., Any]", thing)
        return replace(tool, agent=inner(tool.agent)) if tool.agent is not None else tool

    models = dict.fromkeys(agent.models, model)
    return agent.but(model=model, models=models, tools=tuple(map(inner, agent.tools)))


def spared(agent: "Agent[Any, Any]", file: "AgentFile") -> "Agent[Any, Any]":
    """The agent; where its flow names every model it asks and none is set, nobody in its place."""
    from taofold.spec import FlowFile

    if agent.model or not isinstance(file, FlowFile) or any(_asks(file)):
        return agent
    return agent.but(model=Nobody())


def _asks(file: "FlowFile") -> Iterator[bool]:
    """For each node, also of imported flows: does its action ask a model that it does not name?"""
    for node in file.flow.every:
        own = not {"model", "generator_model"}.isdisjoint(node.models)
        yield node.kind is not None and bool(node.kind.models) and not own
    for other in file.imported.values():
        yield from _asks(other)
