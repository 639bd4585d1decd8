"""Drives strategies with `send()` alone: no runtime, no clock, no model."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from taofold.core.effects import (
    Act,
    Ask,
    Assess,
    Begin,
    Effect,
    Fork,
    Halt,
    Note,
    Outlook,
    Strategy,
)
from taofold.core.values import Action, Message, Observation, Reply

Said = str | Reply | dict[str, Any]


def text(said: Said) -> Reply:
    if isinstance(said, Reply):
        return said
    return Reply(said if isinstance(said, str) else json.dumps(said, ensure_ascii=False))


@dataclass
class Play:
    """The effects of a strategy, in order. `halt` names the ask that a limit stops."""

    model: Callable[[Ask], Said] | Iterable[Said]
    tool: Callable[[Action], Observation] = lambda action: Observation(f"did {action.tool}")
    outlooks: Iterable[Outlook] = ()
    halt: int = 0
    effects: list[Effect] = field(default_factory=list)
    prompts: list[tuple[str, list[Message]]] = field(default_factory=list)
    answer: Any = None
    _script: Iterator[Said] | None = None
    _outlooks: Iterator[Outlook] | None = None

    def run(self, strategy: Strategy[Any]) -> "Play":
        self._outlooks = iter(self.outlooks)
        if not callable(self.model):
            self._script = iter(self.model)
        self.answer = self._drive(strategy)
        return self

    def _drive(self, strategy: Strategy[Any]) -> Any:
        try:
            effect = next(strategy)
            while True:
                try:
                    result = self._resolve(effect)
                except Halt as halt:
                    strategy.throw(halt)
                    raise AssertionError("an effect after Halt") from None
                effect = strategy.send(result)
        except StopIteration as stop:
            return stop.value

    def _resolve(self, effect: Effect) -> Any:
        self.effects.append(effect)
        match effect:
            case Begin():
                assert self._outlooks is not None
                return next(self._outlooks, Outlook())
            case Ask():
                self.prompts.append((effect.role, list(effect.conversation)))
                if len(self.prompts) == self.halt:
                    raise Halt("timeout")
                if self._script is not None:
                    return text(next(self._script))
                assert callable(self.model)
                return text(self.model(effect))
            case Act():
                given = [*effect.local, *[None] * len(effect.actions)]
                pairs = zip(effect.actions, given, strict=False)
                return tuple([seen or self.tool(action) for action, seen in pairs])
            case Fork():
                return tuple([self._drive(branch) for branch in effect.branches])
            case Note():
                return None
            case Assess():
                return effect

    @property
    def steps(self) -> list[str]:
        """The tools of the steps."""
        return [a.tool for one in self.effects if isinstance(one, Act) for a in one.actions]

    @property
    def roles(self) -> list[str]:
        return [role for role, _ in self.prompts]

    def notes(self, kind: str) -> list[dict[str, Any]]:
        return [one.data for one in self.effects if isinstance(one, Note) and one.kind == kind]

    def acts(self, tool: str) -> list[Act]:
        return [one for one in self.effects if isinstance(one, Act) and one.actions[0].tool == tool]

    def prompt(self, place: int) -> str:
        return "\n".join([message.content for message in self.prompts[place][1]])


def play(strategy: Strategy[Any], model: Any, **options: Any) -> Play:
    return Play(model, **options).run(strategy)
