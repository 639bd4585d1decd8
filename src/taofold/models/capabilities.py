"""Capabilities of models (`Abilities`), as rules of vendor, line and version.

New model names need no new release: a version in a rule is a minimum, because vendors keep what
they introduced. A model of a known vendor without a rule gets the rules of the newest. Facts are
the vendors' own of `AS_OF`. Pass `profile=` to override them. This module does not depend on
formats.
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
_NEWEST: Final[Version] = (99, 0)


@dataclass(frozen=True, slots=True)
class Abilities:
    """The capabilities of a model.

    Args:
        window: Context size in tokens, if no price list has it. 0 = unknown.
        inputs: Kinds of media that it accepts. None = unknown.
        efforts: Thinking levels that it accepts, from low to high.
        off: The vendor's value that disables thinking. "" = not possible.
        budget: Thinking has a token budget instead of a level.
        sampling: Accepts temperature and top_p.
        one_sampling: Accepts either temperature or top_p.
        echo: Field of its thinking that must come back with every tool call, even empty.
        signed: Its calls carry signatures that must come back.
        bound: Its reasoning is bound to every byte before it.
        media_results: Accepts media in a tool's result.
        tool_search: Its provider searches deferred tools.
        source: Source of these facts.
    """

    vendor: str = ""
    window: int = 0
    tools: bool = True
    schema: bool = True
    inputs: tuple[str, ...] | None = None
    thinking: Thinking = ""
    efforts: tuple[Effort, ...] = ()
    off: str = ""
    budget: bool = False
    sampling: Sampling = "yes"
    one_sampling: bool = False
    echo: str = ""
    signed: bool = False
    bound: bool = False
    media_results: bool = False
    tool_search: bool = False
    source: str = f"rules of {AS_OF}"

    def profile(self, window: int = 0) -> Profile:
        """Returns the profile of a model. `window` 0 uses the window of the rules."""
        size = window or self.window
        if self.vendor == "openai":
            size = _OPENAI_INPUT.get(size, size)
        return Profile(
            window=size or Profile().window,
            window_known=bool(size),
            native_tools=self.tools,
            json_schema=self.schema,
            inputs=self.inputs,
            thinking=self.thinking,
            prefix_bound=self.bound,
            tool_search=self.tool_search,
        )


_OPENAI_INPUT: Final = {400_000: 272_000, 1_050_000: 922_000}
"""Input tokens by window size. The window also holds 128,000 output tokens (OpenAI, model pages;
litellm `max_input_tokens`).
"""

UNKNOWN: Final = Abilities(
    tools=False, schema=False, source="nobody: 8k tokens and text are assumed"
)
"""Abilities of an unknown model at an unknown server."""


def key_of(model: str) -> str:
    """Returns the part of a model's name that the rules use: no path, no tag, lower case."""
    # A fine-tuned model (`ft:gpt-4.1-mini:org::abc`, `ft:codestral-latest:…`) has its base's rules.
    whole = model.lower()
    if "ft:" in whole and (whole.startswith("ft:") or "/ft:" in whole):
        return whole.partition("ft:")[2].partition(":")[0]
    # `openrouter/…/name:free` and `name:7b` are the model `name`.
    return whole.rpartition("/")[2].partition(":")[0]


_CLAUDE: Final = re.compile(
    r"claude-(?:(?P<line>[a-z]+)-(?P<major>\d{1,2})(?:[-.](?P<minor>\d{1,2}))?(?!\d)"
    r"|(?P<old>\d)(?:[-.](?P<older>\d))?)"
)
_ALWAYS_THINK: Final = ("fable", "mythos")


def claude(model: str) -> Abilities:
    """Returns the abilities of Anthropic's models. Unknown names count as the newest."""
    line, version = _claude_version(model)
    if line in ("opus", "sonnet", "haiku", "old"):
        return _numbered_claude(line, version)
    # Fable, Mythos and future lines always think and accept no sampling.
    bound = not (line in _ALWAYS_THINK and version < (5, 1)) and (line, version) != (
        "mythos",
        (5, 1),
    )
    return replace(_CLAUDE_NEWEST, bound=bound, tool_search=line in _ALWAYS_THINK)


def reads_thinking(reader: str, maker: str) -> bool:
    """Returns True if `reader` accepts thinking that `maker`, at the same endpoint, signed.

    Anthropic, 2026-11-09: only Fable and Mythos from 5.2 on read each other's thinking.
    """
    made, reads = _claude_version(maker), _claude_version(reader)
    if made[0] in _ALWAYS_THINK and made[1] >= (5, 2):
        return reads[0] in _ALWAYS_THINK and reads[1] == made[1]
    return True


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
    inputs=_IMAGES,
    thinking="always",
    efforts=_LOW_TO_MAX,
    sampling="no",
    bound=True,
    media_results=True,
)


def _numbered_claude(line: str, version: Version) -> Abilities:
    # Anthropic, guide "Tool search": Opus and Sonnet from 4.5 on.
    searches = line in ("opus", "sonnet") and version >= (4, 5)
    newest = replace(_CLAUDE_NEWEST, tool_search=searches)
    # From here on each step removes what the next older version lacks.
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
    # Anthropic, "Migrating to Claude 4.5", "Sampling parameters": "Use only `temperature` or
    # `top_p`, not both". Opus 4.1 is the first model that refuses both.
    rules = replace(rules, one_sampling=version >= (4, 1))
    if version >= (4, 6):
        return replace(rules, efforts=("low", "medium", "high", "max"), sampling="yes")
    rules = replace(rules, sampling="not_thinking", budget=True)
    if version >= (4, 5):
        effort = _LOW_TO_HIGH if line == "opus" else ()
        return replace(rules, efforts=effort)
    thinks = version >= (3, 7)
    return replace(
        rules,
        schema=version >= (4, 1),
        efforts=(),
        thinking="opt_in" if thinks else "off",
    )


_GPT: Final = re.compile(
    r"(?:^|[^a-z]|chat)gpt-(?P<major>\d)(?:\.(?P<minor>\d+))?(?P<rest>[a-z-].*)?$"
)
_O_SERIES: Final = re.compile(r"(?:^|[^a-z])o(?P<number>[1-9])(?:-|$)")


def gpt(model: str) -> Abilities:
    """Returns the abilities of OpenAI's models. Unknown names count as the newest."""
    name = key_of(model)
    if name.startswith("gpt-oss"):
        return Abilities("openai", 131_072, inputs=(), thinking="always", efforts=_LOW_TO_HIGH)
    match, o_series = _GPT.search(name), _O_SERIES.search(name)
    if o_series is not None:
        inputs = () if name.startswith(("o1-mini", "o3-mini")) else _IMAGES
        return replace(
            _GPT_NEWEST,
            window=200_000,
            inputs=inputs,
            bound=False,
            efforts=_LOW_TO_HIGH,
        )
    if match is None:
        if name.startswith(("gpt-audio", "gpt-realtime")):
            return _old_gpt((4, 0), "o-audio")
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
    # OpenAI, guide "Tool search": "Only gpt-5.4 and later models support tool_search".
    rules = replace(
        _GPT_NEWEST, efforts=efforts, bound=version >= (6, 0), tool_search=version >= (5, 4)
    )
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
    rules = Abilities("openai", 128_000, inputs=_IMAGES, media_results=True)
    if version >= (5, 0):
        return rules
    if version >= (4, 1):
        return replace(rules, window=1_047_576)
    if rest.startswith("o"):
        return replace(rules, inputs=("audio",)) if "audio" in rest else rules
    if version >= (4, 0):
        window = 128_000 if "turbo" in rest else 8_192
        return replace(rules, window=window, schema=False)
    return replace(rules, window=16_385, schema=False, inputs=())


_GEMINI: Final = re.compile(r"gemini-(?P<major>\d{1,2})(?:\.(?P<minor>\d+))?(?:-(?P<rest>.*))?$")


def gemini(model: str) -> Abilities:
    """Returns the abilities of Google's models. Unknown names count as the newest."""
    match = _GEMINI.search(key_of(model))
    if key_of(model).startswith("gemma"):
        return Abilities("google", 131_072, inputs=("image",), schema=False)
    if any(line in key_of(model) for line in ("omni", "robotics")):
        return replace(_GEMINI_NEWEST, window=131_072)
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
    return replace(rules, thinking="off")


_GEMINI_NEWEST: Final = Abilities(
    "google",
    window=1_000_000,
    inputs=_ALL_MEDIA,
    thinking="always",
    efforts=_LOW_TO_HIGH,
    signed=True,
    media_results=True,
)


_LOW_HIGH_MAX: Final[tuple[Effort, ...]] = ("low", "high", "max")


def _version(name: str, pattern: re.Pattern[str]) -> Version | None:
    """Returns the version in a name as numbers, or None."""
    match = pattern.search(name)
    return None if match is None else (int(match[1]), int(match[2] or 0))


def _version_or_newest(name: str, pattern: re.Pattern[str]) -> Version:
    return _version(name, pattern) or _NEWEST


_DEEPSEEK: Final = re.compile(r"deepseek-[vr](\d+)(?:[.-](\d)(?!\d))?")


def deepseek(model: str) -> Abilities:
    """Returns the abilities of DeepSeek's models.

    They think by default from V4 on, and want the thinking back with every tool call. DeepSeek,
    guide "Thinking mode": levels low, high and max. The Flash line accepts images.
    """
    name = key_of(model)
    version = _version_or_newest(name, _DEEPSEEK)
    sees = any(line in name for line in ("flash", "-vl", "vision", "-ocr"))
    newest = Abilities(
        "deepseek",
        window=128_000,
        schema=False,
        inputs=("image",) if sees else (),
        thinking="default",
        efforts=_LOW_HIGH_MAX,
        off="disabled",
        echo="reasoning_content",
    )
    if name == "deepseek-chat":
        return replace(newest, thinking="opt_in", efforts=())
    if version < (4, 0) or "-r1" in name or name == "deepseek-reasoner":
        return replace(newest, efforts=())
    return newest


_KIMI: Final = re.compile(r"kimi-k(\d+)(?:\.(\d+))?")


def moonshot(model: str) -> Abilities:
    """Returns the abilities of Kimi models.

    Moonshot, guides "Use thinking models" and "Use reasoning effort": K3 always thinks and accepts
    low, high and max. Thinking can be disabled for K2.5 and K2.6.
    """
    name = key_of(model)
    rules = Abilities("moonshotai", 131_072, schema=False, echo="reasoning_content")
    version = _version(name, _KIMI)
    if name.startswith("moonshot") or (version and version < (2, 5)):
        return replace(rules, thinking="always") if "thinking" in name else rules
    rules = replace(rules, inputs=("image",))
    if version in ((2, 5), (2, 6)):
        return replace(rules, thinking="default", off="disabled")
    if version and version < (3, 0):
        return replace(rules, thinking="always")
    return replace(rules, thinking="always", efforts=_LOW_HIGH_MAX)


_GLM: Final = re.compile(r"glm-(\d+)(?:[.-](\d)(?!\d))?")


def zai(model: str) -> Abilities:
    """Returns the abilities of GLM models.

    Z.AI, guide "Thinking mode": GLM-5.3 always thinks and accepts low, high and max. 5.2 accepts
    every level. For the others from 4.5 on thinking is on or off.
    """
    name = key_of(model)
    rules = Abilities("zai", 128_000, schema=False, echo="reasoning_content")
    version = _version_or_newest(name, _GLM)
    if re.search(r"\dv(?:-|$)", name) or (version >= (5, 3) and "flash" in name):
        rules = replace(rules, inputs=("image",))
    if version >= (5, 3):
        return replace(rules, thinking="always", efforts=_LOW_HIGH_MAX)
    if version < (4, 5):
        return rules
    levels: tuple[Effort, ...] = ("minimal", *_LOW_TO_MAX) if version >= (5, 2) else ()
    return replace(rules, thinking="default", off="disabled", efforts=levels)


_GROK: Final = re.compile(r"grok-(\d)(?:[.-](\d{1,2})(?!\d))?")
_AS_GROK_4_3: Final = frozenset(
    {
        *("grok-3", "grok-4", "grok-4-0709", "grok-latest"),
        *("grok-4-fast-reasoning", "grok-4-fast-non-reasoning"),
        *("grok-4-1-fast-reasoning", "grok-4-1-fast-non-reasoning"),
    }
)
"""Retired names and aliases that xAI serves with Grok 4.3 or with its levels."""


def grok(model: str) -> Abilities:
    """Returns the abilities of xAI's models.

    xAI, guides "Reasoning" and "May 15 retirement": 4.3 accepts none to high, 4.5 and 4.6 low to
    high, 4.7 xhigh as well. Grok 4.20 is older than 4.3 and accepts no level.
    """
    name = key_of(model)
    rules = Abilities("xai", 256_000, inputs=("image",))
    version = _version_or_newest(name, _GROK)
    if name.startswith("grok-3-mini"):
        return replace(rules, thinking="default", off="none", efforts=("none", "low", "high"))
    if name in _AS_GROK_4_3 or version == (4, 3):
        efforts: tuple[Effort, ...] = ("none", *_LOW_TO_HIGH)
        return replace(rules, thinking="default", off="none", efforts=efforts)
    if name == "grok-build-latest" or version in ((4, 5), (4, 6)):
        return replace(rules, thinking="always", efforts=_LOW_TO_HIGH)
    other = any(line in name for line in ("code", "build", "voice", "imagine"))
    if other or version < (4, 5) or version[1] == _GROK_4_20:
        return rules
    return replace(rules, thinking="always", efforts=(*_LOW_TO_HIGH, "xhigh"))


_GROK_4_20: Final = 20

_MISTRAL_THINKS: Final = re.compile(
    r"mistral-(?:large-4|small-(?:latest|4|2603)|medium(?:$|-(?:latest|3|3[.-]5|2604)$))"
    r"|magistral-(?:small|medium)-latest"
)


def mistral(model: str) -> Abilities:
    """Returns the abilities of Mistral's models.

    Mistral, guide "Reasoning": Large 4, Medium 3.5 and Small 4 accept none or high.
    """
    name = key_of(model)
    rules = Abilities("mistral", 256_000 if "codestral" in name else 128_000)
    if _MISTRAL_THINKS.match(name):
        return replace(rules, thinking="opt_in", off="none", efforts=("none", "high"))
    return replace(rules, thinking="always") if name.startswith("magistral") else rules


_LLAMA: Final = re.compile(r"llama-?(\d+)(?:\.(\d+))?")
_QWEN: Final = re.compile(r"qwen-?(\d+)(?:\.(\d+))?")


def _open_weights(name: str) -> Abilities | None:
    """Returns the rules of open-weight models with tool calls, or None for other models."""
    llama, qwen = _version(name, _LLAMA), _version(name, _QWEN)
    if llama and llama >= (3, 1) and name.startswith(("llama", "meta-llama")):
        return Abilities(window=1_000_000 if llama[0] == _LLAMA_LONG else 131_072, schema=False)
    if qwen and qwen >= (2, 5) and name.startswith("qwen"):
        # The window is a minimum for all of them. The catalogue has the newest ones.
        return Abilities(window=32_768, schema=False)
    if name.startswith("minimax"):
        return Abilities(window=200_000, schema=False)
    return None


_LLAMA_LONG: Final = 4
_TOOL_HOSTS: Final = frozenset({"cerebras", "groq", "fireworks"})
"""Hosts on which every chat model calls tools natively."""
_TOOL_FAMILIES: Final = re.compile(
    r"(?:nvidia-)?(?:llama-\d[\d.]*-)?nemotron|hermes-[4-9]|granite-[4-9]|command-[ar]|ernie-[5-9]"
    r"|hunyuan|hy-?v?[4-9]|step-?[3-9]|seed-oss|longcat|mimo|ling-|ring-|solar-|arcee|trinity|olmo-[4-9]"
)
_HUBS: Final = frozenset({"together", "openrouter"})
"""Hosts of many models, on which those of `_TOOL_FAMILIES` call tools natively."""

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
"""Providers with their own models: an unknown name is their newest model."""


def rules_for(provider: str, model: str, *, elsewhere: bool = False) -> Abilities:
    """Returns the abilities of `model` at `provider`, or `UNKNOWN`.

    Args:
        provider: The provider's name.
        model: The model's name there.
        elsewhere: True for another server with the provider's format. Unknown names there are not
            the provider's newest model.
    """
    name = key_of(model)
    # Bedrock adds a region and the vendor: `us.anthropic.claude-…`.
    bare = name[name.index("claude") :] if "claude" in name else name
    for begins, rules in _LINES:
        if bare.startswith(begins) and _whole(bare, begins):
            return rules(model)
    if weights := _open_weights(name):
        return weights
    if provider in _TOOL_HOSTS or (provider in _HUBS and _TOOL_FAMILIES.match(name)):
        host = f"{provider} calls tools natively; the window is assumed"
        return replace(UNKNOWN, tools=True, source=host)
    vendor = _VENDORS.get(provider)
    if vendor is None:
        return UNKNOWN
    if elsewhere:
        return replace(UNKNOWN, tools=True)
    return replace(vendor(model), source=f"{model!r} is not known: {provider}'s newest rules")


def _whole(name: str, begins: str) -> bool:
    """Returns True if `begins` is a whole word of the name, as in `o1`."""
    rest = name[len(begins) :]
    return begins[0] != "o" or not rest or not rest[0].isalnum()
