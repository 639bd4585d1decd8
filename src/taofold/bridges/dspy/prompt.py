"""The prompt of a predictor and how its reply is read: the same with DSPy and without.

Ours is DSPy's adapter while a program is compiled, so what a teleprompter measured is what is
sent afterwards, byte for byte. Values are data: they are never templates or instructions of ours.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any

import msgspec
from pydantic import BaseModel, BeforeValidator, Field, create_model
from pydantic_core import to_jsonable_python

from taofold.actions.types import type_of
from taofold.bridges.dspy.program import TOOL, Predictor
from taofold.bridges.dspy.signature import Slot
from taofold.core.values import JSON, Message, Reply
from taofold.parsing import Parsed, Unparsed, parse
from taofold.reasoning import Output


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else written(value)


Text = Annotated[str, BeforeValidator(_text)]
"""Text; another JSON value stands there as JSON."""


@dataclass(frozen=True)
class PromptField:
    """A field with its Python type."""

    name: str
    type: Any
    description: str = ""


@dataclass(frozen=True)
class PredictorPrompt:
    """A predictor, ready to be asked."""

    instructions: str
    inputs: tuple[PromptField, ...]
    outputs: tuple[PromptField, ...]

    @cached_property
    def model(self) -> type[BaseModel]:
        """What a reply must hold. A field may be called `schema` or `copy`, as Pydantic's own
        attributes are: it has another attribute then, and its name as an alias.
        """
        fields: dict[str, Any] = {
            _attribute(slot.name): (
                Text if slot.type is str else slot.type,
                Field(alias=slot.name) if hasattr(BaseModel, slot.name) else ...,
            )
            for slot in self.outputs
        }
        return create_model("Reply", **fields)

    def values(self, reply: BaseModel) -> dict[str, Any]:
        """The outputs that a reply holds, by name."""
        return {slot.name: getattr(reply, _attribute(slot.name)) for slot in self.outputs}

    def construct(self, values: Mapping[str, Any]) -> BaseModel:
        """A reply that holds these outputs, unchecked; those that are missing are empty text."""
        fields = {_attribute(slot.name): values.get(slot.name, "") for slot in self.outputs}
        return self.model.model_construct(None, **fields)

    @cached_property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of a reply."""
        return self.model.model_json_schema()

    @cached_property
    def system(self) -> str:
        """What the model is told once."""
        given = "\n".join([_line(slot) for slot in self.inputs])
        wanted = "\n".join([_line(slot) for slot in self.outputs if slot.description])
        parts = [
            self.instructions.strip(),
            f"You are given:\n{given}",
            "Reply with exactly one JSON object of this type, nothing before or after it:\n"
            f"{Output(self.model).rendered()}" + (f"\n{wanted}" if wanted else ""),
        ]
        return "\n\n".join([part for part in parts if part])

    @property
    def picks_tool(self) -> bool:
        """Is it the one that chooses the next tool?"""
        return any(slot.name == TOOL for slot in self.outputs)

    def messages(
        self, demos: Iterable[Mapping[str, Any]], inputs: Mapping[str, Any]
    ) -> list[Message]:
        """The whole prompt: instructions, each demo as a question and its reply, the question."""
        shown = [Message("system", self.system)]
        for demo in demos:
            reply = {s.name: jsonable(demo[s.name]) for s in self.outputs if s.name in demo}
            shown.append(Message("user", told(demo, [slot.name for slot in self.inputs])))
            shown.append(Message("assistant", written(reply)))
        return [*shown, Message("user", told(inputs, [slot.name for slot in self.inputs]))]

    def read(self, reply: Reply) -> "Parsed[BaseModel] | Unparsed":
        """The outputs."""
        return parse(reply.text, self.model, finish_reason=reply.finish or None)


def _attribute(name: str) -> str:
    return f"{name}_" if hasattr(BaseModel, name) else name


def prompt_of(predictor: Predictor) -> PredictorPrompt:
    """The prompt of a stored predictor."""
    signature = predictor.signature
    inputs = tuple([_typed(slot) for slot in signature.inputs])
    outputs = tuple([_typed(slot) for slot in signature.outputs])
    return PredictorPrompt(signature.task, inputs, outputs)


def _typed(slot: Slot) -> PromptField:
    return PromptField(slot.name, type_of(slot.type, slot.name), slot.description)


def _line(slot: PromptField) -> str:
    return f"- {slot.name}" + (f": {slot.description}" if slot.description else "")


def told(values: Mapping[str, Any], names: Iterable[str]) -> str:
    """Values under their names, in order; those that are missing are left out."""
    return "\n\n".join([f"{name}:\n{_text(values[name])}" for name in names if name in values])


def jsonable(value: Any) -> JSON:
    """Any value as JSON."""
    return to_jsonable_python(value, fallback=str)


def written(value: Any) -> str:
    """Any value as JSON text."""
    return msgspec.json.encode(jsonable(value)).decode()
