"""A model's reply: its parts, its finish reason, and the `Usage` that it cost.

`finish_of` maps a provider's finish reason to one of the values here; `models` reads the provider's
bytes. Usages add up, over calls and over child runs. Pure.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from taofold.core.content import (
    Content,
    Issuer,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    calls_of,
    content_of,
    parts_of,
    text_of,
    thoughts,
)
from taofold.core.json_values import Value

Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
"""A non-negative integer, checked when decoded."""


class Usage(Value, frozen=True):
    """The tokens and US dollars that model calls consumed. Usages add up.

    Decoded values must be 0 or more: a negative value would lift the limits of the run.

    Attributes:
        input_tokens: Includes `cached_tokens` and `written_tokens`.
        output_tokens: Includes `reasoning_tokens`.
        cached_tokens: Input tokens read from the provider's cache.
        usd: Cost in US dollars; None if the price of some tokens is unknown.
        written_tokens: Input tokens written to the provider's cache.
        reasoning_tokens: Output tokens of reasoning.

    Example:
        ```python
        from taofold import Usage

        total = Usage(100, 20, usd=0.01) + Usage(50, 5, usd=0.02)
        print(total.tokens)  # 175
        ```
    """

    input_tokens: Count = 0
    output_tokens: Count = 0
    cached_tokens: Count = 0
    usd: Annotated[float, msgspec.Meta(ge=0)] | None = 0.0
    written_tokens: Count = 0
    reasoning_tokens: Count = 0

    @property
    def tokens(self) -> int:
        """Input plus output tokens."""
        return self.input_tokens + self.output_tokens

    @property
    def priced_usd(self) -> float:
        """US dollars; 0.0 where a price is unknown.

        Used to apply limits: a limit in dollars is rejected if a price is unknown.
        """
        return self.usd or 0.0

    @property
    def shown_usd(self) -> float | None:
        """US dollars rounded to 9 places: prices are quoted per million tokens."""
        return None if self.usd is None else round(self.usd, 9)

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
            None if self.usd is None or other.usd is None else self.usd + other.usd,
            self.written_tokens + other.written_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )


Finish = Literal[
    "",
    "stop",
    "length",
    "tool_calls",
    "refusal",
    "pause",
    "overflow",
    "content_filter",
    "malformed",
    "error",
]
"""The finish reason of a reply; "" = unknown.

`pause`: ask again with the reply appended. `refusal`: the provider refuses to answer this request.
`overflow`: the conversation does not fit the window. `malformed`: the provider could not parse its
own model's call; asking again may help. `error`: the provider failed while it replied, or gave no
reply (only for tolerant callers).
"""
_FINISHES: Final[Mapping[str, Finish]] = {
    "stop": "stop",
    "end_turn": "stop",
    "stop_sequence": "stop",
    "eos": "stop",
    "load": "stop",
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "token_limit": "length",
    "model_context_window_exceeded": "overflow",
    "overflow": "overflow",
    "tool_calls": "tool_calls",
    "tool_use": "tool_calls",
    "function_call": "tool_calls",
    "content_filter": "content_filter",
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
    "safety": "content_filter",
    "refusal": "refusal",
    "pause": "pause",
    "pause_turn": "pause",
    "malformed": "malformed",
    "malformed_tool_use": "malformed",
    "malformed_model_output": "malformed",
    "error": "error",
    "abort": "error",
    "insufficient_system_resource": "error",
}


def finish_of(reason: str | None) -> Finish:
    """Returns the finish reason for a provider's term; "" if unknown."""
    return _FINISHES.get((reason or "").lower(), "")


_NAMESPACE: Final = re.compile(r"\A(?:functions|default_api|tools)\.")
_TEMPLATE_TOKEN: Final = re.compile(r"<\|.*", re.DOTALL)
_CALL_NUMBER: Final = re.compile(r":\d{1,4}\Z")


def bare_tool_name(name: str) -> str:
    """Returns a tool's name without additions from a server's template.

    OpenAI's open models get tools in the namespace `functions`, Gemini in `default_api`. Servers
    that parse their templates pass this through (`functions.add`), or the token after the name
    (`add<|channel|>commentary`, vllm-project/vllm issue 32587), or the call's number
    (`functions.add:0`).
    """
    bare = _TEMPLATE_TOKEN.sub("", name).strip()
    return _CALL_NUMBER.sub("", _NAMESPACE.sub("", bare, count=1))


def is_cut(reason: str | None) -> bool:
    """Returns whether a provider's finish reason means that the output limit cut the text."""
    return finish_of(reason) == "length"


@dataclass(frozen=True, slots=True, init=False)
class Reply:
    """A model's reply, built from `text`, `calls` and `reasoning`, or from `parts` in order.

    `notes` are the provider's remarks about the request (reasoning it dropped, and why). `found`
    are the names of tools that a search of the provider has found.

        Reply("42")
        Reply("I look.", (ToolCall("read", '{"path": "a.txt"}', "c1"),), finish="tool_calls")
    """

    parts: tuple[Part, ...]
    usage: Usage
    model: str
    finish: str
    issuer: Issuer | None
    notes: tuple[str, ...]
    found: tuple[str, ...]
    text: str = field(init=False, repr=False, compare=False)
    """The text, without thinking and calls."""
    calls: tuple[ToolCall, ...] = field(init=False, repr=False, compare=False)
    """The tool calls, in order."""

    def __init__(
        self,
        text: str = "",
        calls: Sequence[ToolCall] = (),
        usage: Usage = Usage(),
        model: str = "",
        finish: str = "",
        reasoning: str = "",
        *,
        parts: Content | None = None,
        issuer: Issuer | None = None,
        notes: Sequence[str] = (),
        found: Sequence[str] = (),
    ) -> None:
        if parts is None:
            calls = tuple(calls)
            whole: list[Part] = [ThinkingPart(reasoning)] if reasoning else []
            if text:
                whole.append(TextPart(text))
            parts = (*whole, *calls)
        elif text or calls or reasoning:
            raise TypeError("a reply has either parts or text, calls and reasoning")
        else:
            parts = parts_of(parts)
            text, calls = text_of(parts), calls_of(parts)

        # The class is frozen, so its own __init__ must set fields through object.__setattr__.
        put = object.__setattr__
        put(self, "parts", parts)
        # Cached: a step reads both about six times.
        put(self, "text", text)
        put(self, "calls", calls)
        put(self, "usage", usage)
        put(self, "model", model)
        put(self, "finish", finish)
        put(self, "issuer", issuer)
        put(self, "notes", tuple(notes))
        put(self, "found", tuple(found))

    @property
    def reasoning(self) -> str:
        """The readable thinking."""
        return thoughts(self.parts)

    @property
    def content(self) -> Content:
        """The parts in their shortest form."""
        return content_of(self.parts)

    def kept(self, text: str) -> Content:
        """Returns the content with `text` in place of the reply's own text."""
        if text == self.text:
            return self.content
        parts: list[Part] = [part for part in self.parts if type(part) is not TextPart]
        if not text:
            return content_of(parts)
        # The new text takes the place of the first one: after the thinking that preceded it.
        places = [index for index, part in enumerate(self.parts) if type(part) is TextPart]
        # A reply without text gets it before the calls, the usual order.
        parts.insert(places[0] if places else len(parts) - len(self.calls), TextPart(text))
        return content_of(parts)
