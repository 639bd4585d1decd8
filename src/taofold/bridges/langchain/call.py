"""One call of a LangChain tool, in which LangGraph's `interrupt()` asks a person.

`interrupt` finds its answers in the call's configuration and raises where one is missing; the
tool is then called again from its beginning, as in a graph. The answers so far lie in the run's
log, so another process can go on. What the tool returned (messages, content blocks, commands)
becomes an observation.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any, Final

from taofold.bridges.foreign import own_arun
from taofold.tools import BadArguments, InputRequired, Outcome, PersonAnswer, RunContext
from taofold.tools.arguments import Checker
from taofold.tools.result import jsonable
from taofold.tools.threads import WORKERS

# Blocks are JSON of any shape, messages are read by their shape.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false


_DATA: Final = re.compile(
    r"(?:data:([\w.+-]+/[\w.+-]+)[\w;=.+-]*,)?([A-Za-z0-9+/_-]{200,}={0,2})\s*"
)
"""Base64, perhaps as a `data:` URL: bytes that are no text for a model."""


def outcome_of(returned: Any) -> Outcome:
    """The observation for a `ToolMessage`, a LangGraph `Command`, a list of both, or a value."""
    if is_command(returned):
        return _commanded(returned)
    if isinstance(returned, list) and any(map(_is_output, returned)):
        return _joined([outcome_of(item) for item in returned])
    message: Any = returned
    if not is_message(message):
        return Outcome(message)
    failed = getattr(message, "status", "success") == "error"
    return Outcome(_content(message.content), "failure" if failed else "success")


def is_message(value: Any) -> bool:
    """Is it a message of LangChain's?"""
    return hasattr(value, "content") and hasattr(value, "tool_call_id")


def is_command(value: Any) -> bool:
    """Is it LangGraph's `Command`?"""
    return type(value).__name__ == "Command" and all(
        hasattr(value, name) for name in ("update", "goto", "resume", "graph")
    )


def _is_output(value: Any) -> bool:
    return is_command(value) or is_message(value)


def _commanded(command: Any) -> Outcome:
    """Its messages are the result, one state key is an update; the rest needs a graph, and is told.

    The tool has run by now, so what cannot be followed makes the observation `partial`: calling it
    a failure would invite the model to do it again.
    """
    update: Any = command.update
    pairs = list(update.items()) if isinstance(update, Mapping) else list(update or ())
    messages = [message for key, value in pairs if key == "messages" for message in _listed(value)]
    state = [(str(key), value) for key, value in pairs if key != "messages"]
    ignored = [f"goto={command.goto!r}"] if command.goto else []
    ignored += [f"{word}=…" for word in ("graph", "resume") if getattr(command, word) is not None]
    if len(state) > 1:
        ignored.append(f"updates of {', '.join(key for key, _ in state)}")
    joined = _joined([outcome_of(message) for message in messages])
    value = joined.value if messages else "done"
    if not ignored:
        return Outcome(value, joined.status, update=state[0] if state else None)
    note = f"(It ran. Only a LangGraph graph can follow its Command: {'; '.join(ignored)}.)"
    return Outcome(f"{value}\n{note}", "partial", update=state[0] if len(state) == 1 else None)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _joined(outcomes: list[Outcome]) -> Outcome:
    if len(outcomes) == 1:
        return outcomes[0]
    failed = any(outcome.status == "failure" for outcome in outcomes)
    text = "\n".join(str(outcome.value) for outcome in outcomes)
    update = next((outcome.update for outcome in outcomes if outcome.update is not None), None)
    return Outcome(text, "failure" if failed else "success", update=update)


def _content(content: Any) -> Any:
    """Text as it is; blocks as text, anything in them that is no text as a short description."""
    if not isinstance(content, list):
        return content
    return "\n".join(text for block in content if (text := _block(block)))


def _block(block: Any) -> str:
    if isinstance(block, str):
        return block
    if not isinstance(block, Mapping):
        return str(block)
    if isinstance(text := block.get("text"), str):
        return text
    kind = str(block.get("type", "block")).removesuffix("_url")
    facts = [*_facts(block)]
    return f"[{', '.join([kind, *facts])}]"


def _facts(block: Mapping[Any, Any]) -> Iterable[str]:
    """What can be said of a block in words: media type, size of its bytes, address, name."""
    for key, value in block.items():
        if isinstance(value, Mapping):
            yield from _facts(value)
        elif not isinstance(value, str) or key in ("type", "source_type"):
            continue
        elif key in ("base64", "data") or _DATA.fullmatch(value):
            match = _DATA.fullmatch(value)
            if match is not None and match[1]:
                yield match[1]
            # Four characters of base64 are three bytes.
            yield f"{len(value.rpartition(',')[2].rstrip('=')) * 3 // 4} bytes"
        else:
            yield value[:200]


# LangChain's tools and LangGraph's interrupts are read by their shape; they have no types here.
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false


_OWN: Final = "langchain_core."
_STATE: Final = "langgraph_resume"
_ANSWER: Final = "answer"
_PRIVATE: Final = "__pregel_"
"""How LangGraph names what only its graphs put into a configuration."""


async def call(thing: Any, ctx: RunContext[Any], parameters: dict[str, Any]) -> Outcome:
    """Call the tool once, with what the model wrote and what was injected.

    Raises:
        InputRequired: it interrupts itself with a question.
    """
    answers, declined = _answers(ctx.answer)
    if declined is not None:
        return declined
    request = {
        "type": "tool_call",
        "name": thing.name,
        "args": parameters,
        "id": ctx.effect_id or "call",
    }
    config = {"configurable": _configurable(answers)}
    try:
        if _only_sync(thing):
            # On our worker threads: `ainvoke` would use the
            # loop's, which the process waits for at its end.
            returned = await WORKERS.run(lambda: thing.invoke(request, config))
        else:
            returned = await thing.ainvoke(request, config)
    except Exception as error:
        if _is_interrupt(error):
            raise _question(error, answers) from error
        # It looks for something else of LangGraph's that only a graph puts there.
        if isinstance(error, KeyError) and str(error.args[0]).startswith(_PRIVATE):
            return Outcome("the tool needs the runtime of a LangGraph graph", "failure")
        raise
    return outcome_of(returned)


def _only_sync(thing: Any) -> bool:
    """Has it no coroutine of its own? LangChain would hold up the end of the process for it."""
    return getattr(thing, "coroutine", None) is None and not own_arun(thing, _OWN)


class _Scratchpad:
    """What `interrupt()` looks for in a configuration: LangGraph's `PregelScratchpad`."""

    def __init__(self, answers: list[Any]) -> None:
        self.resume = answers
        self.step = self.stop = 0
        self.interrupt_counter: Callable[[], int] = count().__next__
        self.call_counter: Callable[[], int] = count().__next__
        self.subgraph_counter: Callable[[], int] = count().__next__

    def get_null_resume(self, consume: bool = False) -> None:
        """An answer to whichever interrupt comes first: here each has its place."""
        del consume


def _configurable(answers: list[Any]) -> dict[str, Any]:
    return {
        f"{_PRIVATE}scratchpad": _Scratchpad(list(answers)),
        f"{_PRIVATE}send": _ignored,
        "checkpoint_ns": "",
    }


def _ignored(writes: Any) -> None:
    """What a graph would write of an answered question: the run's log has it."""
    del writes


def _is_interrupt(error: Exception) -> bool:
    return any(
        kind.__name__ == "GraphInterrupt" and kind.__module__.startswith("langgraph.")
        for kind in type(error).__mro__
    )


def _question(error: Exception, answers: list[Any]) -> InputRequired:
    first = error.args[0][0]
    value, schema = first.value, getattr(first, "response_schema", None)
    text = value if isinstance(value, str) else json.dumps(jsonable(value), ensure_ascii=False)
    # All answers so far: `interrupt` is met again from
    # the first one when the tool is called anew.
    state = {_STATE: answers, "question": text, "schema": schema}
    return InputRequired(text, form=_form(schema), state=state)


def _form(schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """The form of an answer: what `interrupt` asks for, else one field for text or JSON."""
    if schema and schema.get("type") == "object":
        return dict(schema)
    field = dict(schema) if schema else {"type": "string"}
    return {"type": "object", "properties": {_ANSWER: field}, "required": [_ANSWER]}


def _answers(answer: PersonAnswer | None) -> tuple[list[Any], Outcome | None]:
    """What `interrupt()` returns, call by call; or how the call ends if a person declined.

    Raises:
        InputRequired: the last answer does not fit what was asked for.
    """
    state: Any = None if answer is None else answer.state
    if answer is None or not isinstance(state, dict) or _STATE not in state:
        return [], None
    if not answer.accepted:
        detail = f": {answer.text}" if answer.text else ""
        return [], Outcome(f"a person declined what the tool asked{detail}", "failure")
    schema = state["schema"]
    value = _read(answer.text) if schema is None else _typed(schema, answer.text)
    if schema is not None:
        form = _form(schema)
        try:
            Checker(form)(value if form == schema else {_ANSWER: value})
        except BadArguments as error:
            question = f"That does not fit: {error}. Once more: {state['question']}"
            raise InputRequired(question, form=form, state=state) from None
    return [*state[_STATE], value], None


def _read(text: str) -> Any:
    """An answer without a schema: JSON objects and lists as such, all else is text, "" is yes."""
    if not text.strip():
        return True
    value = _json(text)
    if isinstance(value, dict) and list(value) == [_ANSWER]:
        return value[_ANSWER]
    return value if isinstance(value, dict | list) else text


def _typed(schema: Mapping[str, Any], text: str) -> Any:
    """An answer with a schema: JSON, or the plain value where there is one field for it."""
    if schema.get("type") == "string":
        value = _json(text)
        return value.get(_ANSWER, text) if isinstance(value, dict) else text
    value = _json(text)
    if schema.get("type") != "object":
        return value[_ANSWER] if isinstance(value, dict) and list(value) == [_ANSWER] else value
    fields: Mapping[str, Any] = schema.get("properties", {})
    if isinstance(value, dict) or len(fields) != 1:
        return value if isinstance(value, dict) else {}
    [(name, field)] = fields.items()
    return {name: text if field.get("type") == "string" else value}


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
