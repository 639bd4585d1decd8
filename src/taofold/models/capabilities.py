"""What each model can do (`Abilities`), as rules of vendor, line and version: new names need no new
release.

A version is a floor, never a list: what a vendor began to enforce it goes on enforcing. A model of
a known vendor that no rule has seen is taken for its newest. Facts are the vendors' own of `AS_OF`;
pass `profile=` where you know better. It knows nothing about formats.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from taofold.core.values import Effort, Profile, Thinking

AS_OF: Final = "2026-11-22"

Version: TypeAlias = tuple[int, int]
Sampling = Literal["yes", "not_thinking", "no"]

_IMAGES: Final = ("image", "document")
_ALL_MEDIA: Final = ("image", "document", "audio", "video")
_LOW_TO_HIGH: Final[tuple[Effort, ...]] = ("low", "medium", "high")
_LOW_TO_MAX: Final[tuple[Effort, ...]] = ("low", "medium", "high", "xhigh", "max")
_NEWEST: Final = (99, 0)


@dataclass(frozen=True, slots=True)
class Abilities:
    """What holds for a model.

    Args:
        window: tokens of context, if no price list knows better; 0 = unknown.
        inputs: the kinds of media it takes; None = unknown.
        efforts: levels of thinking that it takes, from low to high.
        off: how it is told not to think: a value of its vendor's; "" = it cannot be stopped.
        budget: its thinking is bounded by tokens, not asked for by level.
        sampling: does it take temperature and top_p?
        echo: the field of its thinking that must come back with every tool call, even empty.
        signed: its calls carry signatures that must come back with them.
        bound: its reasoning is bound to every byte before it.
        media_results: may a tool's result hold media?
        source: where these facts come from.
    """

    vendor: str = ""
    window: int = 0
    max_output: int = 0
    tools: bool = True
    schema: bool = True
    inputs: tuple[str, ...] | None = None
    thinking: Thinking = ""
    efforts: tuple[Effort, ...] = ()
    off: str = ""
    budget: bool = False
    sampling: Sampling = "yes"
    echo: str = ""
    signed: bool = False
    bound: bool = False
    media_results: bool = False
    source: str = f"rules of {AS_OF}"

    def profile(self, window: int = 0) -> Profile:
        """The profile of a model with `window` tokens of context (0 = as the rules say)."""
        size = window or self.window
        return Profile(
            window=size or Profile().window,
            window_known=bool(size),
            native_tools=self.tools,
            json_schema=self.schema,
            inputs=self.inputs,
            thinking=self.thinking,
            prefix_bound=self.bound,
        )


UNKNOWN: Final = Abilities(
    tools=False, schema=False, source="nobody: 8k tokens and text are assumed"
)
"""Of a model of which nothing is known, at a server of which nothing is known."""


def key_of(model: str) -> str:
    """The part of a model's name that rules read: no path, no tag, lower case."""
    # `openrouter/…/name:free` and `name:7b` are the model `name`.
    return model.lower().rpartition("/")[2].partition(":")[0]


# --- Anthropic -----------------------------------------------------------------------------------

_CLAUDE: Final = re.compile(
    r"claude-(?:(?P<line>[a-z]+)-(?P<major>\d{1,2})(?:[-.](?P<minor>\d{1,2}))?(?!\d)"
    r"|(?P<old>\d)(?:[-.](?P<older>\d))?)"
)
_ALWAYS_THINK: Final = ("fable", "mythos")


def claude(model: str) -> Abilities:
    """Anthropic's models. A line or version that is not known is taken for the newest."""
    line, version = _claude_version(model)
    if line in ("opus", "sonnet", "haiku", "old"):
        return _numbered_claude(line, version)
    # Fable, Mythos, and lines to come: they always think, and take no sampling.
    bound = not (line in _ALWAYS_THINK and version < (5, 1)) and (line, version) != (
        "mythos",
        (5, 1),
    )
    return replace(_CLAUDE_NEWEST, bound=bound)


def _claude_version(model: str) -> tuple[str, Version]:
    match = _CLAUDE.search(model.lower())
    if match is None:
        return "", _NEWEST
    if match["line"]:
        return match["line"], (int(match["major"]), int(match["minor"] or 0))
    return "old", (int(match["old"]), int(match["older"] or 0))


_CLAUDE_NEWEST: Final = Abilities(
    "anthropic",
    window=200_000,
    max_output=128_000,
    inputs=_IMAGES,
    thinking="always",
    efforts=_LOW_TO_MAX,
    sampling="no",
    bound=True,
    media_results=True,
)


def _numbered_claude(line: str, version: Version) -> Abilities:
    newest = _CLAUDE_NEWEST
    # From here on downwards each step takes away what the next older version does not have.
    if version >= (5, 5):
        if line == "haiku" and version == (5, 5):
            return replace(newest, thinking="default", off="disabled")
        if line == "sonnet" and version == (5, 5):
            return replace(newest, thinking="default", off="between_tools")
        return newest
    if version >= (5, 0):
        return replace(newest, thinking="default", off="disabled", bound=False)
    rules = replace(newest, thinking="opt_in", off="disabled", bound=False)
    if version >= (4, 7):
        return rules
    if version >= (4, 6):
        return replace(rules, efforts=("low", "medium", "high", "max"), sampling="yes")
    rules = replace(rules, sampling="not_thinking", budget=True, max_output=32_000)
    if version >= (4, 5):
        effort = _LOW_TO_HIGH if line == "opus" else ()
        return replace(rules, efforts=effort, max_output=64_000)
    thinks = version >= (3, 7)
    return replace(
        rules,
        schema=version >= (4, 1),
        efforts=(),
        thinking="opt_in" if thinks else "off",
        max_output=32_000 if version >= (4, 0) else 8_192,
    )


# --- OpenAI --------------------------------------------------------------------------------------

_GPT: Final = re.compile(r"(?:^|[^a-z])gpt-(?P<major>\d)(?:\.(?P<minor>\d+))?(?P<rest>[a-z-].*)?$")
_O_SERIES: Final = re.compile(r"(?:^|[^a-z])o(?P<number>[1-9])(?:-|$)")


def gpt(model: str) -> Abilities:
    """OpenAI's models. A name that is not known is taken for the newest."""
    name = key_of(model)
    if name.startswith("gpt-oss"):
        return Abilities("openai", 131_072, inputs=(), thinking="always", efforts=_LOW_TO_HIGH)
    match, o_series = _GPT.search(name), _O_SERIES.search(name)
    if o_series is not None:
        inputs = () if name.startswith(("o1-mini", "o3-mini")) else _IMAGES
        return replace(
            _GPT_NEWEST,
            window=200_000,
            max_output=100_000,
            inputs=inputs,
            bound=False,
            efforts=_LOW_TO_HIGH,
        )
    if match is None:
        return _GPT_NEWEST
    version = int(match["major"]), int(match["minor"] or 0)
    rest = match["rest"] or ""
    # `gpt-5-chat` does not think.
    if version < (5, 0) or "chat" in rest:
        return _old_gpt(version, rest)
    return _thinking_gpt(version, rest)


_GPT_NEWEST: Final = Abilities(
    "openai",
    window=400_000,
    max_output=128_000,
    inputs=_IMAGES,
    thinking="always",
    efforts=_LOW_TO_MAX,
    sampling="no",
    bound=True,
    media_results=True,
)


def _thinking_gpt(version: Version, rest: str) -> Abilities:
    pro = "-pro" in rest
    never_off = pro or version >= (6, 1) or (version >= (6, 0) and "astra" in rest)
    efforts: tuple[Effort, ...] = _LOW_TO_HIGH
    if version >= (5, 6):
        efforts = _LOW_TO_MAX
    elif version >= (5, 2):
        efforts = ("low", "medium", "high", "xhigh")
    elif version < (5, 1):
        efforts = ("minimal", "low", "medium", "high")
    rules = replace(_GPT_NEWEST, efforts=efforts, bound=version >= (6, 0))
    if never_off or version < (5, 1):
        return rules
    thinking: Thinking = "default" if version >= (5, 5) else "opt_in"
    return replace(
        rules,
        efforts=("none", *efforts),
        thinking=thinking,
        off="none",
        sampling="not_thinking",
    )


def _old_gpt(version: Version, rest: str) -> Abilities:
    rules = Abilities("openai", 128_000, 16_384, inputs=_IMAGES, media_results=True)
    if version >= (5, 0):
        return rules
    if version >= (4, 1):
        return replace(rules, window=1_047_576, max_output=32_768)
    if rest.startswith("o"):
        return replace(rules, inputs=("audio",)) if "audio" in rest else rules
    if version >= (4, 0):
        window = 128_000 if "turbo" in rest else 8_192
        return replace(rules, window=window, max_output=4_096, schema=False)
    return replace(rules, window=16_385, max_output=4_096, schema=False, inputs=())


# --- Google --------------------------------------------------------------------------------------

_GEMINI: Final = re.compile(r"gemini-(?P<major>\d{1,2})(?:\.(?P<minor>\d+))?(?:-(?P<rest>.*))?$")


def gemini(model: str) -> Abilities:
    """Google's models. A name that is not known is taken for the newest."""
    match = _GEMINI.search(key_of(model))
    if key_of(model).startswith("gemma"):
        return Abilities("google", 131_072, inputs=("image",), schema=False)
    if match is None:
        return _GEMINI_NEWEST
    version, rest = (int(match["major"]), int(match["minor"] or 0)), match["rest"] or ""
    if version >= (3, 0):
        minimal = version < (3, 7) and "pro" not in rest
        levels: tuple[Effort, ...] = ("minimal", *_LOW_TO_HIGH) if minimal else _LOW_TO_HIGH
        return replace(_GEMINI_NEWEST, efforts=levels)
    rules = replace(_GEMINI_NEWEST, efforts=(), signed=False, media_results=False)
    if version >= (2, 5):
        off = "" if "pro" in rest else "0"
        return replace(rules, thinking="default", budget=True, off=off)
    return replace(rules, thinking="off", max_output=8_192)


_GEMINI_NEWEST: Final = Abilities(
    "google",
    window=1_000_000,
    max_output=65_536,
    inputs=_ALL_MEDIA,
    thinking="always",
    efforts=_LOW_TO_HIGH,
    signed=True,
    media_results=True,
)


# --- the others ----------------------------------------------------------------------------------


def deepseek(model: str) -> Abilities:
    """DeepSeek's models: thinking by default from V4 on, echoed with every tool call."""
    newest = Abilities(
        "deepseek",
        window=128_000,
        schema=False,
        inputs=(),
        thinking="default",
        off="disabled",
        echo="reasoning_content",
    )
    if key_of(model) == "deepseek-chat":
        return replace(newest, thinking="opt_in")
    return newest


def moonshot(model: str) -> Abilities:
    """Kimi."""
    return Abilities("moonshotai", 131_072, schema=False, echo="reasoning_content")


def zai(model: str) -> Abilities:
    """GLM."""
    return Abilities("zai", 128_000, schema=False, echo="reasoning_content")


def grok(model: str) -> Abilities:
    """XAI's models."""
    return Abilities("xai", 256_000, inputs=("image",))


def mistral(model: str) -> Abilities:
    """Mistral's models."""
    return Abilities("mistral", 256_000 if "codestral" in model.lower() else 128_000)


_OPEN: Final = (
    ("llama-3.3", 131_072),
    ("llama-3.1", 131_072),
    ("llama3.1", 131_072),
    ("llama3.2", 131_072),
    ("llama3.3", 131_072),
    ("llama-4", 1_000_000),
    ("qwen2.5", 32_768),
    ("qwen3", 32_768),
    ("minimax", 200_000),
)
"""Open weights that call tools, and their windows."""

_LINES: Final[tuple[tuple[str, Callable[[str], Abilities]], ...]] = (
    ("claude", claude),
    ("gpt-oss", gpt),
    ("gpt-", gpt),
    ("chatgpt", gpt),
    ("o1", gpt),
    ("o3", gpt),
    ("o4", gpt),
    ("gemini", gemini),
    ("gemma", gemini),
    ("deepseek", deepseek),
    ("kimi", moonshot),
    ("glm", zai),
    ("grok", grok),
    ("mistral", mistral),
    ("ministral", mistral),
    ("magistral", mistral),
    ("codestral", mistral),
    ("devstral", mistral),
)

_VENDORS: Final[dict[str, Callable[[str], Abilities]]] = {
    "openai": gpt,
    "azure": gpt,
    "anthropic": claude,
    "bedrock": claude,
    "vertex-anthropic": claude,
    "gemini": gemini,
    "vertex": gemini,
    "deepseek": deepseek,
    "moonshot": moonshot,
    "zai": zai,
    "xai": grok,
    "mistral": mistral,
}
"""Providers that serve their own models: what they serve and nobody knows is their newest."""


def rules_for(provider: str, model: str, *, elsewhere: bool = False) -> Abilities:
    """What holds for `model` at `provider`; `UNKNOWN` if neither is known.

    `elsewhere`: at another server that speaks the provider's format. What is served there under a
    name that nobody knows is not the provider's newest.
    """
    name = key_of(model)
    # Bedrock puts a region and the vendor in front: `us.anthropic.claude-…`.
    bare = name[name.index("claude") :] if "claude" in name else name
    for begins, rules in _LINES:
        if bare.startswith(begins) and _whole(bare, begins):
            return rules(model)
    for begins, window in _OPEN:
        if name.startswith(begins):
            return Abilities(window=window, schema=False)
    vendor = _VENDORS.get(provider)
    if vendor is None:
        return UNKNOWN
    if elsewhere:
        return replace(UNKNOWN, tools=True)
    return replace(vendor(model), source=f"{model!r} is not known: {provider}'s newest rules")


def _whole(name: str, begins: str) -> bool:
    """`o1` is the name's first word, not a piece of one."""
    rest = name[len(begins) :]
    return begins[0] != "o" or not rest or not rest[0].isalnum()
