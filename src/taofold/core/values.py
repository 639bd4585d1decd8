"""The values of a run: thoughts, actions, observations, steps, and who asks for them (`Principal`).

With them what a model can (`Profile`), how it is asked (`ModelSettings`), the tiers and verdicts of
approvals, who may give them (`Deciders`), and the names of reserved actions. Two values with the
same content are equal. They are `msgspec` structs: frozen, cheap to make (60 ns against 420 ns for
a frozen dataclass) and with one JSON form, in which fields that hold their default are left out.
Nothing here knows about tools, storage or time.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Annotated, Any, ClassVar, Final, Literal, get_args

import msgspec
from msgspec.structs import replace

from taofold.core.content import MediaPart, TextPart
from taofold.core.content import Message as Message
from taofold.core.content import Role as Role
from taofold.core.content import ToolCall as ToolCall
from taofold.core.errors import ConfigError
from taofold.core.json_values import JSON as JSON
from taofold.core.json_values import Value as Value
from taofold.core.json_values import copied
from taofold.core.reply import Reply as Reply
from taofold.core.reply import Usage as Usage
from taofold.core.text import near

ThoughtType = Literal[
    "goal", "progress", "extraction", "reasoning", "exception", "synthesis", "research"
]
THOUGHT_TYPES: Final[frozenset[str]] = frozenset(get_args(ThoughtType))
"""The seven types; `research` is accepted only where it was opted in (D3)."""

ObservationStatus = Literal["success", "failure", "partial", "timeout"]
StepRole = Literal["planner", "executor", "evaluator", "finalizer", "critic"]
Sideeffect = Literal["read", "idempotent", "once"]
Verdict = Literal["allow", "ask", "deny", "expired", "void", "done"]
Thinking = Literal["", "off", "opt_in", "default", "always"]
"""When a model thinks: never, if asked, unless told not to, always; "" = unknown."""
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How hard a model shall think. Each model has some of these; the next lower one is taken."""
EFFORTS: Final[tuple[Effort, ...]] = get_args(Effort)
PromptCache = Literal["", "off", "5m", "1h"]

FINISH: Final = "finish"
"""Reserved action: its parameters hold the answer, its observation the accepted output."""
ASK_USER: Final = "ask_user"
"""Reserved action: ends the activation as `awaiting_input`."""
RESERVED: Final[frozenset[str]] = frozenset({FINISH, ASK_USER})


class Tier(IntEnum):
    """How much say a person has before an action runs (D8)."""

    AUTO = 1
    CARD = 2
    CONFIRM = 3
    FORBIDDEN = 4


THOUGHT_PLACEHOLDER: Final = "(no thought given)"
"""How the thought begins that stands for one which the model did not write."""


class Thought(Value, frozen=True):
    """Why the agent acts. `because` names the steps it rests on, counted from 1.

    `learned` is what the model learned from the observations before it, the key extraction.
    `synthesized`: taofold wrote the text. `inferred`: the text is the model's, and taofold chose
    the type, because the model named none or an unknown one.
    """

    content: str
    type: ThoughtType = "reasoning"
    because: tuple[int, ...] = ()
    confidence: float | None = None
    critical: bool = False
    synthesized: bool = False
    inferred: bool = False
    learned: str = ""


class Action(Value, frozen=True):
    """A tool call that the agent proposes. Never what Redux calls an action."""

    tool: str
    parameters: dict[str, Any] = {}
    rationale: str = ""
    id: str = ""
    repairs: tuple[str, ...] = ()
    guessed: bool = False
    """True if reading the reply changed what the parameters say (D7)."""
    error: str = ""
    """Why the parameters could not be read; such an action never runs."""

    @property
    def seconds(self) -> float:
        """How long it asks for, as the reserved parameter `timeout_s` says; 0 if it does not."""
        seconds: object = self.parameters.get("timeout_s", 0)
        return float(seconds) if isinstance(seconds, int | float) else 0.0

    def apart(self) -> "Action":
        """The same action, sharing no object with this one: for whoever may change what he gets.

        A struct is frozen, the JSON in it is not.
        """
        return replace(self, parameters=copied(self.parameters))


class Observation(Value, frozen=True):
    """What came back. A failed action is still an observation.

    `result` is JSON; `extraction` is the key line, `auto` if we chose it; a result
    too large for the log lies in the blob `blob` and `result` is its excerpt.
    """

    result: Any = None
    status: ObservationStatus = "success"
    extraction: str = ""
    auto: bool = False
    duration_ms: float = 0.0
    options: tuple[str, ...] = ()
    blob: str = ""
    refused: str = ""
    """Why the tool was not run: unknown, invalid, denied, limit, repeated … ("" = it ran)."""
    cut: bool = False
    """True if `result` is only an excerpt of what the tool returned."""
    parts: tuple[TextPart | MediaPart, ...] = ()
    """What the tool returned, in order, if it holds media; `result` then has a line for each."""
    masked: bool = False
    """True if a secret was replaced by a mask in it."""

    wording: ClassVar[Mapping[str, str]] = {
        "cut": "an excerpt",
        "blob": "",
        "options": "",
        "masked": "a secret is masked",
    }
    """How people are told a fact `{0}`; "": not at all. A field without an entry is told by its
    name and its value."""

    @property
    def public(self) -> "Observation":
        """The observation as those who watch the run see it, on whatever surface.

        All of it: what a field shall keep from them is left out here. The model, a resume, a
        replay and the NDJSON export go by the log, which has the whole.
        """
        return self

    @property
    def facts(self) -> dict[str, JSON]:
        """What else is so of it, by name, besides what each surface shows in a way of its own."""
        defaults = zip(self.__struct_fields__, self.__struct_defaults__, strict=True)
        held = {
            name: getattr(self, name)
            for name, default in defaults
            if name not in _SHOWN and getattr(self, name) != default
        }
        facts: dict[str, JSON] = msgspec.to_builtins(held)
        return facts

    @property
    def remark(self) -> str:
        """The same for people; "" if there is nothing to say."""
        remarks = [
            self.wording.get(name, _bare(name, value)).format(value)
            for name, value in self.facts.items()
        ]
        return ", ".join(filter(None, remarks))


def _bare(name: str, value: JSON) -> str:
    return name.replace("_", " ") + ("" if value is True else " {0}")


_SHOWN: Final = frozenset(
    ("result", "status", "extraction", "auto", "duration_ms", "refused", "parts")
)
"""Fields of an observation that each surface shows in a way of its own."""


class Step(Value, frozen=True):
    """One complete triplet: a thought, its batch of actions, one observation for each."""

    number: int
    thought: Thought
    actions: tuple[Action, ...]
    observations: tuple[Observation, ...]


class Principal(Value, frozen=True):
    """Who asks. Established by the caller or the server, never by the model."""

    id: str = "local"
    roles: tuple[str, ...] = ("ADMIN",)


class Deciders(Value, frozen=True):
    """Who may answer a question of a run, by the policy under which it was asked.

    It is kept with the question, so that it holds at whichever door the answer comes in.
    """

    own: str | None = None
    """The role that the requester needs himself; None: he may not."""
    others: str = ""
    """The role that all others need; "": nobody else, unless whoever takes the answer lets them."""
    roles: tuple[str, ...] = ()
    """What whoever decides must reach besides: roles of the tool and of the policy for it."""


class Profile(Value, frozen=True):
    """What a model can do. Unknown models get the cautious defaults."""

    window: int = 8192
    """Tokens of context."""
    window_known: bool = False
    native_tools: bool = False
    json_schema: bool = False
    streaming: bool = True
    inputs: tuple[str, ...] | None = None
    """The kinds of media that it takes; None = unknown, then they are sent and it may refuse."""
    thinking: Thinking = ""
    prefix_bound: bool = False
    """Is its reasoning bound to every byte before it, tools and system included?"""


class ModelSettings(Value, frozen=True):
    """How a model is asked; whatever is not set is the provider's own choice.

    `prompt_cache`: how long the provider should keep the prompt ("5m", "1h"; "off": no marks).
    `extra`: further fields of the request, as its provider documents them.
    """

    effort: Effort | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int = 0
    prompt_cache: PromptCache = ""
    service_tier: str = ""
    extra: dict[str, JSON] = {}

    @classmethod
    def of(cls, values: Mapping[str, Any], path: str = "") -> "ModelSettings":
        """The settings that `values` name, checked: a server would refuse them only when asked.

        Raises:
            ConfigError: an unknown name, a wrong type or range; `path` stands before the name.
        """
        for name, value in values.items():
            where = f"{path}.{name}" if path else name
            if name not in _RANGES:
                hint = f"{near(name, _RANGES)}; a provider's own fields go into extra"
                raise ConfigError(f"there is no setting {name!r}; {hint}", path=where)
            kind, words = _RANGES[name]
            try:
                msgspec.convert(value, kind)
            except msgspec.ValidationError:
                raise ConfigError(f"must be {words}, not {value!r}", path=where) from None
        return cls(**values)

    def over(self, base: "ModelSettings") -> "ModelSettings":
        """These settings; where they say nothing, those of `base`."""
        # The usual case, on every model call: no new object where one side says nothing.
        if self == _UNSET:
            return base
        if base == _UNSET:
            return self
        return ModelSettings(
            effort=base.effort if self.effort is None else self.effort,
            temperature=base.temperature if self.temperature is None else self.temperature,
            top_p=base.top_p if self.top_p is None else self.top_p,
            # 0 and "" mean unset here, so unlike effort and the floats these need no None check.
            max_tokens=self.max_tokens or base.max_tokens,
            prompt_cache=self.prompt_cache or base.prompt_cache,
            service_tier=self.service_tier or base.service_tier,
            extra={**base.extra, **self.extra},
        )


_UNSET: Final = ModelSettings()


def _number(bounds: msgspec.Meta) -> Any:
    """A number within `bounds`, or None."""
    number: Any = Annotated[float, bounds]
    return number | None


_RANGES: Final[dict[str, tuple[Any, str]]] = {
    "effort": (Effort | None, f"one of {', '.join(EFFORTS)}"),
    # The upper end is the provider's: 1 at Anthropic, 2 at OpenAI, open on local servers.
    "temperature": (_number(msgspec.Meta(ge=0, le=1e9)), "a number ≥ 0"),
    "top_p": (_number(msgspec.Meta(gt=0, le=1)), "a number in (0, 1]"),
    "max_tokens": (Annotated[int, msgspec.Meta(ge=0)], "a whole number ≥ 0"),
    "prompt_cache": (PromptCache, "'5m', '1h', 'off' or ''"),
    "service_tier": (str, "a text"),
    "extra": (dict[str, Any], "a mapping of the provider's own fields"),
}
