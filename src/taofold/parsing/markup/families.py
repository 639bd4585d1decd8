"""How each family of models marks its reasoning and its calls, one row a family; and the patterns
of tags, of call heads and of argument tags.

Everything that knows a mark is derived from this table: what the scanner steps over, where a
call begins and ends, what a broken call looks like, what is never an answer. A new family is a
row here and a text in `tests/parsing/calls.py`. Knows nothing about the values of arguments.

A mark is a literal. A literal tag such as `<tool_call>` also stands for its spellings with a
name space (`<seed:tool_call>`, `<ifm|tool_call>`, `<｜DSML｜tool_call>`), with a suffix
(`<tool_call:x>`), behind a separator token (`]<]minimax[>[<tool_call>`) and in special tokens
(`<|open|>tool_call<|sep|>`). `▁` also stands for `_`. A mark that starts with `re:` is a pattern
whose first character is a literal.

A text of a megabyte may hold half a million `<`, and each pattern looks at all of them. So every
pattern here is a choice between literal first characters: then `re` runs to the next of these in
C, and only what may follow that character is tried.
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
        reasoning: How reasoning opens and closes; nothing opens what the prompt opened.
        calls: How a block of calls opens and closes; a block may hold blocks. A block without a
            closing mark ends where its calls end.
        separators: What stands between the name of a tool and its arguments, or between calls.
        separated: Whether it always does between the name and the arguments.
        listed: Whether calls in JSON or in Python's notation always stand in one list.
        noise: What says nothing: the heads and ends of messages, the envelope of an answer.
        ends: What ends the whole reply. It says nothing either, but what follows is another one.
        foreign: Where a text speaks in another's place.
        template: What only the template of a chat writes: no reply holds it.
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
        """All of its marks that a tokenizer may know, patterns left out."""
        pairs = [mark for pair in (*self.reasoning, *self.calls) for mark in pair]
        others = (*self.separators, *self.noise, *self.ends, *self.foreign)
        literals = [m for m in (*pairs, *others) if len(m) > 1 and not m.startswith(("re:", "`"))]
        return (*literals, *self.template)


def _tags(*names: str) -> tuple[Pair, ...]:
    return tuple((f"<{name}>", f"</{name}>") for name in names)


# Set by hand: a row's marks stand beside each other, so that a family is seen at a glance.
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
"""The rows. Families that share a row's marks have none of their own."""

_SPACE = r"<\]\w{1,12}\[>\[<"
"""A separator token in front of a tag, after its first character."""
_BEGIN = rf"(?:<|\]{_SPACE})"
_PREFIX = r"[A-Za-z]\w{0,11}+[:|]|[｜‖|]{1,2}DSML[｜‖|]{1,2}[ ]?"
_OPENED = rf"(?:\|open\|>|{_PREFIX})?"
_CLOSED = rf"(?:\|close\|>|/(?:{_PREFIX})?)"
_OPEN = _BEGIN + _OPENED
_CLOSE = _BEGIN + _CLOSED
_SUFFIX = r"(?::[^\s<>]{1,24})?"
_END = r"(?:\s{0,8}>|<\|sep\|>)"


def opening(name: str) -> str:
    """The pattern of an opening tag in all its spellings; `name` is a pattern."""
    return rf"{_OPEN}{name}{_SUFFIX}{_END}"


def closing(name: str) -> str:
    """The pattern of a closing tag in all its spellings; `name` is a pattern."""
    return rf"{_CLOSE}{name}{_SUFFIX}{_END}"


@lru_cache(maxsize=256)
def edges_of(names: str, end: str = r"(?![\w.-])") -> re.Pattern[str]:
    """Finds opening and closing tags (group `close`) of some names, whole or cut off."""
    return re.compile(rf"{_BEGIN}(?:(?P<close>{_CLOSED})|{_OPENED})(?P<tag>{names}){end}")


@lru_cache(maxsize=256)
def closing_of(name: str) -> re.Pattern[str]:
    """Finds the closing tag of a name that a text gave; bounded, because models make names up."""
    return re.compile(closing(re.escape(name)))


_NAMED = r"(?::\w{1,24})?(?:\s?=|[\sĠ]*(?:name|tool)=)"
"""What follows the tag that names its tool: `=`, or an attribute."""
NAME: Final = r"[^\W\d][\w.:-]{0,127}?"
HEAD = late(
    rf"{_OPEN}(?P<tag>function|invoke|tool_call|tool|call){_NAMED}\s*[\"']?\s{{0,8}}"
    rf"(?P<name>{NAME})\s{{0,8}}[\"']?(?P<rest>\s[^<>]{{0,120}}?)?(?P<empty>(?<=[\"'\s])/)?{_END}"
)
"""A tag that opens a call and names its tool; the blank may be lost, or be a tokenizer's. One that
closes itself is a call without arguments."""
LABELS = late(r"(?:\s*(?:id|call_id|index|type|tool)\s?=\s?[\"']?[\w.:-]*[\"']?)*\s*")
"""What else that tag may say: nothing that changes whether, or how, the tool is called."""
ENTRY = late(
    rf"{_OPEN}(?P<tag>parameter|param|argument|arg)(?::\w{{1,24}})?(?:\s?=\s*|[\sĠ]*(?:name|key)=)[\"']?\s{{0,8}}"
    rf"(?P<key>[\w.:$@-]{{1,128}}?)\s{{0,8}}[\"']?(?P<rest>\s[^<>\n]{{0,120}}?)?{_END}"
)
"""A tag that opens an argument and names it."""
KEY = late(
    lambda: (
        rf"{opening('arg_key')}\s*(?P<key>[^<\n]{{1,128}}?)\s*{closing('arg_key')}"
        rf"(?:\s*{opening('arg_type')}(?P<rest>[^<\n]{{0,40}}){closing('arg_type')})?"
        rf"(?:\s*{opening('arg_value')})?"
        rf"|(?P<bare>[\w.-]{{1,64}})\s*{closing('arg_key')}(?:\s*{opening('arg_value')})?"
        r"|<\|tool_arg:start\|>\s*(?P<marked>[^<\n]{1,128}?)\s*<\|tool_arg:value\|>"
    )
)
"""An argument whose name has a tag of its own."""
CHILD = late(
    rf"{_OPEN}(?P<key>(?!(?:parameter|param|argument|arg|arg_key|arg_value)\b)[A-Za-z_][\w.-]{{0,63}})(?P<rest>\s[^<>]{{0,200}}?)?{_END}"
)
"""An argument, or a part of one, whose tag is its name."""


@lru_cache(maxsize=256)
def tags_of(names: tuple[str, ...]) -> re.Pattern[str]:
    """Finds where a call may begin without a family's mark, at a tag that is or names its tool.

    Only these tags are looked at closely: a text may be full of others.
    """
    own = rf"|{_factored(names)}(?![\w.-])" if names else ""
    head = rf"(?:function|invoke|tool_call|tool|call){_NAMED}"
    return re.compile(rf"(?P<call>{_OPEN}(?:{head}{own}))")


ATTRIBUTES = late(
    r'"(?P<name>[A-Za-z_][\w.-]{0,127})"(?P<rest>(?:\s{1,8}[A-Za-z_]\w{0,63}="(?:[^"\\]|\\.)*+"){0,64}+)'
)
"""A call whose arguments are attributes, behind the mark that its name follows."""
ATTRIBUTE = late(r'\s(?P<key>[A-Za-z_]\w*)="(?P<value>(?:[^"\\]|\\.)*+)"')
EMPTY = late(r"<(?P<key>[A-Za-z_][\w.-]{0,63})\s*/>")

_TAG = late(r"<(/?)([A-Za-z]\w*)>")


Bodies = Mapping[str, str]
"""Patterns by the literal character that stands before them."""


def _spelled(mark: str) -> str:
    if mark.startswith("re:"):
        return mark[3:]
    tag = _TAG.fullmatch(mark)
    if tag:
        return (closing if tag[1] else opening)(tag[2])
    return re.escape(mark).replace("▁", "[▁_]")


_ATTRIBUTED = late(r"\s[^<>\n]{1,48}+(?=>)")
"""Attributes that a tag of reasoning may have; in one of a call they name its tool."""


def _bodies(marks: Iterable[str], attributes: str = "") -> dict[str, str]:
    """What follows the first character of each mark; tags share a prefix, literals their heads."""
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
    """One pattern for the marks of several roles; `role` says which one was found."""

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
        """The pattern, compiled when it is first wanted: a program may start and read nothing."""
        return re.compile("|".join(self._choices))

    def role(self, match: re.Match[str]) -> str:
        """The role of a match; what another pattern found is a `call`."""
        if match.re is not self.pattern:
            return "call"
        return self._roles[(match.lastindex or 1) - 1]


def _factored(literals: Iterable[str]) -> str:
    """A pattern of literals in which those that begin alike are looked at once.

    Of two literals of which one begins the other the longer one is found.
    """
    groups: dict[str, list[str]] = {}
    for literal in literals:
        groups.setdefault(literal[:1], []).append(literal[1:])
    # The empty rest is the end of a literal that another one continues.
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
# What ends any message is no sign that a thought stood before it.
_REASONING_CLOSE = _caseless(_bodies(close for _, close in REASONING if close not in _SILENT))
_CALL_OPEN = _bodies(opener for opener, _ in CALLS)
BARE_HEADS: Final = tuple(
    re.split(r"[\\(\[]", opener[3:])[0]
    for opener, _ in CALLS
    if opener.startswith("re:") and opener[3] not in "<`"
)
"""The words with which calls begin whose family has no mark that says so by its form."""
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
"""Harmony's head of a message: its channel and whom it is for."""
SEPARATOR = late(
    lambda: _pattern(_bodies(mark for family in FAMILIES for mark in family.separators))
)
_NOISE = _bodies(_SILENT)
NOISE = late(lambda: _pattern(_NOISE))
ENDS = late(lambda: _pattern(_bodies(_ENDS)))
"""What ends the whole reply."""
FOREIGN = late(
    lambda: _pattern(_caseless(_bodies(mark for family in FAMILIES for mark in family.foreign)))
)
"""The marks at which a text speaks in another's place."""
_TOKENS = {"<": r"(?=\||｜|[a-z_]+\|>)", "[": "", "◁": ""}
NOISE_TOKEN = late(
    lambda: _pattern(
        {char: f"{_TOKENS[char]}(?:{body})" for char, body in _NOISE.items() if char in _TOKENS}
    )
)
"""The noise that is a special token: it says nothing wherever it stands; a tag, at the edges."""
NOISE_LEAD = late(lambda: rf"(?:\s*+(?:{NOISE.pattern}))*+\s*+")
_VALUE = {
    "{": r"""(?=\s*+(?:["'“‘„`{}\\,/\#\ufeff\u200b]|[\w$][\w$.-]{0,63}+\s*+[:：=]|<\|"\|>))""",
    "[": r"""(?=\s*+(?:["'“‘`\[{\]\d\#-]|/[/*]|(?i:true|false|null|None)))""",
}
"""What follows a bracket that may open a value."""
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
"""A label that speaks in another's place."""
UNKNOWN = late(
    r"<(?:\|[A-Za-z_/][\w/ ]{0,40}+\|?>|｜[^｜\n]{1,40}+｜>|[A-Za-z_]\w{0,40}+\|>"
    r"|/?(?:\w{1,12}+[:|])?"
    r"(?:(?:tool|function)_?calls?(?::[^\s<>]{1,24})?(?:\s[^<>]{0,80})?>|arg_(?:key|value)>"
    r"|(?:invoke|parameter|function)(?:(?:[= ][^<>]{1,80})?>|=|\sname=)))"
    r"|◁/?\w{1,20}▷|\[Calling tool[:=]|\[/?(?:TOOL|THINK|ARGS|CALL|AVAILABLE)_?[A-Z_]{0,20}\]"
    r"|｜DSML[｜‖|]|‖DSML[｜‖|]|\|DSML[｜‖|]|\]<\]\w{1,12}\[>\["
)
"""What looks like a mark of some family, known or not: no answer holds it."""
LEFTOVER = late(
    lambda: "|".join(
        [UNKNOWN.pattern, _pattern(_bodies(each for each in _CLOSERS if not UNKNOWN.match(each)))]
    )
)
"""The same, and what closes calls: a text that holds one was not understood."""


_VOCABULARY = (
    "fim|reserved|unused|special|extra|seed|longcat|im|begin|start|end|tools?|function|think|image"
    "|img|audio|video|turn|hy|ctrl|tokens"
)
TOKEN = late(
    r"[<＜](?=[|｜])|\[\||\]~!?\w{1,8}[\]\[]|\[(?:unused\d+|(?:BEGIN_)?(?:IMG|AUDIO)[A-Z_]{0,10}"
    r"|PREFIX|SUFFIX|MIDDLE|CLS|SEP|PAD|UNK|MASK)\]"
    # Anywhere, if a word of such tokens is joined with another or a number ...
    rf"|[<＜]/?(?i:{_VOCABULARY})[_:]?(?:\d+|(?<=[_:])[\w:.-]{{1,40}})\|?[>＞]"
    # ... and two words joined are one where no generic type, whose name stands before, may be.
    r"|(?<![\w:])[<＜]/?\w{1,24}_[\w:]{1,24}[>＞]|(?<![\w:])[<＜]/?(?:sep|[be]o[a-z])[>＞]"
)
"""What has the form of a special token, of whatever family: not that of a tag or a type."""


@lru_cache(maxsize=1)
def template_mark() -> re.Pattern[str]:
    """What the template of a chat writes, or begins so: a server may take it for its own tokens."""
    own = _pattern(_bodies(mark for family in FAMILIES for mark in family.marks))
    return re.compile(f"{TOKEN.pattern}|{UNKNOWN.pattern}|{own}")


@lru_cache(maxsize=256)
def family_of(opener: str) -> Family:
    """The family whose mark opened a block of calls; the first, if several have that mark."""
    for family in FAMILIES:
        if any(re.fullmatch(_spelled(mark), opener) for mark, _ in family.calls):
            return family
    return FAMILIES[0]  # a mark that is one only before what follows it


@lru_cache(maxsize=256)
def closer_of(opener: str) -> re.Pattern[str] | None:
    """The pattern that closes the reasoning or the block that a text opened."""
    # Families may share an opening mark and close it differently.
    closers = [
        _spelled(pair[1])
        for pair in (*REASONING, *CALLS)
        if pair[1] and re.fullmatch(_spelled(pair[0]), opener, re.IGNORECASE)
    ]
    if closers:
        return re.compile("|".join(closers), re.IGNORECASE)
    bare = _ATTRIBUTED.sub("", opener)
    return closer_of(bare) if bare != opener else None
