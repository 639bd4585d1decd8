"""What known models can do: a dated table. A model that is not in it gets cautious defaults.

Windows and abilities as the vendors published them up to `AS_OF`; they change without
notice: check before you rely on one, and pass `profile=` where you know better.
"""

from typing import Final

from taofold.core.values import Profile

AS_OF: Final = "2026-01"

UNKNOWN: Final = Profile()
"""8k tokens (with a warning elsewhere), text only: what any model can do."""


def _full(window: int) -> Profile:
    return Profile(window=window, window_known=True, native_tools=True, json_schema=True)


def _tools(window: int) -> Profile:
    return Profile(window=window, window_known=True, native_tools=True)


def _text(window: int) -> Profile:
    return Profile(window=window, window_known=True)


PROFILES: Final[dict[str, Profile]] = {
    "gpt-5": _full(400_000),
    "gpt-5-chat": _full(128_000),
    "gpt-4.1": _full(1_047_576),
    "gpt-4o": _full(128_000),
    "gpt-4-turbo": _tools(128_000),
    "gpt-4": _tools(8_192),
    "gpt-3.5-turbo": _tools(16_385),
    "o1": _full(200_000),
    "o1-mini": _text(128_000),
    "o3": _full(200_000),
    "o4-mini": _full(200_000),
    "gpt-oss": _full(131_072),
    "claude-opus-4": _tools(200_000),
    "claude-opus-4-5": _full(200_000),
    "claude-opus-4-1": _full(200_000),
    "claude-sonnet-4": _tools(200_000),
    "claude-sonnet-4-5": _full(200_000),
    "claude-haiku-4-5": _full(200_000),
    "claude-3-7-sonnet": _tools(200_000),
    "claude-3-5-sonnet": _tools(200_000),
    "claude-3-5-haiku": _tools(200_000),
    "claude-3": _tools(200_000),
    "gemini-3": _full(1_048_576),
    "gemini-2.5": _full(1_048_576),
    "gemini-2.0": _full(1_048_576),
    "deepseek-chat": _tools(128_000),
    "deepseek-reasoner": _tools(128_000),
    "mistral-large": _full(128_000),
    "mistral-small": _full(128_000),
    "codestral": _full(256_000),
    "grok-4": _full(256_000),
    "llama-3.3-70b": _tools(131_072),
    "llama-3.1": _tools(131_072),
    "llama3.1": _tools(131_072),
    "llama3.2": _tools(131_072),
    "llama3.3": _tools(131_072),
    "qwen2.5": _tools(32_768),
    "qwen3": _tools(32_768),
    "kimi-k2": _tools(131_072),
}


def key_of(model: str) -> str:
    """The part of a model's name that tables use: no vendor, no tag, lower case."""
    return model.lower().rpartition("/")[2].partition(":")[0]


def longest(names: dict[str, Profile] | dict[str, tuple[float, float, float]], model: str) -> str:
    """The longest of `names` that `model` is, or is a variant of ("" if none).

    A variant continues with a date, a number or a word after `-`, `.`, `@` or `_`.
    """
    key = key_of(model)
    fitting = [
        name for name in names if key == name or (key.startswith(name) and key[len(name)] in "-.@_")
    ]
    return max(fitting, key=len, default="")


def profile_of(model: str) -> Profile:
    """The profile of `model`, `UNKNOWN` if it is not in the table."""
    return PROFILES.get(longest(PROFILES, model), UNKNOWN)
