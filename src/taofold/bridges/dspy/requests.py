"""What a program may ask for, as effects of the run: a model's answer, the use of a tool.

`ProgramRequests` makes the effects. Both kinds of program come here, those that DSPy runs in a
`thread` and those that run without it, so limits, steering, corrections, policy and the log are the
same.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, assert_never, cast

from msgspec.structs import replace
from pydantic import BaseModel

from taofold.bridges.dspy.program import ARGUMENTS, THOUGHT, TOOL, PredictorPrompt, jsonable
from taofold.core.content import Conversation
from taofold.core.effects import Act, Ask, Begin, Halt, Outlook, Strategy
from taofold.core.values import (
    FINISH,
    JSON,
    Action,
    Message,
    ModelSettings,
    Observation,
    Reply,
    StepRole,
    Thought,
)
from taofold.reasoning import Task
from taofold.reasoning.direct import Read, Unread, ask_for

T = TypeVar("T")
DONE: Final = "Completed."
"""What ReAct's own tool `finish` returns."""
_ENOUGH: Final = "No tool can be used any more: the answer must come from what is known."
_UNSAID: Final = "The program does not say why."


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call of a model. With a `prompt` the reply is read, and corrected until it can be."""

    messages: tuple[Message, ...]
    prompt: PredictorPrompt | None = None
    schema: dict[str, Any] | None = None
    role: StepRole = "executor"
    temperature: float | None = None


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """One call of a tool."""

    tool: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """What came back: the reply, its values if it was read, or why it could not be."""

    reply: Reply
    values: BaseModel | None = None
    error: str = ""

    @property
    def overflow(self) -> bool:
        """Did the prompt not fit the model's window?"""
        return self.reply.finish == "overflow"


@dataclass(slots=True)
class ProgramRequests:
    """The turns of one program under one task."""

    task: Task
    heard: list[Message] = field(default_factory=list[Message])
    """What people said since it started: every later question holds it."""
    thought: str = ""
    """Why the next tool is used."""
    limit: str = ""
    """The limit because of which no more tools were used."""
    repairs: tuple[str, ...] = ()
    guessed: bool = True
    """Was the choice of the next tool read with changes to what it says (D7)? A program whose
    replies somebody else reads cannot tell."""

    def run(self, program: Generator[Any, Any, T]) -> Strategy[T]:
        """Answer whatever `program` yields, until it returns."""
        try:
            request = next(program)
            while True:
                answer = yield from self.answer(request)
                request = program.send(answer)
        except StopIteration as stop:
            return cast("T", stop.value)
        finally:
            # Also when the run is cut off: the program's thread must not wait for ever.
            program.close()

    def answer(self, request: "ModelRequest | ToolRequest") -> Strategy[Any]:
        """Answer one request."""
        match request:
            case ModelRequest():
                return (yield from self.ask(request))
            case ToolRequest():
                return (yield from self.use(request))
            case _:
                assert_never(request)

    def ask(self, question: ModelRequest) -> Strategy[ModelResponse]:
        """Ask a model; a limit that forbids it ends the program."""
        outlook: Outlook = yield Begin()
        if outlook.stop:
            raise Halt(outlook.stop)
        # Kept: DSPy builds each prompt anew and knows nothing of what people said meanwhile.
        self.heard += outlook.heard
        prompt = question.prompt
        # The program is told that it has finished, so that
        # it still gives an answer from what it knows.
        if prompt is not None and prompt.picks_tool and (outlook.wrap_up or outlook.toolless):
            self.thought, self.repairs, self.guessed = _ENOUGH, (), False
            self.limit = outlook.wrap_up or "loop_detected"
            return _finished(prompt)
        hint = [Message("user", outlook.hint)] if outlook.hint else []
        conversation = self._conversation(question.messages, hint)
        if prompt is None:
            settings = ModelSettings(temperature=question.temperature)
            effect = Ask(conversation, question.role, (), question.schema, settings=settings)
            reply: Reply = yield effect
            # Somebody else reads this reply, so the next tool call counts as guessed.
            self.thought, self.repairs, self.guessed = reply.text[:500], (), True
            return ModelResponse(reply)
        got = yield from _warm(
            ask_for(
                prompt.read,
                conversation,
                attempts=self.task.attempts,
                role=question.role,
                schema=prompt.schema,
            ),
            question.temperature,
        )
        return self._said(got)

    def _said(self, got: "Read[BaseModel] | Unread") -> ModelResponse:
        if isinstance(got, Unread):
            finish = "overflow" if got.kind == "overflow" else "stop"
            return ModelResponse(Reply(got.raw, finish=finish), error=got.error)
        self.thought = str(getattr(got.value, THOUGHT, "") or "")
        self.repairs, self.guessed = got.how, bool(got.guessed)
        return ModelResponse(got.reply, got.value)

    def use(self, use: ToolRequest) -> Strategy[JSON]:
        """Use a tool, under the run's policy. A failure is told, not raised."""
        repairs = self.repairs or (("unread",) if self.guessed else ())
        action = Action(use.tool, jsonable(use.parameters), "", "", repairs, self.guessed)
        thought = Thought(self.thought or _UNSAID, synthesized=not self.thought)
        observations: tuple[Observation, ...] = yield Act(thought, (action,))
        observation = observations[0]
        if observation.status in ("success", "partial"):
            return observation.result
        text = (
            observation.result
            if isinstance(observation.result, str)
            else observation.extraction or repr(observation.result)
        )
        return f"[{observation.status}] {text}"

    def _conversation(self, messages: tuple[Message, ...], hint: list[Message]) -> Conversation:
        """The prompt, with the agent's instructions before it and what was said meanwhile."""
        leading = messages[0].role == "system"
        system, rest = messages[0].text if leading else "", messages[leading:]
        instructions = "\n\n".join(
            [part for part in (self.task.instructions.strip(), system) if part]
        )
        opening = [Message("system", instructions)] if instructions else []
        # The history stands between the demos and the
        # question, which stays last but for what was said.
        whole = [*opening, *rest[:-1], *self.task.history, *rest[-1:], *self.heard, *hint]
        return Conversation(whole)


def _finished(prompt: PredictorPrompt) -> ModelResponse:
    values: dict[str, Any] = {THOUGHT: _ENOUGH, TOOL: FINISH, ARGUMENTS: {}}
    return ModelResponse(Reply("", finish="stop"), prompt.construct(values))


def _warm(strategy: Strategy[T], temperature: float | None) -> Strategy[T]:
    """`strategy`, its questions asked at this temperature."""
    try:
        effect = next(strategy)
        while True:
            if isinstance(effect, Ask) and temperature is not None:
                effect = replace(effect, settings=replace(effect.settings, temperature=temperature))
            effect = strategy.send((yield effect))
    except StopIteration as stop:
        return cast("T", stop.value)
    finally:
        strategy.close()


def values_of(said: ModelResponse, prompt: PredictorPrompt) -> dict[str, JSON]:
    """The outputs as JSON."""
    assert said.values is not None
    return {name: jsonable(value) for name, value in prompt.values(said.values).items()}
