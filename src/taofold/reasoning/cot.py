"""Chain of thought: think in a given format, then answer (Wei et al., 2022).

One model call, one triplet: the thought is the thinking, the action `finish`, its observation the
answer in the task's type. `ReasonedReader`, which `decompose` also uses, reads JSON, fenced or in
prose, `<thinking>` text, and `Answer:` labels.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Final

import msgspec
from pydantic import BaseModel, ConfigDict, create_model

from taofold.core.effects import Answer, Halt, Strategy, begin
from taofold.core.errors import ConfigError
from taofold.core.values import Reply, StepRole, Thought
from taofold.parsing import Parsed, Repair, Unparsed
from taofold.parsing.typed import parse_with_source
from taofold.reasoning.direct import Unread, ask_for, stopped_answer
from taofold.reasoning.nested import closing
from taofold.reasoning.task import Output, Task

FORMATS: Final[Mapping[str, str]] = {
    "step_by_step": "Think step by step: number the steps, each of which follows from the last.",
    "pros_cons": "Think in pros and cons: list what speaks for and against each option, weigh "
    "them, then decide.",
    "tree": "Think as a tree: branch into several approaches, follow each a little way, drop "
    "the weak ones and say why, then follow the best to its end.",
    "first_principles": "Think from first principles: name the basic facts that are certain, "
    "question every assumption, and build the answer up from those facts alone.",
}
"""The instructions of each `format`."""

# `\1`: the closing tag must match the opening tag.
_TAGGED: Final = re.compile(
    r"<(think|thinking|reasoning)>(.*?)</\1>(.*)", re.IGNORECASE | re.DOTALL
)
_ANSWER_TAG: Final = re.compile(r"\s*<answer>(.*)</answer>\s*", re.IGNORECASE | re.DOTALL)
_LABELLED: Final = re.compile(
    r"\A(.*?)^\s*\**(?:final )?answer\**\s*:\**[ \t]*(.+)\Z",
    re.IGNORECASE | re.DOTALL | re.MULTILINE,
)
_UNTHOUGHT: Final = "The answer was given without thinking."


class ReasonedReply(BaseModel):
    """Thinking and an answer, as the model writes them."""

    model_config = ConfigDict(title="Reasoned")  # the schema is sent to models and recorded
    thinking: str = ""
    answer: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A worked example for the prompt.

    Args:
        problem: The problem.
        thinking: The steps that lead to the answer.
        answer: The answer.
    """

    problem: str
    thinking: str
    answer: Any


@dataclass(frozen=True, kw_only=True)
class Cot:
    """Chain of thought. `role` selects the model.

    Raises:
        ConfigError: The format is unknown, or an example lacks a part.

    Example: `Agent(model, strategy=Cot(format="tree"))`.
    """

    name: ClassVar[str] = "cot"
    format: str = "step_by_step"
    """One of `FORMATS`."""
    examples: Sequence[Example | Mapping[str, Any]] = ()
    """In prompt order."""
    role: StepRole = "executor"

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            allowed = ", ".join(FORMATS)
            raise ConfigError(
                f"unknown thinking format {self.format!r}; allowed: {allowed}", path="format"
            )
        examples = tuple(
            [_example(example, number) for number, example in enumerate(self.examples)]
        )
        object.__setattr__(self, "examples", examples)

    def __call__(self, task: Task) -> Strategy[Answer]:
        """Returns the strategy for `task`."""
        return _story(self, task)

    def rules(self, output: Output) -> str:
        """Returns the fixed instructions: the format, the examples, the form of the reply."""
        examples = "".join(
            [_render_example(example) for example in self.examples if isinstance(example, Example)]
        )
        return f"{FORMATS[self.format]}\n\n{examples}{form(output)}"


def _example(given: Example | Mapping[str, Any], place: int) -> Example:
    if isinstance(given, Example):
        return given
    try:
        return Example(**given)
    except TypeError:
        keys = ", ".join(map(repr, given))
        raise ConfigError(
            f"an example has problem, thinking and answer, not {keys}", path=f"examples.{place}"
        ) from None


def _render_example(example: Example) -> str:
    answer = msgspec.json.encode({"thinking": example.thinking, "answer": example.answer}).decode()
    return f"Example problem: {example.problem}\nExample reply: {answer}\n\n"


def form(output: Output) -> str:
    """Returns the instructions for the form of a reply with thinking and an answer."""
    kind = '"<the answer>"' if output.text else f"<the answer: {output.rendered()}>"
    return (
        "Reply with exactly one JSON object, nothing before or after it:\n"
        f'{{"thinking": "<your thinking>", "answer": {kind}}}'
    )


def _story(options: Cot, task: Task) -> Strategy[Answer]:
    try:
        outlook = yield from begin()
        if outlook.stop:
            return Answer(None, outlook.stop)
        got = yield from ask_for(
            ReasonedReader(task),
            task.opening(options.rules(task.output), task.goal, outlook.heard),
            attempts=task.attempts,
            role=options.role,
            schema=schema_of(task.output),
            thought=thinking_of,
            strict=task.strict,
        )
        if isinstance(got, Unread):
            return stopped_answer(got)
        yield closing(thought_of(got.value), got.value.answer, task.output)
        return Answer(got.value.answer)
    except Halt as halt:
        return Answer(None, halt.reason)


def thinking_of(reasoned: ReasonedReply) -> str:
    """Returns the thinking as text, "" if the model gave none."""
    return reasoned.thinking


def thought_of(reasoned: ReasonedReply) -> Thought:
    """Returns the thinking as a thought, or a synthesized thought if there is none."""
    return Thought(reasoned.thinking or _UNTHOUGHT, synthesized=not reasoned.thinking)


class ReasonedReader:
    """Reads thinking and an answer of a task's type from a reply."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def __call__(self, reply: Reply) -> Parsed[ReasonedReply] | Unparsed:
        """Returns thinking and an answer of the task's type, the answer as JSON."""
        read = self._structured(reply)
        if isinstance(read, Unparsed):
            read = self._loose(reply, read)
        return read

    def _structured(self, reply: Reply) -> Parsed[ReasonedReply] | Unparsed:
        """Reads the requested JSON object, in any wrapping."""
        output = self._task.output
        parsed = parse_with_source(reply.text, _model(output), finish_reason=reply.finish or None)
        if isinstance(parsed, Unparsed):
            return parsed
        answer = parsed.value.answer
        if output.text:
            accepted = output.accept(answer)
            if isinstance(accepted, Unparsed):
                return accepted
            answer = accepted.value
        else:
            answer = output.keep(parsed.plain["answer"], answer)
        # The thinking may be in the object, in tags before it, or in the provider's own field.
        tagged = _TAGGED.search(reply.text)
        thinking = parsed.value.thinking or (tagged[2] if tagged else "") or reply.reasoning
        return Parsed(ReasonedReply(thinking=thinking.strip(), answer=answer), parsed.repairs)

    def _loose(self, reply: Reply, refused: Unparsed) -> Parsed[ReasonedReply] | Unparsed:
        """Reads `<thinking>` text, an `Answer:` label, or the bare answer (D6); else returns the
        refusal.
        """
        text = reply.text.strip()
        marked = '"answer"' in text or (
            self._task.output.text and text.startswith(("{", "```json"))
        )
        # A partial object is not a bare answer: the user would see JSON, or a truncated answer.
        if marked or refused.reason not in ("no_candidate", "invalid"):
            return refused
        tagged, labelled = _TAGGED.search(reply.text), _LABELLED.match(reply.text)
        if tagged is not None:
            inner = _ANSWER_TAG.fullmatch(tagged[3])
            thinking, text, kind = tagged[2], inner[1] if inner else tagged[3], "thinking_tag"
        elif labelled is not None:
            thinking, text, kind = labelled[1], labelled[2], "answer_label"
        elif refused.reason == "no_candidate" or not self._task.output.text:
            thinking, kind = reply.reasoning, "bare_answer"
        else:
            return refused

        accepted = self._task.output.read(text.strip())
        if isinstance(accepted, Unparsed):
            # An unmarked answer is refused with the first error, which concerns the form.
            return refused if kind == "bare_answer" else accepted
        repair = Repair(kind, "syntax")
        value = ReasonedReply(thinking=thinking.strip(), answer=accepted.value)
        return Parsed(value, (repair, *accepted.repairs))


@lru_cache(maxsize=128)
def _model(output: Output) -> type[ReasonedReply]:
    """Returns `ReasonedReply` with the output's type. A text answer may be any JSON."""
    if output.text:
        return ReasonedReply
    return create_model("Reasoned", __base__=ReasonedReply, answer=(output.type, ...))


@lru_cache(maxsize=128)
def schema_of(output: Output) -> dict[str, Any]:
    """Returns the JSON Schema of the requested reply."""
    answer = str if output.text else output.type
    model = create_model("Reasoned", thinking=(str, ...), answer=(answer, ...))
    return model.model_json_schema()
