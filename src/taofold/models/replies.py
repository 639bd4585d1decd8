"""What every provider's reader makes of a reply: calls with ids, usage with its cost, why it ended.

`ReplyContext` is what a reader must know about the call whose reply it reads. It knows no
provider's format, and nothing of requests (`encoding`).
"""

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from taofold.core.content import Issuer, Part
from taofold.core.errors import ModelError
from taofold.core.values import Reply, ToolCall, Usage
from taofold.models.prices import Price
from taofold.runtime.model import Speaker

_MOST_CALLS: Final = 256
"""More in one reply were never meant: no provider allows half as many tools."""
_MOST_TOKENS: Final = 1 << 40


def _ended(calls: tuple[ToolCall, ...], finish: str) -> tuple[bool, str]:
    """Are the calls whole, and why did they end: some servers say "stop" of calls too.

    No arguments stand for an empty object only where the provider says that the calls are
    whole. Elsewhere they may have been lost, which whoever knows the tool must judge.
    """
    if finish == "tool_calls":
        return True, finish
    whole = finish == "stop" and calls and all([call.arguments for call in calls])
    return False, "tool_calls" if whole else finish


def _told_apart(parts: Sequence[Part]) -> Sequence[Part]:
    """The parts, no two calls of which have one id: their results could not be told apart.

    The same call under the same id was sent twice and is one; another call gets another id.
    """
    taken: set[str] = set()
    sent: set[tuple[str, str, str]] = set()
    distinct: list[Part] = []
    for part in parts:
        if type(part) is ToolCall:
            if part.identity in sent:
                continue
            sent.add(part.identity)
            number, fresh = 1, part.id
            while fresh in taken:
                number, fresh = number + 1, f"{part.id}_{number + 1}"
            taken.add(fresh)
            part = part if fresh == part.id else replace(part, id=fresh)
        distinct.append(part)
    return distinct


def _count(tokens: int) -> int:
    return min(max(tokens, 0), _MOST_TOKENS)


class ReplyContext(msgspec.Struct, frozen=True):
    """What the reader of a reply must know about the call."""

    model: str
    issuer: Issuer
    url: str
    secret: str
    price: Price | None
    names: dict[str, str]
    turn: int
    speaker: Speaker | None = None

    def call(self, name: str, arguments: str, id: str, index: int, opaque: str = "") -> ToolCall:  # noqa: A002
        """A tool call under the tool's own name, with an id in any case."""
        original = self.names.get(name, name)
        # Servers that send no id get one that is the same in a replay: turn and place.
        return ToolCall(original, arguments, id or f"call_{self.turn}_{index}", opaque)

    def check_calls(self, count: int) -> None:
        """Raise `ModelError` for more calls than anybody makes in one reply."""
        if count > _MOST_CALLS:
            raise self.unreadable(f"it holds more than {_MOST_CALLS} tool calls")

    def usage(
        self,
        input_tokens: int,
        output_tokens: int,
        cached: int,
        written: int = 0,
        reasoning: int = 0,
        tier: str = "",
    ) -> Usage:
        """Usage with its cost; `tier` is the service tier that was really used.

        Counts are the provider's word: none is below zero, or too large to be written down.
        """
        taken, output = input_tokens, output_tokens
        if not (
            0 <= cached <= taken <= _MOST_TOKENS
            and 0 <= reasoning <= output <= _MOST_TOKENS
            and 0 <= written <= taken
        ):
            taken, output = _count(input_tokens), _count(output_tokens)
            cached, written = min(_count(cached), taken), min(_count(written), taken)
            reasoning = min(_count(reasoning), output)
        usage = Usage(taken, output, cached, 0.0, written, reasoning)
        if self.price is None:
            return usage
        usd = self.price.cost(usage, tier)
        return replace(usage, usd=usd) if usd else usage

    def reply(
        self, parts: Sequence[Part], usage: Usage, finish: str, notes: Sequence[str] = ()
    ) -> Reply:
        """The finished reply."""
        calls = tuple([part for part in parts if type(part) is ToolCall])
        if len(calls) > 1:
            self.check_calls(len(calls))
            if len({call.id for call in calls}) < len(calls):
                parts = _told_apart(parts)
        whole, finish = _ended(calls, finish)
        if whole and not all([call.arguments for call in calls]):
            parts = [
                replace(part, arguments="{}")
                if type(part) is ToolCall and not part.arguments
                else part
                for part in parts
            ]
        return Reply(
            usage=usage,
            model=self.model,
            finish=finish,
            parts=tuple(parts),
            issuer=self.issuer,
            notes=notes,
        )

    def unreadable(self, why: str) -> ModelError:
        """The error for an answer that is not what the format says."""
        return ModelError(f"{self.model} gave an unreadable answer: {why}", kind="reply")

    def broken_off(self) -> ModelError:
        """The error for a stream that ends before the reply does."""
        return ModelError(
            f"the stream of {self.model} broke off before the reply was complete", kind="network"
        )
