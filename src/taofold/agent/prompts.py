"""The prompts of a run: messages, tools, schema and settings of each model call.

A log holds the digest of each prompt and everything that the prompt was made of, but not the prompt
itself. `sent_prompts` drives the run once more, offline, and compares each prompt with the digest
in the log. This module does not format prompts.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from taofold.core.content import Conversation, Message
from taofold.core.errors import ReplayDiverged, TaofoldError
from taofold.core.events import AskFailed, Record, Replied
from taofold.core.values import ModelSettings
from taofold.log.log import Log, WrappedLog
from taofold.runtime.model import Request, ToolSpec


@dataclass(frozen=True, slots=True)
class SentPrompt:
    """One model call of a run: the messages, tools, schema and settings that the model was sent.

    Example:
        ```python
        for prompt in await agent.prompts(result):
            print(prompt.number, prompt.system, len(prompt.messages))
        ```

    Args:
        number: Counts the model calls of the run from 1.
        key: Place of the call in the run's strategy.
        model: Name of the model. Empty for a call that failed.
        role: Role of the model. Empty for a call that failed and cannot be derived.
        digest: Digest of the prompt in the log. Empty for a call that failed.
        missing: The reason why the prompt cannot be shown. Empty if it is exactly what was sent.
        request: The request. None if the prompt is missing.
        length: Number of messages that were sent. The request's conversation may have grown since.
    """

    number: int
    key: str
    model: str
    role: str
    digest: str
    missing: str
    request: Request | None
    length: int

    @property
    def messages(self) -> Sequence[Message]:
        """The messages that were sent, the system prompt first."""
        return () if self.request is None else tuple(self.request.conversation[: self.length])

    @property
    def system(self) -> str:
        """The system prompt."""
        leading = [message.shown for message in self.messages if message.role == "system"]
        return "\n\n".join(leading)

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools offered natively. With a text protocol they are in the system prompt."""
        return () if self.request is None else self.request.tools

    @property
    def allowed(self) -> tuple[str, ...] | None:
        """The names of the tools that the model may call now. None allows all."""
        return None if self.request is None else self.request.allowed

    @property
    def schema(self) -> Mapping[str, Any] | None:
        """JSON Schema of the reply, if the model was asked for one."""
        return None if self.request is None else self.request.schema

    @property
    def settings(self) -> ModelSettings:
        """Settings of the call. Unset values are chosen by the model or its provider."""
        return ModelSettings() if self.request is None else self.request.asked()

    def shared_with(self, before: "SentPrompt") -> int:
        """Returns how many leading messages are the same as in the prompt `before`."""
        count = 0
        for own, other in zip(self.messages, before.messages, strict=False):
            if own != other:
                break
            count += 1
        return count


def called_agent(caller: Any, name: str) -> Any:
    """Returns the agent called `name` among the tools of the agents of `caller`, or None."""
    tools = [tool for member in caller.team.values() for tool in member.toolset.values()]
    below = [tool.agent for tool in tools if tool.agent is not None]
    return next((callee for callee in below if callee.name == name), None)


async def sent_prompts(
    log: Log, run: str, replay: Callable[[Log], Awaitable[object]]
) -> list[SentPrompt]:
    """Returns the prompts of a run, one for each model call, in the order of the calls.

    Args:
        log: The log that holds the run.
        run: The run's id.
        replay: Derives the run again with the log that it is given.

    Raises:
        UnknownRun: There is no such run.
    """
    records = await log.read(run)
    listening = _Listening(log)
    broken, reason = "", "the run does not come to this call when it is derived again"
    try:
        await replay(listening)
    except ReplayDiverged as error:
        broken, reason = error.key, f"the agent has changed since: {error}"
    except TaofoldError as error:
        reason = f"the run cannot be derived again: {error}"
    return [
        _matched(number, event, listening.sent.get(event.key), broken, reason)
        for number, event in enumerate(_calls(records), 1)
    ]


def _calls(records: Sequence[Record]) -> list[Replied | AskFailed]:
    return [r.event for r in records if isinstance(r.event, Replied | AskFailed)]


def _matched(
    number: int, event: Replied | AskFailed, sent: "_Sent | None", broken: str, reason: str
) -> SentPrompt:
    digest = event.prompt if isinstance(event, Replied) else ""
    model = event.model if isinstance(event, Replied) else ""
    role = event.role if isinstance(event, Replied) else ""
    exact = sent is not None and event.key != broken and digest in ("", sent.digest)
    if sent is None or not exact:
        return SentPrompt(number, event.key, model, role, digest, reason, None, 0)
    role = role or sent.request.role
    return SentPrompt(number, event.key, model, role, digest, "", sent.request, sent.length)


@dataclass(frozen=True, slots=True)
class _Sent:
    request: Request
    digest: str
    length: int


class _Listening(WrappedLog):
    def __init__(self, log: Log) -> None:
        super().__init__(log)
        self.sent: dict[str, _Sent] = {}

    def on_request(self, run: str, key: str, request: Any) -> None:
        talk: Conversation = request.conversation
        self.sent[key] = _Sent(request, talk.digest, len(talk))
