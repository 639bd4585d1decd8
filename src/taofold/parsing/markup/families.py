"""The marks for reasoning and calls of each model family, and the patterns of tags and heads.

All knowledge about marks is derived from this table: the text that the scanner skips, the begin and
end of calls, the look of a broken call, and marks that no answer may contain. To add a family, add
a row here and a text in `tests/parsing/calls.py`. Knows nothing about the values of arguments.

A mark is a literal. A literal tag such as `<tool_call>` also matches its spellings with a namespace
(`<seed:tool_call>`, `<ifm|tool_call>`, `<｜DSML｜tool_call>`), with a suffix (`<tool_call:x>`),
after a separator token (`]<]minimax[>[<tool_call>`) and in special tokens
(`<|open|>tool_call<|sep|>`). `▁` also matches `_`. A mark that starts with `re:` is a pattern whose
first character is a literal.

A text of 1 MB may hold half a million `<`, and each pattern looks at all of them. So every pattern
here is a choice between literal first characters: `re` then skips to the next of these in C and
tries only the patterns for that character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, Literal

from taofold.core.late_patterns import late

Role = Literal["reasoning", "call", "separator", "noise", "foreign", "head"]
Pair = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Family:
    """The marks of one family.

    Attributes:
        reasoning: The marks that open and close reasoning. An empty opening mark means that the
            prompt opened it.
        calls: The marks that open and close a block of calls. Blocks may be nested. A block without
            a closing mark ends where its calls end.
        separators: The marks between the name of a tool and its arguments, or between calls.
        separated: True if a separator always stands between the name and the arguments.
        listed: True if calls in JSON or in Python's notation always stand in one list.
        noise: Marks without content: the heads and ends of messages, the envelope of an answer.
        ends: Marks that end the whole reply. They have no content, but text after them is another
            reply.
        foreign: Marks after which the text is written in another role.
        template: Marks that only a chat template writes. No reply contains them.
    """

    name: str
    reasoning: tuple[Pair, ...] = ()
    calls: tuple[Pair, ...] = ()
    separators: tuple[str, ...] = ()
    separated: bool = False
    listed: bool = False
    noise: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    template: tuple[str, ...] = ()

    @property
    def marks(self) -> tuple[str, ...]:
        """All marks of the family that a tokenizer may know, without patterns."""
        pairs = [mark for pair in (*self.reasoning, *self.calls) for mark in pair]
        others = (*self.separators, *self.noise, *self.ends, *self.foreign)
        literals = [m for m in (*pairs, *others) if len(m) > 1 and not m.startswith(("re:", "`"))]
        return (*literals, *self.template)


def _tags(*names: str) -> tuple[Pair, ...]:
    return tuple((f"<{name}>", f"</{name}>") for name in names)


# Formatted manually: the marks of a row stand side by side.
FAMILIES: Final = (
    Family(
        "common",
        reasoning=_tags("think", "thinking", "thought", "reasoning", "reflection", "scratchpad",
                        "analysis", "longcat_think"),
        calls=(*_tags("tool_call", "tool_calls", "function_call", "function_calls",
                      "longcat_tool_call", "dots_function_call"),
               ("re:```(?:tool_code|tool_calls?)[ \\t]*\\n", "```")),
        noise=("<response>", "</response>", "<answer>", "</answer>", "</assistant>",
               "<|im_start|>assistant", "<|begin_assistant|>", "<|endofmessage|>",
               "<|end_of_role|>", "<|role_end|>", "<|message_sep|>", "<|end_of_msg|>"),
        ends=("<|im_end|>", "<|endoftext|>", "</s>", "<|end_of_text|>", "<|eot|>", "<eos>",
              "[EOS]", "[|endofturn|]"),
        foreign=("<tool_response>", "<function_result>", "<function_results>",
                 "<|im_start|>user", "<|im_start|>tool", "<|im_start|>system"),
        template=("<s>", "<bos>", "<pad>", "<unk>", "<human>", "<role>", "re:<extra_id_\\d+>",
                  "re:</?_?(?:system|user|assistant)>", "[INST]", "[/INST]", "<<SYS>>", "<</SYS>>"),
    ),
    Family("llama", calls=(("<|python_tag|>", ""), ("<|python_start|>", "<|python_end|>")),
           noise=("<|start_header_id|>assistant<|end_header_id|>", "<|eom_id|>", "<|eom|>"),
           ends=("<|eot_id|>",),
           foreign=("<|start_header_id|>user", "<|start_header_id|>tool",
                    "<|start_header_id|>ipython")),
    Family("mistral", reasoning=(("[THINK]", "[/THINK]"),),
           calls=(("[TOOL_CALLS]", ""),), listed=True,
           noise=("[/TOOL_CALLS]",), foreign=("[TOOL_RESULTS]",),
           separators=("[ARGS]", "re:\\[CALL_ID\\][\\w-]*"),
           template=("re:\\[/?(?:SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CONTENT)\\]",
                     "[CALL_ID]", "re:\\[/?MODEL_SETTINGS\\]", "[BOS]")),
    Family("deepseek",
           calls=(("<｜DSML｜ calls>", "</｜DSML｜ calls>"),
                  ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),
                  ("<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>")),
           separators=("<｜tool▁sep｜>",), separated=True,
           noise=("<｜Assistant｜>",), ends=("<｜end▁of▁sentence｜>",),
           foreign=("<｜tool▁output▁begin｜>", "<｜tool▁outputs▁begin｜>")),
    Family("kimi",
           reasoning=(("◁think▷", "◁/think▷"),),
           calls=(("<|open|>tools<|sep|>", "<|close|>tools<|sep|>"),
                  ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),
                  ("<|tool_call_section_begin|>", "<|tool_call_section_end|>"),
                  ("<|tool_call_begin|>", "<|tool_call_end|>")),
           separators=("<|tool_call_argument_begin|>",), separated=True,
           noise=("<|open|>response<|sep|>", "<|close|>response<|sep|>",
                  "<|open|>message<|sep|>", "<|close|>message<|sep|>"),
           foreign=("re:#(?<![^\\n]#)# Return of (?=functions\\.)",)),
    Family("harmony", noise=("<|call|>", "<|end|>", "<|start|>assistant"), ends=("<|return|>",),
           foreign=("<|start|>functions.",)),
    Family("gemma",
           reasoning=(("re:<\\|channel>(?:thought|analysis)?", "<channel|>"),),
           calls=(("<|tool_call>", "<tool_call|>"),
                  ("<start_function_call>", "<end_function_call>"),
                  ("re:call:(?<![^>\\s]call:)(?=[A-Za-z_][\\w.-]*[ ]*\\{)", "")),
           noise=("<|turn>model", "<start_of_turn>model", "<start_function_response>",
                  "<|tool_response>"),
           ends=("<end_of_turn>", "<turn|>"),
           foreign=("<|tool_response>", "<start_of_turn>user", "<|turn>user"),
           template=("re:<(?:start|end)_of_[a-z]+>", "re:<(?:start|end)_function_[a-z]+>")),
    Family("cohere",
           reasoning=(("<|START_THINKING|>", "<|END_THINKING|>"),),
           calls=(("<|START_ACTION|>", "<|END_ACTION|>"),),
           noise=("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>",
                  "<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"),
           ends=("<|END_OF_TURN_TOKEN|>",)),
    Family("granite", calls=(("<|tool_call|>", "<|/tool_call|>"), ("<|tool_calls|>", "")),
           listed=True),
    Family("nemotron", calls=_tags("TOOLCALL"), listed=True),
    Family("phi", calls=(("re:functools(?=\\s*\\[)", ""),)),
    Family("internlm", calls=(("<|action_start|>", "<|action_end|>"),),
           separators=("<|plugin|>", "<|interpreter|>")),
    Family("lfm", calls=(("<|tool_call_start|>", "<|tool_call_end|>"),), listed=True),
    Family("apriel", reasoning=(("", "[BEGIN FINAL RESPONSE]"),), noise=("[END FINAL RESPONSE]",)),
    Family("apertus", reasoning=(("<|inner_prefix|>", "<|inner_suffix|>"),),
           calls=(("<|tools_prefix|>", "<|tools_suffix|>"),),
           noise=("<|assistant_end|>", "<|assistant_start|>")),
    Family("gigachat", calls=(("<|function_call|>", ""), ("re:function call(?=\\s*\\{)", ""))),
    Family("functionary",
           calls=(("re:>>>(?<![^\\n}]>>>)(?=[\\w.-]+\\n\\s*\\{)", ""),
                  ("re:<\\|recipient\\|>(?=\\s*(?!all\\b)[\\w.-]+\\s*<\\|content\\|>)", "")),
           separators=("<|content|>",),
           noise=("<|from|>assistant", "<|stop|>",
                  "re:<\\|recipient\\|>\\s*all\\s*<\\|content\\|>")),
    Family("qwen's history", calls=(("[Calling tool:", "]"), ("[Calling tool=", "]"))),
    Family("inkling", reasoning=(("<|content_thinking|>", "<|end_message|>"),),
           calls=(("re:<\\|(?:message_model\\|>[\\w.-]*<\\|)?content_invoke_tool_json\\|>",
                   "<|end_message|>"),),
           noise=("<|message_model|>", "<|content_text|>", "<|end_message|>",
                  "<|content_model_end_sampling|>")),
    Family("glm", noise=("<|begin_of_box|>", "<|end_of_box|>", "<|user|>", "<|observation|>"),
           foreign=("re:<\\|(?:observation|user)\\|>(?=\\s*\\S)",),
           template=("[gMASK]", "<sop>", "<eop>")),
    Family("minimax", template=("re:\\]~[a-z]\\]", "[e~[")),
    Family("hunyuan", calls=(("<tool_call>", "<end_of_tool_call>"),),
           separators=("<tool_sep>",), ends=("re:<｜hy_eos(?::[^\\s<>]{1,24})?｜>",)),
    Family("solar", reasoning=(("<|think|>", "<|end|>"),),
           calls=(("re:<\\|tool_call:begin\\|>[\\w-]{0,64}<\\|tool_call:name\\|>",
                   "<|tool_call:end|>"),),
           separators=("<|tool_call:args|>",), separated=True, ends=("<|calls|>",)),
    Family("solar open 2", reasoning=(("<|think:start|>", "<|think:end|>"),),
           calls=(("<|tool_call:start|>", "<|tool_call:end|>"),),
           noise=("<|im:start|>assistant", "<|im:content|>"), ends=("<|im:end|>",),
           foreign=("<|tool_response:start|>",)),
    Family("vibethinker", calls=(("<function>", "</function>"),)),
    Family("qwen coder 2.5", calls=(("<tools>", "</tools>"),)),
)  # fmt: skip
"""The rows. A family whose marks are all in another row has no row."""

_SPACE = r"<\]\w{1,12}\[>\[<"
"""A separator token before a tag, without its first character."""
_BEGIN = rf"(?:<|\]{_SPACE})"
_PREFIX = r"[A-Za-z]\w{0,11}+[:|]|[｜‖|]{1,2}DSML[｜‖|]{1,2}[ ]?"
_OPENED = rf"(?:\|open\|>|{_PREFIX})?"
_CLOSED = rf"(?:\|close\|>|/(?:{_PREFIX})?)"
_OPEN = _BEGIN + _OPENED
_CLOSE = _BEGIN + _CLOSED
_SUFFIX = r"(?::[^\s<>]{1,24})?"
_END = r"(?:\s{0,8}>|<\|sep\|>)"


def opening(name: str) -> str:
    """Returns the pattern of an opening tag in all spellings; `name` is a pattern."""
    return rf"{_OPEN}{name}{_SUFFIX}{_END}"


def closing(name: str) -> str:
    """Returns the pattern of a closing tag in all spellings; `name` is a pattern."""
    return rf"{_CLOSE}{name}{_SUFFIX}{_END}"


@lru_cache(maxsize=256)
def edges_of(names: str, end: str = r"(?![\w.-])") -> re.Pattern[str]:
    """Returns a pattern for opening and closing (group `close`) tags of `names`, also cut off."""
    return re.compile(rf"{_BEGIN}(?:(?P<close>{_CLOSED})|{_OPENED})(?P<tag>{names}){end}")


@lru_cache(maxsize=256)
def closing_of(name: str) -> re.Pattern[str]:
    """Returns the pattern of the closing tag for a name from the text.

    The cache is bounded, because models invent names.
    """
    return re.compile(closing(re.escape(name)))


_NAMED = r"(?::\w{1,24})?(?:\s?=|[\sĠ]*(?:name|tool)=)"
"""The text after a tag that names its tool: `=`, or an attribute."""
NAME: Final = r"[^\W\d][\w.:-]{0,127}?"
HEAD = late(
    rf"{_OPEN}(?P<tag>function|invoke|tool_call|tool|call){_NAMED}\s*[\"']?\s{{0,8}}"
    rf"(?P<name>{NAME})\s{{0,8}}[\"']?(?P<rest>\s[^<>]{{0,120}}?)?(?P<empty>(?<=[\"'\s])/)?{_END}"
)
"""A tag that opens a call and names its tool.

The blank may be missing, or be a tokenizer's. A self-closing tag is a call without arguments.
"""
LABELS = late(r"(?:\s*(?:id|call_id|index|type|tool)\s?=\s?[\"']?[\w.:-]*[\"']?)*\s*")
"""Other attributes allowed in that tag. None of them changes the call."""
ENTRY = late(
    rf"{_OPEN}(?P<tag>parameter|param|argument|arg)(?::\w{{1,24}})?(?:\s?=\s*|[\sĠ]*(?:name|key)=)[\"']?\s{{0,8}}"
    rf"(?P<key>[\w.:$@-]{{1,128}}?)\s{{0,8}}[\"']?(?P<rest>\s[^<>\n]{{0,120}}?)?{_END}"
)
"""A tag that opens and names an argument."""
KEY = late(
    lambda: (
        rf"{opening('arg_key')}\s*(?P<key>[^<\n]{{1,128}}?)\s*{closing('arg_key')}"
        rf"(?:\s*{opening('arg_type')}(?P<rest>[^<\n]{{0,40}}){closing('arg_type')})?"
        rf"(?:\s*{opening('arg_value')})?"
        rf"|(?P<bare>[\w.-]{{1,64}})\s*{closing('arg_key')}(?:\s*{opening('arg_value')})?"
        r"|<\|tool_arg:start\|>\s*(?P<marked>[^<\n]{1,128}?)\s*<\|tool_arg:value\|>"
    )
)
"""An argument whose name is in a separate tag."""
CHILD = late(
    rf"{_OPEN}(?P<key>(?!(?:parameter|param|argument|arg|arg_key|arg_value)\b)[A-Za-z_][\w.-]{{0,63}})(?P<rest>\s[^<>]{{0,200}}?)?{_END}"
)
"""An argument, or a part of one, whose tag is its name."""


@lru_cache(maxsize=256)
def tags_of(names: tuple[str, ...]) -> re.Pattern[str]:
    """Returns a pattern for tags that may begin a call without a family's mark.

    Such a tag is the name of a tool or has it as an attribute. Only these tags are examined
    closely: a text may be full of others.
    """
    own = rf"|{_factored(names)}(?![\w.-])" if names else ""
    head = rf"(?:function|invoke|tool_call|tool|call){_NAMED}"
    return re.compile(rf"(?P<call>{_OPEN}(?:{head}{own}))")


ATTRIBUTES = late(
    r'"(?P<name>[A-Za-z_][\w.-]{0,127})"(?P<rest>(?:\s{1,8}[A-Za-z_]\w{0,63}="(?:[^"\\]|\\.)*+"){0,64}+)'
)
"""A call whose arguments are attributes, after a mark that its name follows."""
ATTRIBUTE = late(r'\s(?P<key>[A-Za-z_]\w*)="(?P<value>(?:[^"\\]|\\.)*+)"')
EMPTY = late(r"<(?P<key>[A-Za-z_][\w.-]{0,63})\s*/>")

_TAG = late(r"<(/?)([A-Za-z]\w*)>")


Bodies = Mapping[str, str]
"""Patterns by the literal character before them."""


def _spelled(mark: str) -> str:
    if mark.startswith("re:"):
        return mark[3:]
    tag = _TAG.fullmatch(mark)
    if tag:
        return (closing if tag[1] else opening)(tag[2])
    return re.escape(mark).replace("▁", "[▁_]")


_ATTRIBUTED = late(r"\s[^<>\n]{1,48}+(?=>)")
"""Attributes allowed in a reasoning tag; in a call's tag they name its tool."""


def _bodies(marks: Iterable[str], attributes: str = "") -> dict[str, str]:
    """Returns the pattern after the first character of each mark; common prefixes are shared."""
    rests: dict[str, list[str]] = {}
    literals: list[str] = []
    names: dict[str, list[str]] = {"": [], "/": []}
    for mark in sorted(set(marks), key=lambda mark: (-len(mark), mark)):
        tag = _TAG.fullmatch(mark)
        if tag:
            names[tag[1]].append(tag[2])
        elif mark.startswith("re:"):
            body = mark[3:].removeprefix("\\")
            rests.setdefault(body[0], []).append(body[1:])
        else:
            literals.append(mark)
    for slash, lead in (("", _OPENED), ("/", _CLOSED)):
        if names[slash]:
            rest = rf"{lead}{_factored(names[slash])}{_SUFFIX}{attributes}{_END}"
            rests.setdefault("<", []).append(rest)
            rests.setdefault("]", []).append(_SPACE + rest)
    for char in sorted({mark[0] for mark in literals}):
        tails = [mark[1:] for mark in literals if mark[0] == char]
        rests.setdefault(char, []).append(_factored(tails))
    return {char: "|".join(bodies) for char, bodies in rests.items()}


def _pattern(bodies: Bodies) -> str:
    return "|".join(f"{re.escape(char)}(?:{body})" for char, body in bodies.items())


def _caseless(bodies: Bodies) -> dict[str, str]:
    return {char: f"(?i:{body})" for char, body in bodies.items()}


class Marks:
    """One pattern for the marks of several roles; `role` returns the role of a match."""

    def __init__(self, roles: Mapping[str, Bodies]) -> None:
        self._roles: list[str] = []
        choices: list[str] = []
        for char in sorted({char for bodies in roles.values() for char in bodies}):
            own = [(role, bodies[char]) for role, bodies in roles.items() if char in bodies]
            self._roles += [role for role, _ in own]
            groups = "|".join(f"({body})" for _, body in own)
            choices.append(f"{re.escape(char)}(?:{groups})")
        self._choices = choices

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern, compiled on first use: many programs start without reading a reply."""
        return re.compile("|".join(self._choices))

    def role(self, match: re.Match[str]) -> str:
        """Returns the role of a match; the match of another pattern is a `call`."""
        if match.re is not self.pattern:
            return "call"
        return self._roles[(match.lastindex or 1) - 1]


def _factored(literals: Iterable[str]) -> str:
    """Returns a pattern of literals in which common prefixes are tried once.

    If one literal is a prefix of another, the longer one matches.
    """
    groups: dict[str, list[str]] = {}
    for literal in literals:
        groups.setdefault(literal[:1], []).append(literal[1:])
    # The empty rest is the end of a literal that another literal continues.
    is_end = groups.pop("", None) is not None
    bodies = [
        (re.escape(char) if char != "▁" else "[▁_]") + _factored(rests)
        for char, rests in sorted(groups.items())
    ]
    if not bodies:
        return ""
    body = "|".join(bodies)
    if is_end:
        return f"(?:{body})?"
    return body if len(bodies) == 1 else f"(?:{body})"


REASONING: Final = [pair for family in FAMILIES for pair in family.reasoning]
CALLS: Final = [pair for family in FAMILIES for pair in family.calls]
_REASONING_OPEN = _caseless(
    _bodies((opener for opener, _ in REASONING if opener), rf"(?:{_ATTRIBUTED.pattern})?")
)
_ENDS = [mark for family in FAMILIES for mark in family.ends]
_SILENT = [*_ENDS, *(mark for family in FAMILIES for mark in family.noise)]
# A mark that ends any message is not evidence of a thought before it.
_REASONING_CLOSE = _caseless(_bodies(close for _, close in REASONING if close not in _SILENT))
_CALL_OPEN = _bodies(opener for opener, _ in CALLS)
BARE_HEADS: Final = tuple(
    re.split(r"[\\(\[]", opener[3:])[0]
    for opener, _ in CALLS
    if opener.startswith("re:") and opener[3] not in "<`"
)
"""The words that begin calls in families whose opening mark has no distinctive form."""
_CLOSERS = [closer for _, closer in CALLS if closer not in ("", "```", "]")]
_WORDS = r"[^{}<]{0,80}+"
_CHANNEL = rf"{_WORDS}(?:<\|channel\|>{_WORDS})?"
_MESSAGE = rf"(?:<(?!\|(?:end|call|return|start|channel|message)\|>){_WORDS}){{0,6}}+<\|message\|>"
_HEADER = {
    "<": rf"\|(?:start\|>{_CHANNEL}|channel\|>{_WORDS}){_MESSAGE}",
    "t": rf"o=(?<!\wto=)[\w.-]{_CHANNEL}{_MESSAGE}",
}
REASONING_OPEN = late(lambda: _pattern(_REASONING_OPEN))
REASONING_CLOSE = late(lambda: _pattern(_REASONING_CLOSE))
CALL_OPEN = late(lambda: _pattern(_CALL_OPEN))
CALL_CLOSE = late(lambda: _pattern(_bodies(_CLOSERS)))
HEADER = late(lambda: _pattern(_HEADER))
"""Harmony's head of a message: its channel and its recipient."""
SEPARATOR = late(
    lambda: _pattern(_bodies(mark for family in FAMILIES for mark in family.separators))
)
_NOISE = _bodies(_SILENT)
NOISE = late(lambda: _pattern(_NOISE))
ENDS = late(lambda: _pattern(_bodies(_ENDS)))
"""Marks that end the whole reply."""
FOREIGN = late(
    lambda: _pattern(_caseless(_bodies(mark for family in FAMILIES for mark in family.foreign)))
)
"""Marks after which a text is written in another role."""
_TOKENS = {"<": r"(?=\||｜|[a-z_]+\|>)", "[": "", "◁": ""}
NOISE_TOKEN = late(
    lambda: _pattern(
        {char: f"{_TOKENS[char]}(?:{body})" for char, body in _NOISE.items() if char in _TOKENS}
    )
)
"""Noise that is a special token. It is removed anywhere; a noise tag only at the edges."""
NOISE_LEAD = late(lambda: rf"(?:\s*+(?:{NOISE.pattern}))*+\s*+")
_VALUE = {
    "{": r"""(?=\s*+(?:["'“‘„`{}\\,/\#\ufeff\u200b]|[\w$][\w$.-]{0,63}+\s*+[:：=]|<\|"\|>))""",
    "[": r"""(?=\s*+(?:["'“‘`\[{\]\d\#-]|/[/*]|(?i:true|false|null|None)))""",
}
"""The text after a bracket that may open a value."""
_STRIPPED = {"a": "(?i:ssistantfinal)", "A": "(?i:ssistantfinal)"}
_ROLES: dict[str, Bodies] = {
    "value": _VALUE,
    "open": _REASONING_OPEN,
    "close": _REASONING_CLOSE,
    "header": _caseless(_HEADER) | {"T": f"(?i:{_HEADER['t']})"},
    "stripped": _STRIPPED,
}
MARKS = Marks(_ROLES)
"""Values, reasoning, and the heads of messages."""
MARKS_AND_CALLS = Marks(_ROLES | {"call": _CALL_OPEN})
FOREIGN_LABELS: Final = (
    *("observation", "tool result", "function result", "tool results", "function results"),
    *("tool_result", "function_result", "user", "human"),
)
FOREIGN_LINE = late(
    lambda: (
        rf"^(?=[ \t#*_otfuh])[ \t#*_]{{0,8}}(?:{'|'.join(sorted(FOREIGN_LABELS, reverse=True))})"
        r"[ \t*_]{0,4}[:：]"
    ),
    re.IGNORECASE | re.MULTILINE,
)
"""A label of another role, such as `user:`."""
UNKNOWN = late(
    r"<(?:\|[A-Za-z_/][\w/ ]{0,40}+\|?>|｜[^｜\n]{1,40}+｜>|[A-Za-z_]\w{0,40}+\|>"
    r"|/?(?:\w{1,12}+[:|])?"
    r"(?:(?:tool|function)_?calls?(?::[^\s<>]{1,24})?(?:\s[^<>]{0,80})?>|arg_(?:key|value)>"
    r"|(?:invoke|parameter|function)(?:(?:[= ][^<>]{1,80})?>|=|\sname=)))"
    r"|◁/?\w{1,20}▷|\[Calling tool[:=]|\[/?(?:TOOL|THINK|ARGS|CALL|AVAILABLE)_?[A-Z_]{0,20}\]"
    r"|｜DSML[｜‖|]|‖DSML[｜‖|]|\|DSML[｜‖|]|\]<\]\w{1,12}\[>\["
)
"""Text that looks like a mark of any family, known or not. No answer contains it."""
LEFTOVER = late(
    lambda: "|".join(
        [UNKNOWN.pattern, _pattern(_bodies(each for each in _CLOSERS if not UNKNOWN.match(each)))]
    )
)
"""`UNKNOWN` and the closing marks of calls. A text that contains one was not understood."""


_VOCABULARY = (
    "fim|reserved|unused|special|extra|seed|longcat|im|begin|start|end|tools?|function|think|image"
    "|img|audio|video|turn|hy|ctrl|tokens"
)
TOKEN = late(
    r"[<＜](?=[|｜])|\[\||\]~!?\w{1,8}[\]\[]|\[(?:unused\d+|(?:BEGIN_)?(?:IMG|AUDIO)[A-Z_]{0,10}"
    r"|PREFIX|SUFFIX|MIDDLE|CLS|SEP|PAD|UNK|MASK)\]"
    # Anywhere, if a word of such tokens is joined with another or a number ...
    rf"|[<＜]/?(?i:{_VOCABULARY})[_:]?(?:\d+|(?<=[_:])[\w:.-]{{1,40}})\|?[>＞]"
    # ... and any two joined words, unless a name before them makes it a generic type.
    r"|(?<![\w:])[<＜]/?\w{1,24}_[\w:]{1,24}[>＞]|(?<![\w:])[<＜]/?(?:sep|[be]o[a-z])[>＞]"
)
"""Text in the form of a special token of any family, but not of a tag or a type."""


@lru_cache(maxsize=1)
def template_mark() -> re.Pattern[str]:
    """Returns a pattern for complete or begun marks of chat templates.

    A server may read such text as its own tokens.
    """
    own = _pattern(_bodies(mark for family in FAMILIES for mark in family.marks))
    return re.compile(f"{TOKEN.pattern}|{UNKNOWN.pattern}|{own}")


@lru_cache(maxsize=256)
def family_of(opener: str) -> Family:
    """Returns the family whose mark opened a block of calls; of several, the first."""
    for family in FAMILIES:
        if any(re.fullmatch(_spelled(mark), opener) for mark, _ in family.calls):
            return family
    return FAMILIES[0]  # a mark that needs the text after it to match


@lru_cache(maxsize=256)
def closer_of(opener: str) -> re.Pattern[str] | None:
    """Returns the pattern that closes the reasoning or the block opened by `opener`."""
    # Families may share an opening mark and have different closing marks.
    closers = [
        _spelled(pair[1])
        for pair in (*REASONING, *CALLS)
        if pair[1] and re.fullmatch(_spelled(pair[0]), opener, re.IGNORECASE)
    ]
    if closers:
        return re.compile("|".join(closers), re.IGNORECASE)
    bare = _ATTRIBUTED.sub("", opener)
    return closer_of(bare) if bare != opener else None
