"""What a server may be given in the middle of a call besides a person's answers.

*Roots*: the folders that whoever made the server allowed, told without asking again. *Sampling*:
an answer of the run's own model, in a child run and within the run's limits, each time with a
person's word, who reads the server's prompt first. Neither is there unless the options say so.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from taofold.bridges.mcp.package import load, plain
from taofold.core.json_values import is_array, is_object
from taofold.core.text import visible
from taofold.tools import ModelAnswer, ModelQuestion

ELICIT: Final = "elicitation/create"
SAMPLE: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"
PROMPT: Final = 2_000
"""Characters of a server's prompt that a person is shown."""
_LONGEST: Final = 200_000
"""Characters of a prompt that a model is asked at most."""
_ROLES: Final = ("user", "assistant")

Sample: TypeAlias = Callable[[ModelQuestion], Awaitable[ModelAnswer]]


class Unaskable(Exception):
    """The server wants what it must not get this way. The message is for the model."""


@dataclass(frozen=True, slots=True)
class ServerInputs:
    """What one server may be given."""

    roots: tuple[Path, ...] = ()
    sampling: bool = False

    def allow(self, method: str) -> None:
        """Let a request pass.

        Raises:
            Unaskable: it is not offered; with what to change.
        """
        match method:
            case "elicitation/create":
                return
            case "sampling/createMessage":
                if not self.sampling:
                    raise Unaskable(
                        f"the server wants {method}, which is not offered: "
                        "sampling=True lets it ask a person for an answer of the run's model"
                    )
            case "roots/list":
                if not self.roots:
                    raise Unaskable(
                        f"the server wants {method}, which is not offered: "
                        "roots=[folder] tells it of folders"
                    )
            case _:
                raise Unaskable(f"the server wants {visible(method)[:100]}, which is not offered")

    def listed(self) -> dict[str, Any]:
        """The folders, as the protocol tells them."""
        return {
            "roots": [
                {"uri": folder.resolve().as_uri(), "name": folder.resolve().name or "/"}
                for folder in self.roots
            ]
        }

    def folders(self) -> Any:
        """The same, as a result of the package."""
        types = load("mcp.types")
        roots = [types.Root(**root) for root in self.listed()["roots"]]
        return types.ListRootsResult(roots=roots)


def question_of(params: Mapping[str, Any]) -> ModelQuestion:
    """What a server wants a model to answer, out of its request.

    Raises:
        Unaskable: it holds what is not passed on.
    """
    if params.get("tools"):
        raise Unaskable("the server wants a model to use tools, which is not offered")
    messages: Any = params.get("messages")
    said = [_message(message) for message in messages] if is_array(messages) else []
    if not said or said[-1][0] != "user" or not said[-1][1].strip():
        raise Unaskable("the server wants an answer of a model and asks it nothing")
    system = str(params.get("systemPrompt") or "")
    if len(system) + sum(len(text) for _, text in said) > _LONGEST:
        raise Unaskable("the server wants a model to read more than it is given")
    tokens, temperature = params.get("maxTokens"), params.get("temperature")
    return ModelQuestion(
        prompt=said[-1][1],
        system=system,
        history=tuple(said[:-1]),
        max_tokens=tokens if isinstance(tokens, int) and tokens > 0 else 0,
        temperature=float(temperature) if isinstance(temperature, int | float) else None,
    )


def _message(message: Any) -> tuple[str, str]:
    content: Any = message.get("content") if is_object(message) else None
    blocks: Sequence[Any] = content if is_array(content) else [content]
    texts: list[str] = []
    for block in blocks:
        if not is_object(block) or block.get("type") != "text":
            raise Unaskable("the server wants a model to see what is no text: not offered")
        texts.append(str(block.get("text", "")))
    role = str(message.get("role"))
    if role not in _ROLES:
        raise Unaskable("the server speaks to a model in a role that there is not")
    return role, "\n".join(texts)


def worded(server: str, params: Mapping[str, Any]) -> str:
    """What a person reads before the model is asked.

    Raises:
        Unaskable: it holds what is not passed on.
    """
    question = question_of(params)
    lines = [f"the server {server!r} wants the model of this run to answer, at your cost"]
    if question.max_tokens:
        lines[0] += f" ({question.max_tokens} tokens at most)"
    parts = [("system", question.system), *question.history, ("user", question.prompt)]
    lines += [f"{role}: {visible(text)[:PROMPT]}{_more(text)}" for role, text in parts if text]
    return (
        ". It reads what follows and nothing of the run; the server gets the answer.\n".join(
            [lines[0], "\n".join(lines[1:])]
        )
        + "\nApprove to have it answered; deny to refuse."
    )


def _more(text: str) -> str:
    return f"… ({len(text) - PROMPT} characters more)" if len(text) > PROMPT else ""


async def answered(params: Mapping[str, Any], sample: Sample | None) -> dict[str, Any]:
    """The model's answer as the protocol tells it. A person has allowed it.

    Raises:
        Unaskable: there is none.
    """
    if sample is None:
        raise Unaskable("the server wants an answer of a model, and no run is there that has one")
    try:
        answer = await sample(question_of(params))
    except ValueError as error:
        raise Unaskable(f"the server wants an answer of a model: {error}") from error
    return {
        "role": "assistant",
        "content": {"type": "text", "text": answer.text},
        "model": answer.model,
        "stopReason": "endTurn",
    }


def refused(reason: str) -> Any:
    """What a server of the older era is told that gets nothing."""
    return load("mcp.types").ErrorData(code=-1, message=reason)


def method_of(request: Any) -> tuple[str, dict[str, Any]]:
    """The method and the parameters of a request that is embedded in a result."""
    whole = plain(request)
    if not is_object(whole):
        return str(whole), {}
    params: Any = whole.get("params")
    return str(whole.get("method")), params if is_object(params) else {}
