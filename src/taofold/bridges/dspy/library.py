"""Access to the DSPy library, and conversion between its objects and taofold's.

To DSPy: taofold's models as a language model (`DspyEngine`), its prompts as an adapter, and modules
made from its signatures. From DSPy: a compiled module as plain JSON (`stored_program`). `signature`
and `program` read DSPy's signature classes and saved states without importing DSPy.

`session` sets DSPy's engine and adapter for one block and thread, without global configuration.
DSPy is imported when a program is run or compiled. It has no types for a strict checker, so it is
`Any` here, and its values are converted at once.
"""

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from typing import Any, Final

from taofold.bridges.dspy.effects import (
    DONE,
    EffectChannel,
    ModelRequest,
    ModelResponse,
    ToolRequest,
)
from taofold.bridges.dspy.program import (
    Module,
    Predictor,
    PredictorPrompt,
    Program,
    PromptField,
    field_texts,
    jsonable,
    read_again,
)
from taofold.bridges.dspy.signature import (
    Signature,
    Slot,
    field_description,
    is_class,
    refuse_media,
    written_of,
)
from taofold.bridges.dspy.signature import signature as signature_of
from taofold.core.errors import ConfigError
from taofold.core.values import FINISH, JSON, Message, Role, StepRole
from taofold.files.types import type_of
from taofold.reasoning import Offer

# Values are JSON of any shape or come from a library without types.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownLambdaType=false


HINT: Final = "pip install 'taofold[dspy]'"
ADAPTERS: Final = ("taofold", "json", "chat")
"""Renderers of prompts: taofold's own, DSPy's JSONAdapter and its ChatAdapter."""
_SERIES: Final = (3, 4)


def missing() -> str:
    """Returns why DSPy cannot be used, with the install command; "" if it can."""
    try:
        version = metadata.version("dspy")
    except metadata.PackageNotFoundError:
        return f"DSPy is not installed: {HINT}"
    # DSPy's engine contract changes between its minor versions.
    series = tuple([int(part) for part in version.split(".")[:2] if part.isdigit()])
    if series != _SERIES:
        return f"DSPy {version} is installed, this needs 3.4: {HINT}"
    return ""


def dspy() -> Any:
    """Returns the DSPy library.

    Raises:
        ConfigError: DSPy is missing or has another version.
    """
    why = missing()
    if why:
        raise ConfigError(why)
    # DSPy loads LiteLLM, which downloads a price list at import unless this variable is set.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "true")
    return _module("dspy")


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise ConfigError(f"DSPy cannot be imported ({error}): {HINT}") from error


@dataclass
class RenderedPrompt:
    """The last prompt of taofold's adapter.

    A reply to these messages is parsed with this prompt.
    """

    messages: tuple[Message, ...] = ()
    prompt: PredictorPrompt | None = None
    replies: int = 0
    """Number of replies to taofold's prompts; `read` counts those that could be parsed."""
    read: int = 0

    def of(self, messages: tuple[Message, ...]) -> PredictorPrompt | None:
        """Returns the prompt that parses the reply to `messages`; None if another adapter rendered
        them.
        """
        # Compared by equality, because DSPy copies the messages.
        return self.prompt if messages == self.messages else None


class DspyEngine:
    """Implements DSPy's engine contract: every call becomes an effect of the run."""

    supports_response_schema = True
    # Tool calls go through taofold's adapter and the run's policy, never through DSPy's native
    # calls.
    supports_function_calling = False
    supported_params = frozenset({"temperature", "response_format"})

    def __init__(
        self, channel: EffectChannel, rendered: "RenderedPrompt", role: StepRole = "executor"
    ) -> None:
        self.channel, self.rendered = channel, rendered
        self.role: StepRole = role

    def __deepcopy__(self, memo: Any) -> "DspyEngine":
        return self  # teleprompters copy models, but the channel cannot be copied

    def complete(self, request: Any) -> Any:
        """Performs one call. The request and the response have types of `dspy.lm15`."""
        messages = tuple(_messages(request))
        prompt, config = self.rendered.of(messages), request.config
        response: ModelResponse = self.channel.ask(
            ModelRequest(
                messages, prompt, _schema(config.response_format), self.role, config.temperature
            )
        )
        self.rendered.replies += prompt is not None
        self.rendered.read += response.values is not None
        lm15 = _module("dspy.lm15")
        if response.overflow:
            raise lm15.ContextLengthError("the prompt does not fit the model's context window")
        usage = response.reply.usage
        return lm15.Response(
            id=None,
            model=request.model,
            message=lm15.Message.assistant([lm15.TextPart(_reply(response, prompt))]),
            finish_reason="length" if response.reply.finish == "length" else "stop",
            usage=lm15.Usage(input_tokens=usage.input_tokens, output_tokens=usage.output_tokens),
        )

    def stream(self, request: Any) -> Any:
        """Performs one call and returns its events."""
        return _module("dspy.lm15").response_to_events(self.complete(request))

    def close(self) -> None:
        """Does nothing: the engine holds no resources."""


def _reply(response: ModelResponse, prompt: PredictorPrompt | None) -> str:
    """Returns the reply.

    A parsed reply is written from its values, so that DSPy does not repair it again.
    """
    if prompt is None or response.values is None:
        # DSPy's types do not accept an empty text part.
        return response.reply.text or " "
    return response.values.model_dump_json(by_alias=True)


def _messages(request: Any) -> Iterator[Message]:
    system = request.system
    if system:
        parts = [system] if isinstance(system, str) else [part.text for part in system]
        yield Message("system", "".join(parts))
    for message in request.messages:
        odd = {part.type for part in message.parts} - {"text"}
        if odd or message.role not in ("user", "assistant", "system", "developer"):
            raise ConfigError(
                f"a message of role {message.role!r} holds {', '.join(sorted(odd)) or 'no text'}: "
                "only text is bridged"
            )
        role: Role = "system" if message.role == "developer" else message.role
        yield Message(role, message.text)


def _schema(requested: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Returns the JSON Schema in a request for structured output."""
    if not requested:
        return None
    inner: Mapping[str, Any] = requested.get("json_schema") or requested
    schema = inner.get("schema")
    return dict(schema) if isinstance(schema, Mapping) else None


@dataclass(frozen=True)
class DspySession:
    """DSPy with its models and adapter for one program."""

    dspy: Any
    lm: Any
    other: Any
    """The teleprompter's model, which writes prompts."""
    adapter: Any
    channel: EffectChannel
    rendered: RenderedPrompt


@contextmanager
def session(
    channel: EffectChannel, adapter: str = "taofold", temperature: float | None = None
) -> Generator[DspySession]:
    """Yields DSPy with taofold's models, for this block and thread.

    Raises:
        ConfigError: DSPy is missing, or the adapter is unknown.
    """
    if adapter not in ADAPTERS:
        choices = ", ".join(ADAPTERS)
        raise ConfigError(f"unknown adapter {adapter!r}; known: {choices}", path="adapter")
    library = dspy()
    rendered = RenderedPrompt()
    engine, other = DspyEngine(channel, rendered), DspyEngine(channel, rendered, "critic")
    instance = _adapter(library)(rendered) if adapter == "taofold" else _theirs(library, adapter)
    # Without DSPy's cache and retries: the log replaces the cache, and the model client retries.
    lm = library.LM(
        "taofold/executor", engine=engine, cache=False, num_retries=0, temperature=temperature
    )
    second = library.LM("taofold/critic", engine=other, cache=False, num_retries=0)
    with library.context(lm=lm, adapter=instance, num_threads=1, disable_history=True):
        yield DspySession(library, lm, second, instance, channel, rendered)


def _theirs(library: Any, name: str) -> Any:
    return library.JSONAdapter() if name == "json" else library.ChatAdapter()


@cache
def _adapter(library: Any) -> Callable[[RenderedPrompt], Any]:
    """Makes a DSPy adapter that renders prompts and parses replies as a compiled program does."""

    class TaofoldAdapter(library.Adapter):  # type: ignore[misc]
        def __init__(self, rendered: RenderedPrompt) -> None:
            super().__init__()
            self.rendered = rendered
            self.shapes: dict[int, tuple[Any, PredictorPrompt]] = {}

        def __deepcopy__(self, memo: Any) -> Any:
            return self

        def prompt(self, signature: Any) -> PredictorPrompt:
            # Cached by `id`. The entry keeps the class alive, so that its id is not reused.
            cached = self.shapes.get(id(signature))
            if cached is None:
                cached = self.shapes[id(signature)] = (signature, prompt_of_theirs(signature))
            return cached[1]

        def format(self, signature: Any, demos: Any, inputs: Any) -> list[dict[str, Any]]:
            prompt = self.prompt(signature)
            messages = prompt.messages([dict(demo) for demo in demos], inputs)
            self.rendered.messages, self.rendered.prompt = tuple(messages), prompt
            return [{"role": message.role, "content": message.text} for message in messages]

        def parse(self, signature: Any, completion: str) -> dict[str, Any]:
            read = read_again(self.prompt(signature), completion)
            if isinstance(read, str):
                raise library.AdapterParseError("taofold", signature, completion, read)
            return dict(read)

        def format_user_message_content(
            self, signature: Any, inputs: Any, *more: Any, **others: Any
        ) -> str:
            return field_texts(inputs, list(inputs))

    return TaofoldAdapter


def prompt_of_theirs(signature: Any) -> PredictorPrompt:
    """Returns the prompt for a DSPy signature class."""
    return PredictorPrompt(
        signature.instructions,
        tuple(_typed(signature.input_fields)),
        tuple(_typed(signature.output_fields)),
    )


def _typed(fields: Mapping[str, Any]) -> Iterator[PromptField]:
    for name, field in fields.items():
        refuse_media(name, field.annotation)
        yield PromptField(name, field.annotation, field_description(field))


def theirs(library: Any, signature: Signature) -> Any:
    """Returns a signature as a DSPy class."""
    fields: dict[str, Any] = {}
    for slot in (*signature.inputs, *signature.outputs):
        make = library.InputField if slot in signature.inputs else library.OutputField
        more = {"desc": slot.description} if slot.description else {}
        fields[slot.name] = (type_of(slot.type, slot.name), make(**more))
    return library.Signature(fields, signature.task)


def module_of(
    at: DspySession,
    signature: Signature | Any,
    module: str,
    offers: Sequence[Offer] = (),
    steps: int = 10,
) -> Any:
    """Makes the DSPy module of a kind from a `Signature` or a DSPy signature class."""
    library = at.dspy
    own = signature if is_class(signature) else theirs(library, signature_of(signature))
    if module != "react":
        return library.ChainOfThought(own) if module == "cot" else library.Predict(own)
    tools = _tool_class(library)
    react_module = library.ReAct(
        own, [_tool(tools, at.channel, offer) for offer in offers], max_iters=steps
    )
    end = react_module.tools[FINISH]
    # ReAct's own `finish` is replaced by one without an effect: it only ends the loop.
    react_module.tools[FINISH] = tools(lambda **_: DONE, FINISH, end.desc, {}, {})
    return react_module


def _tool(tools: Any, channel: EffectChannel, offer: Offer) -> Any:
    def call(**parameters: Any) -> Any:
        return channel.ask(ToolRequest(offer.name, parameters))

    properties = offer.schema.get("properties", {})
    return tools(call, offer.name, offer.description, dict(properties), {})


@cache
def _tool_class(library: Any) -> Any:
    class TaofoldTool(library.Tool):  # type: ignore[misc]
        def __call__(self, **parameters: Any) -> Any:
            """Calls the function without DSPy's checks: the run checks the arguments and records a
            refusal.
            """
            return self.func(**parameters)

    return TaofoldTool


def load_module(module: Any, program: Program) -> Any:
    """Loads the compiled predictors into the module and returns it.

    Raises:
        ConfigError: The module has other predictors.
    """
    by_name = {predictor.name: predictor for predictor in program.predictors}
    own = dict(module.named_predictors())
    # A bare `Predict` names its only predictor "self".
    names = {"predict": "self"} if set(own) == {"self"} else {}
    for stored_predictor, predictor in by_name.items():
        target = own.get(names.get(stored_predictor, stored_predictor))
        if target is None:
            raise ConfigError(
                f"the module has no predictor {stored_predictor!r}; it has {', '.join(own)}"
            )
        target.signature = target.signature.with_instructions(predictor.signature.task)
        target.demos = [dict(demo) for demo in predictor.demos]
    return module


def stored_program(
    compiled: Any, module: Module, signature: Signature, teleprompter: str = ""
) -> Program:
    """Returns a compiled module as a program."""
    slots = {slot.name: slot for slot in (*signature.inputs, *signature.outputs)}
    predictors = [
        _stored(name, predictor, slots) for name, predictor in compiled.named_predictors()
    ]
    return Program(module=module, predictors=tuple(predictors), teleprompter=teleprompter)


def _stored(name: str, predictor: Any, slots: Mapping[str, Slot]) -> Predictor:
    prompt = prompt_of_theirs(predictor.signature)
    inputs, outputs = (
        tuple([slots.get(field.name) or _slot(field) for field in side])
        for side in (prompt.inputs, prompt.outputs)
    )
    names = [slot.name for slot in (*inputs, *outputs)]
    demos: list[dict[str, JSON]] = [
        {key: jsonable(demo[key]) for key in names if key in demo}
        for demo in [dict(demo) for demo in predictor.demos]
    ]
    signature = Signature(inputs, outputs, prompt.instructions)
    return Predictor("predict" if name == "self" else name, signature, tuple(demos))


def _slot(field: PromptField) -> Slot:
    return Slot(field.name, written_of(field.type), field.description)
