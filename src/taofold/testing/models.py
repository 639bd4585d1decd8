"""Models for tests: one that reads a script, one that calls a function.

Both go through the ordinary `Model` seam, need no network and cost next to nothing
per call. They know nothing about reply formats: what they return is what the test says.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Final, TypeAlias

from taofold.core.content import Conversation
from taofold.core.errors import TaofoldError
from taofold.core.values import Message, Profile, Reply, Value
from taofold.runtime.model import OnText, Request, ToolSpec

ROOMY: Final = Profile(window=1_000_000, window_known=True)
"""The profile of a test model: text only, and a window no test fills by accident."""

Line: TypeAlias = str | Reply | Exception
"""One entry of a script: a reply's text, a whole reply, or an error to raise."""

Answer: TypeAlias = str | Reply
_CHUNK: Final = 16


class ScriptEnded(TaofoldError):
    """The script has no reply for this call: the agent asked more often than expected."""


class Asked(Value, frozen=True):
    """A request as it was when it was made. The conversation may have grown since."""

    request: Request
    length: int

    @property
    def messages(self) -> list[Message]:
        """What the model was shown (copied here, not when it was asked)."""
        return self.request.conversation[: self.length]

    @property
    def text(self) -> str:
        """Every message's text, joined: handy for `in`."""
        return "\n".join(message.text for message in self.messages)

    @property
    def last(self) -> str:
        """The text of the newest message, "" if there was none."""
        return self.request.conversation[self.length - 1].text if self.length else ""

    @property
    def digest(self) -> str:
        """The digest the conversation had (recomputed: O(n))."""
        return Conversation(self.messages).digest

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """The tools it was offered."""
        return self.request.tools

    @property
    def role(self) -> str:
        """The step role it was asked in."""
        return self.request.role


def _price(usd: tuple[float, float] | None, input_tokens: int, output_tokens: int) -> float | None:
    if usd is None:
        return None
    return (usd[0] * input_tokens + usd[1] * output_tokens) / 1e6


def _speak(text: str, on_text: OnText) -> None:
    for start in range(0, len(text), _CHUNK):
        on_text(text[start : start + _CHUNK])


class ScriptedModel:
    """Gives `replies` in order and remembers what it was asked.

    Args:
        replies: texts, whole replies, or exceptions to raise; may be endless.
        profile: what it claims to be able to do.
        usd: dollars per million input and output tokens; None = price unknown.
    """

    def __init__(
        self,
        replies: Iterable[Line],
        profile: Profile = ROOMY,
        name: str = "scripted:model",
        *,
        usd: tuple[float, float] | None = (0.0, 0.0),
    ) -> None:
        self.name = name
        self.profile = profile
        self.requests: list[Asked] = []
        self._replies: Iterator[Line] = iter(replies)
        self._usd = usd

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """The next reply. Raises `ScriptEnded` if there is none, or the scripted exception."""
        # The conversation is not copied, it only grows:
        # its length is enough to see it as it was.
        received = Asked(request, len(request.conversation))
        self.requests.append(received)
        line = next(self._replies, None)
        if line is None:
            raise ScriptEnded(
                f"{self.name!r} was asked {len(self.requests)} times, but its script has "
                f"{len(self.requests) - 1} replies; it was shown {received.last[-200:]!r}: "
                "add a reply, or find out why the agent asks again"
            )
        if isinstance(line, Exception):
            raise line
        reply = line if isinstance(line, Reply) else Reply(text=line, model=self.name)
        if on_text is not None:
            _speak(reply.text, on_text)
        return reply

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """US dollars for a call of this size."""
        return _price(self._usd, input_tokens, output_tokens)

    def assert_complete(self) -> None:
        """Raise `AssertionError` if replies are left over. Takes one from an endless script."""
        left = next(self._replies, None)
        if left is not None:
            raise AssertionError(
                f"{self.name!r} was asked {len(self.requests)} times and has replies left; "
                f"the next is {left!r}"
            )


class FunctionModel:
    """Answers with `fn(request)`: a text, a reply, or an awaitable of one."""

    def __init__(
        self,
        fn: Callable[[Request], Answer | Awaitable[Answer]],
        profile: Profile = ROOMY,
        name: str = "function:model",
        *,
        usd: tuple[float, float] | None = (0.0, 0.0),
    ) -> None:
        self.name = name
        self.profile = profile
        self._fn = fn
        self._usd = usd

    async def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """Ask the function. What it raises passes through."""
        answer = self._fn(request)
        # A coroutine or any other awaitable.
        if not isinstance(answer, (str, Reply)):
            answer = await answer
        reply = answer if isinstance(answer, Reply) else Reply(text=answer, model=self.name)
        if on_text is not None:
            _speak(reply.text, on_text)
        return reply

    def price(self, input_tokens: int, output_tokens: int) -> float | None:
        """US dollars for a call of this size."""
        return _price(self._usd, input_tokens, output_tokens)
