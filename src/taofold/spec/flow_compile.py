"""The pieces of a flow, compiled from a document: values, conditions, the keys of actions.

What is wrong is collected as faults, each at its key. Imports and runs nothing.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from taofold.actions import Actions, Kind
from taofold.actions.types import NoType, type_of
from taofold.core.text import near
from taofold.core.value import is_array, is_object
from taofold.spec.condition import Condition, Unclear
from taofold.spec.document import Document
from taofold.spec.faults import Fault
from taofold.spec.flow import Given, Place, templates
from taofold.spec.flow_keys import FlowKeys
from taofold.spec.template import Template, Unrenderable, is_template

_ALWAYS: Final = frozenset({"state", "variables", "goal"})
_DEEPEST: Final = 50


@dataclass(slots=True)
class Compiler:
    """Collects faults while it compiles. `names` are those a template may use here."""

    document: Document
    actions: Actions
    keys: FlowKeys
    faults: list[Fault] = field(default_factory=list[Fault])

    def wrong(self, place: Place, message: str, hint: str = "") -> None:
        """Note a fault."""
        self.faults.append(self.document.fault(place, message, hint))

    def given(self, value: Any, place: Place, extra: Iterable[str] = ()) -> Given:
        """A value with its texts compiled."""
        made = Given(self._compiled(value, place, 0))
        for one in templates(made.raw):
            self._known(one.names, place, extra)
        return made

    def _compiled(self, value: Any, place: Place, depth: int) -> Any:
        if depth > _DEEPEST:
            self.wrong(place, "is nested too deep")
            return None
        if isinstance(value, str) and is_template(value):
            return self.template(value, place) or value
        if is_object(value):
            return {
                str(k): self._compiled(v, (*place, str(k)), depth + 1) for k, v in value.items()
            }
        if is_array(value):
            return [self._compiled(v, (*place, i), depth + 1) for i, v in enumerate(value)]
        return value

    def template(self, text: str, place: Place) -> Template | None:
        """A template, or a fault."""
        try:
            return Template(text)
        except Unrenderable as error:
            self.wrong(place, str(error))
            return None

    def condition(self, text: str, place: Place, extra: Iterable[str] = ()) -> Condition | None:
        """A condition, or a fault."""
        try:
            condition = Condition(text)
        except Unclear as error:
            self.wrong(place, str(error))
            return None
        self._known(condition.names, place, extra)
        return condition

    def _known(self, names: Iterable[str], place: Place, extra: Iterable[str]) -> None:
        known = _ALWAYS | set(extra)
        for name in sorted(set(names) - known):
            hint = near(name, known) if near(name, known).startswith("did") else ""
            self.wrong(place, f"unknown name {name!r}", hint or f"write state.{name}?")

    def kind(self, name: str, place: Place) -> Kind | None:
        """The action of this name, or a fault."""
        try:
            return self.actions[name]
        except KeyError:
            self.wrong(place, f"unknown action {name!r}", near(name, [*self.actions, "tool.NAME"]))
            return None

    def defaults(self, kind: Kind) -> dict[str, Any]:
        """What the file's settings say about keys of the action."""
        part: Any = getattr(self.keys.settings, kind.settings) if kind.settings else None
        given: dict[str, Any] = {} if part is None else part.model_dump(exclude_unset=True)
        return {name: value for name, value in given.items() if name in kind.keys.model_fields}

    def model(self, name: str) -> str:
        """A model's name, completed with the provider of the settings."""
        provider = self.keys.settings.provider
        return f"{provider}:{name}" if provider and ":" not in name else name

    def action_keys(self, kind: Kind, raw: Mapping[str, Any], given: Given, place: Place) -> None:
        """Check the keys under `with`, as far as they are literal."""
        compiled: Mapping[str, Any] = given.raw
        late = {key for key, value in compiled.items() if templates(value)}
        for key in (*kind.models, *kind.literal, "tools"):
            if key in late:
                self.wrong((*place, key), f"{key!r} must stand there as it is, not as a template")
        try:
            kind.keys.model_validate({**raw})
        except ValidationError as error:
            for one in error.errors():
                loc = one["loc"]
                if one["type"] != "extra_forbidden" and str(loc[0] if loc else "") in late:
                    continue
                self._misfit(kind, one["type"], loc, one["msg"], place)
        written = raw.get("output_format")
        if written is not None and "output_format" not in late:
            try:
                type_of(written)
            except NoType as wrong:
                self.wrong((*place, "output_format", *wrong.path), str(wrong))

    def _misfit(self, kind: Kind, type_: str, loc: Place, message: str, place: Place) -> None:
        if type_ == "extra_forbidden":
            hint = near(str(loc[-1]), fields(kind.keys))
            self.wrong((*place, *loc), f"unknown key {str(loc[-1])!r} of {kind.name}", hint)
        elif type_ == "missing":
            self.wrong(place, f"{kind.name} needs the key {str(loc[-1])!r}")
        else:
            said = message.replace("Input should be", "must be").removeprefix("Value error, ")
            self.wrong((*place, *loc), said)


def fields(model: type[BaseModel]) -> list[str]:
    """The keys of a model as they are written."""
    return [one.alias or name for name, one in model.model_fields.items()]
