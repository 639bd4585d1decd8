"""DSPy programs as plain JSON, their prompts, and the parsing of replies.

A `Program` holds a signature and each predictor's instructions, fields and demos. A teleprompter
changes nothing else, so a program runs without DSPy. `imported` reads an exported program,
`from_dspy` a file of DSPy, and `plain_program` makes one that is not compiled. The version is a
hash of everything that is sent to a model. Remove the version after editing a program.

Prompts (`PredictorPrompt`) and parsing are the same with and without DSPy. taofold's adapter is
used during compilation, so the compiled prompts equal the measured ones byte for byte. Values are
data: they never become templates or instructions.
"""

# Values are JSON of any shape or come from a library without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, Final, Literal

import msgspec
from pydantic import BaseModel, BeforeValidator, Field, create_model
from pydantic_core import to_jsonable_python

from taofold.bridges.dspy.signature import Signature, Slot, name_of
from taofold.bridges.dspy.signature import signature as signature_of
from taofold.core.errors import ConfigError
from taofold.core.values import (
    JSON,
    Message,
    Reply,
    Value,
)
from taofold.files.types import NoType, type_of
from taofold.parsing import Parsed, Unparsed, parse
from taofold.reasoning import Output

REASONING: Final = "reasoning"
"""The first output of a chain of thought."""
Module = Literal["predict", "cot", "react"]
NAMES: Final[Mapping[Module, str]] = {
    "predict": "Predict",
    "cot": "ChainOfThought",
    "react": "ReAct",
}
"""DSPy's names of the modules."""
FORMAT: Final = "taofold.dspy/1"
THOUGHT, TOOL, ARGUMENTS, SO_FAR = "next_thought", "next_tool_name", "next_tool_args", "trajectory"
"""DSPy's names for the fields of ReAct's first predictor."""


class Predictor(Value, frozen=True, forbid_unknown_fields=True):
    """One prompt of a program. `demos` are worked cases: field names to JSON values."""

    name: str
    signature: Signature
    demos: tuple[dict[str, JSON], ...] = ()


class Program(Value, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A program: its kind of module and its predictors, in order of use."""

    format: str = FORMAT
    module: Module
    predictors: tuple[Predictor, ...]
    teleprompter: str = ""
    scores: dict[str, float] = {}
    """Scores from 0 to 1, before and after, on the training and the validation set."""

    @property
    def version(self) -> str:
        """The first 12 hex digits of a SHA-256 hash over everything that is sent to a model."""
        # Scores and the teleprompter's name are not sent, so they are not hashed.
        encoded = msgspec.json.encode((self.module, self.predictors), order="sorted")
        return hashlib.sha256(encoded).hexdigest()[:12]

    @property
    def signature(self) -> Signature:
        """The program's inputs and outputs, without the fields of its own steps."""
        last = self.predictors[-1].signature
        inputs = tuple([slot for slot in last.inputs if slot.name != SO_FAR])
        own = REASONING if self.module in ("cot", "react") else ""
        # The reasoning of a chain of thought is no output of the program.
        first = last.outputs[0].name == own
        return Signature(inputs, last.outputs[1:] if first else last.outputs, last.instructions)

    def export(self) -> dict[str, Any]:
        """Returns the program as JSON values, with its version."""
        built: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self))
        return {"format": FORMAT, **built, "version": self.version}


def imported(document: Any) -> Program:
    """Reads a program that `export` wrote, from a mapping or JSON text.

    Raises:
        ConfigError: The document is no program, or its version does not match.
    """
    try:
        raw: Any = msgspec.json.decode(document) if isinstance(document, str | bytes) else document
        fields = dict(raw)
        version = fields.pop("version", "")
        if fields.get("format") != FORMAT:
            raise ConfigError(
                f"is no compiled program: its format is not {FORMAT!r}", path="program"
            )
        program = msgspec.convert(fields, Program)
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise ConfigError(f"is no compiled program: {error}", path="program") from None
    _check(program)
    if version and version != program.version:
        raise ConfigError(
            f"says that it is version {version!r} but is {program.version!r}: it was changed; "
            "drop its 'version' if that was meant",
            path="program",
        )
    return program


def _check(program: Program) -> None:
    expected = ("react", "extract.predict") if program.module == "react" else ("",)
    if len(program.predictors) != len(expected):
        raise ConfigError(
            f"a program of kind {program.module!r} has {len(expected)} predictors", path="program"
        )
    for predictor in program.predictors:
        slots = (*predictor.signature.inputs, *predictor.signature.outputs)
        if not predictor.signature.inputs or not predictor.signature.outputs:
            raise ConfigError(f"{predictor.name!r} lacks inputs or outputs", path="program")
        for slot in slots:
            try:
                type_of(slot.type, name_of(slot.name))
            except NoType as error:
                raise ConfigError(f"{slot.name!r}: {error}", path="program") from None
    if program.module == "react":
        outputs = [slot.name for slot in program.predictors[0].signature.outputs]
        if not {TOOL, ARGUMENTS} <= set(outputs):
            raise ConfigError("its first predictor names no tool", path="program")


def plain_program(signature: Signature, module: Module) -> Program:
    """Returns the program before compilation. `react` is not supported: it needs tools."""
    outputs = signature.outputs
    if module == "cot":
        outputs = (Slot(REASONING), *[slot for slot in outputs if slot.name != REASONING])
    own = Signature(signature.inputs, outputs, signature.task)
    return Program(module=module, predictors=(Predictor("predict", own),))


def from_dspy(
    state: Mapping[str, Any], signature: str | Signature | type, module: Module
) -> Program:
    """Reads a program from a file of DSPy's `save`.

    The file lacks the fields, so `signature` is needed. `signature` is a text (`question -> answer:
    int`) or a result of `signature(…)`.

    Raises:
        ConfigError: The file holds another kind of program.
    """
    if module == "react":
        raise ConfigError("a saved ReAct holds no tools: compile it here", path="module")
    base = plain_program(signature_of(signature), module)
    key = "predict" if module == "cot" else "self"
    try:
        saved: Mapping[str, Any] = state[key] if key in state else state["predict"]
        changes = {
            "instructions": saved["signature"]["instructions"],
            "demos": list(saved["demos"]),
        }
    except (KeyError, TypeError) as error:
        raise ConfigError(
            f"is no saved {NAMES[module]}: {error} is missing", path="state"
        ) from None
    predictor = base.predictors[0]
    names = [slot.name for slot in (*predictor.signature.inputs, *predictor.signature.outputs)]
    demos = tuple([{name: d[name] for name in names if name in d} for d in changes["demos"]])
    own = msgspec.structs.replace(predictor.signature, instructions=str(changes["instructions"]))
    return Program(module=module, predictors=(Predictor(predictor.name, own, demos),))


def _text(value: Any) -> Any:
    return value if isinstance(value, str) else as_json_text(value)


Text = Annotated[str, BeforeValidator(_text)]
"""A string. Other JSON values are converted to JSON text."""


@dataclass(frozen=True)
class PromptField:
    """A field with its Python type."""

    name: str
    type: Any
    description: str = ""


@dataclass(frozen=True)
class PredictorPrompt:
    """The prompt of a predictor, with the types of its fields."""

    instructions: str
    inputs: tuple[PromptField, ...]
    outputs: tuple[PromptField, ...]

    @cached_property
    def model(self) -> type[BaseModel]:
        """The Pydantic model of a reply.

        A field with the name of a Pydantic attribute, such as `schema` or `copy`, gets another
        attribute name, and its own name as an alias.
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
        """Returns the outputs of a reply by name."""
        return {slot.name: getattr(reply, _attribute(slot.name)) for slot in self.outputs}

    def construct(self, values: Mapping[str, Any]) -> BaseModel:
        """Makes a reply with these outputs without validation.

        Missing outputs are empty strings.
        """
        fields = {_attribute(slot.name): values.get(slot.name, "") for slot in self.outputs}
        # Not validated: the values come from a compiled program or from taofold itself.
        return self.model.model_construct(None, **fields)

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of a reply."""
        return self.model.model_json_schema()

    @cached_property
    def system(self) -> str:
        """The system message."""
        input_lines = "\n".join([_line(slot) for slot in self.inputs])
        output_lines = "\n".join([_line(slot) for slot in self.outputs if slot.description])
        parts = [
            self.instructions.strip(),
            f"You are given:\n{input_lines}",
            "Reply with exactly one JSON object of this type, nothing before or after it:\n"
            f"{Output(self.model).rendered()}" + (f"\n{output_lines}" if output_lines else ""),
        ]
        return "\n\n".join([part for part in parts if part])

    @property
    def picks_tool(self) -> bool:
        """True if this predictor chooses the next tool."""
        return any(slot.name == TOOL for slot in self.outputs)

    def messages(
        self, demos: Iterable[Mapping[str, Any]], inputs: Mapping[str, Any]
    ) -> list[Message]:
        """Returns the whole prompt: instructions, each demo as a question with its reply, the
        question.
        """
        messages = [Message("system", self.system)]
        for demo in demos:
            reply = {s.name: jsonable(demo[s.name]) for s in self.outputs if s.name in demo}
            messages.append(Message("user", field_texts(demo, [slot.name for slot in self.inputs])))
            messages.append(Message("assistant", as_json_text(reply)))
        return [
            *messages,
            Message("user", field_texts(inputs, [slot.name for slot in self.inputs])),
        ]

    def read(self, reply: Reply) -> "Parsed[BaseModel] | Unparsed":
        """Parses a reply into the outputs."""
        return parse(reply.text, self.model, finish_reason=reply.finish or None)


def _attribute(name: str) -> str:
    return f"{name}_" if hasattr(BaseModel, name) else name


def prompt_of(predictor: Predictor) -> PredictorPrompt:
    """Returns the prompt of a stored predictor."""
    signature = predictor.signature
    inputs = tuple([_typed(slot) for slot in signature.inputs])
    outputs = tuple([_typed(slot) for slot in signature.outputs])
    return PredictorPrompt(signature.task, inputs, outputs)


def _typed(slot: Slot) -> PromptField:
    return PromptField(slot.name, type_of(slot.type, slot.name), slot.description)


def _line(slot: PromptField) -> str:
    return f"- {slot.name}" + (f": {slot.description}" if slot.description else "")


def field_texts(values: Mapping[str, Any], names: Iterable[str]) -> str:
    """Returns the values under their names, in order. Missing values are skipped."""
    return "\n\n".join([f"{name}:\n{_text(values[name])}" for name in names if name in values])


def jsonable(value: Any) -> JSON:
    """Returns any value as JSON values."""
    return to_jsonable_python(value, fallback=str)


def as_json_text(value: Any) -> str:
    """Returns any value as JSON text."""
    return msgspec.json.encode(jsonable(value)).decode()


def read_again(prompt: PredictorPrompt, text: str) -> "Mapping[str, Any] | str":
    """Returns the outputs in a stored text, or the parse error."""
    read = prompt.read(Reply(text))
    if isinstance(read, Parsed):
        return prompt.values(read.value)
    return read.feedback
