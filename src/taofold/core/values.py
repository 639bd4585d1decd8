"""The values of a run: thoughts, actions, observations, steps, and the requester (`Principal`).

Also model capabilities (`Profile`) and settings (`ModelSettings`), the tiers and verdicts of
approvals, their `Deciders`, and the names of reserved actions. Two values with the same content are
equal. They are `msgspec` structs: frozen, cheap to make (60 ns against 420 ns for a frozen
dataclass), with one JSON form that omits fields that hold their default. Nothing here knows about
tools, storage or time.
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
from taofold.core.reply import Count
from taofold.core.reply import Reply as Reply
from taofold.core.reply import Usage as Usage
from taofold.core.text import near

ThoughtType = Literal[
    "goal", "progress", "extraction", "reasoning", "exception", "synthesis", "research"
]
THOUGHT_TYPES: Final[frozenset[str]] = frozenset(get_args(ThoughtType))
"""The seven types; `research` is accepted only if it is enabled (D3)."""

ObservationStatus = Literal["success", "failure", "partial", "timeout"]
StepRole = Literal["planner", "executor", "evaluator", "finalizer", "critic", "judge", "compactor"]
ASIDE: Final[frozenset[str]] = frozenset({"judge", "compactor"})
"""Roles whose replies are no part of the answer."""
Compaction = Literal["fold", "summary"]
"""How older steps are shortened: to one line each, or by a model's summary."""
Sideeffect = Literal["read", "idempotent", "once"]
Verdict = Literal["allow", "ask", "deny", "expired", "void", "done"]
Thinking = Literal["", "off", "opt_in", "default", "always"]
"""When a model thinks: never, on request, unless disabled, always; "" = unknown."""
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
"""Reasoning effort. If a model lacks the requested level, its next lower one is used."""
EFFORTS: Final[tuple[Effort, ...]] = get_args(Effort)
PromptCache = Literal["", "off", "5m", "1h"]

FINISH: Final = "finish"
"""Reserved action: its parameters hold the answer, its observation the accepted output."""
SEARCH: Final = "search_tools"
"""The tool that finds deferred tools. Its result is `{"tools": {name: signature}}`."""
Searcher = Literal["", "local", "provider"]
"""The side that searches deferred tools, if the model can load what was found into its context."""
PROJECT_FILE: Final = "AGENTS.md"
"""The file with a project's instructions for agents."""
PROJECT_INSTRUCTIONS: Final = "project_instructions"
"""Key in `RunStarted.settings`: path and text of that file."""
GOAL_FROM: Final = "goal_from"
"""Key in `RunStarted.settings`: the writer of the goal, if it is a program and no user."""
ATTACHED_TEXT: Final = "attached_text"
"""Key in `RunStarted.settings`: True if a part of the goal is the text of an attached file."""
ASK_USER: Final = "ask_user"
"""Reserved action: ends the activation as `awaiting_input`."""
RESERVED: Final[frozenset[str]] = frozenset({FINISH, ASK_USER})


class Tier(IntEnum):
    """The approval that an action needs before it runs (D8).

    AUTO runs at once. CARD asks unless the policy's autonomy is "autonomous", CONFIRM always asks,
    and FORBIDDEN never runs. Higher tiers compare as greater.

    Example:
        ```python
        from taofold import Policy, Tier

        policy = Policy(tiers={"deploy": Tier.CONFIRM}, production_tiers={"shell": Tier.FORBIDDEN})
        ```
    """

    AUTO = 1
    CARD = 2
    CONFIRM = 3
    FORBIDDEN = 4


THOUGHT_PLACEHOLDER: Final = "(no thought given)"
"""The beginning of a thought that stands for one that the model did not write."""


class Thought(Value, frozen=True):
    """The reason why the agent acts.

    Attributes:
        content: The text of the thought.
        type: goal, progress, extraction, reasoning, exception, synthesis, or research if enabled.
        because: Numbers of the steps that it rests on, from 1.
        confidence: The model's own estimate; None if it gave none.
        critical: True if the model flags a critical exception: its actions then need an approval.
        synthesized: True if taofold wrote the text.
        inferred: True if taofold chose the type, because the model gave none or an unknown one.
        learned: The key extraction: what the model learned from the observations before.

    Example:
        ```python
        from taofold import Thought

        thought = Thought("The test fails in parse(), so I read it.", because=(1,))
        print(thought.type)  # reasoning
        ```
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
    """A tool call that the agent proposes. Unrelated to a Redux action.

    Example:
        ```python
        from taofold import Action

        action = Action("read", {"path": "a.txt", "timeout_s": 5})
        assert action.seconds == 5.0
        ```

    Attributes:
        tool: Name of the tool.
        parameters: Its arguments as JSON.
        rationale: The model's reason for the call.
        id: The provider's id of the call.
        repairs: The corrections made while the reply was parsed.
        guessed: True if parsing the reply changed the content of the parameters (D7).
        error: The reason why the parameters could not be parsed. Such an action never runs.
    """

    tool: str
    parameters: dict[str, Any] = {}
    rationale: str = ""
    id: str = ""
    repairs: tuple[str, ...] = ()
    guessed: bool = False
    error: str = ""

    @property
    def seconds(self) -> float:
        """The time limit of the parameter `timeout_s`, in seconds; 0 if it is absent."""
        seconds: object = self.parameters.get("timeout_s", 0)
        return float(seconds) if isinstance(seconds, int | float) else 0.0

    def apart(self) -> "Action":
        """Returns a copy that shares no mutable object with this action.

        A struct is frozen, but the JSON in it is not.
        """
        return replace(self, parameters=copied(self.parameters))


class OpenConflict(Value, frozen=True):
    """A file that both a child run and its caller changed, and that was not merged.

    The caller's folder has its own version. `why` is the reason as displayed text.
    """

    path: str
    why: str


class OpenConflicts(Value, frozen=True):
    """The files of a child run that were not merged into the folder of its caller.

    `folder` is the child's worktree, which has its versions. `count` may exceed the number of
    listed `files`.
    """

    count: Count
    folder: str
    files: tuple[OpenConflict, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """A line for each listed file, and one for the number of the others."""
        listed = [
            f"open conflict: {file.path} ({file.why}); the child's version: "
            f"{self.folder}/{file.path}"
            for file in self.files
        ]
        more = self.count - len(listed)
        return (*listed, *([f"{more} more open conflicts in {self.folder}"] if more > 0 else []))


class Observation(Value, frozen=True):
    """The result of an action. A failed action has an observation too.

    Example:
        ```python
        for step in result.steps:
            for observation in step.observations:
                print(observation.status, observation.extraction)
        ```

    Attributes:
        result: The result as JSON; an excerpt if the whole is in `blob`.
        status: success, failure, partial or timeout.
        extraction: The key line of the result.
        auto: True if taofold chose `extraction`.
        duration_ms: Duration in milliseconds.
        options: Suggestions for the next action.
        blob: Digest of the whole result, if it is too large for the log.
        refused: The reason why the tool did not run: unknown, invalid, denied, limit, repeated … An
            empty string if it ran.
        cut: True if `result` is only an excerpt of the tool's result.
        parts: The parts of the result, in order, if it holds media. `result` then has a line for
            each.
        masked: True if a secret in it was replaced by a mask.
        conflicts: The files of a child run that were not merged; None if there are none.
    """

    result: Any = None
    status: ObservationStatus = "success"
    extraction: str = ""
    auto: bool = False
    duration_ms: float = 0.0
    options: tuple[str, ...] = ()
    blob: str = ""
    refused: str = ""
    cut: bool = False
    parts: tuple[TextPart | MediaPart, ...] = ()
    masked: bool = False
    conflicts: OpenConflicts | None = None

    wording: ClassVar[Mapping[str, str]] = {
        "cut": "an excerpt",
        "blob": "",
        "options": "",
        "masked": "a secret is masked",
        "conflicts": "open conflicts: {0[count]}",
    }
    """Display formats of facts `{0}`; "" hides one. The default is name and value."""

    @property
    def public(self) -> "Observation":
        """The observation in the form that displays, streams and exports may show.

        Currently it is complete: this is the place to remove fields. The model, a resume, a
        replay and the NDJSON export read the log, which holds everything.
        """
        return self

    @property
    def facts(self) -> dict[str, JSON]:
        """Further facts by name, without the fields that each display renders itself."""
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
        """The further facts as displayed text; "" if there are none."""
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
"""Fields of an observation that each display renders itself."""


class Step(Value, frozen=True):
    """One complete triplet: a thought, its batch of actions, one observation for each."""

    number: int
    thought: Thought
    actions: tuple[Action, ...]
    observations: tuple[Observation, ...]


class Principal(Value, frozen=True):
    """The requester of a run, established by the caller or the server, never by the model.

    Attributes:
        id: A unique name; "local" is the owner of the process.
        roles: Roles known to the policy. See `Policy.roles` for their order.

    Example:
        ```python
        from taofold import Principal

        ada = Principal("ada", roles=("EDITOR",))
        ```
    """

    id: str = "local"
    roles: tuple[str, ...] = ("ADMIN",)


class Deciders(Value, frozen=True):
    """The principals who may answer a question of a run, by the policy under which it was asked.

    It is stored with the question, so it applies on every interface that accepts answers.
    """

    own: str | None = None
    """The role with which the requester may answer; None: the requester may not."""
    others: str = ""
    """The role that others need; "": no others, unless the local policy permits them."""
    roles: tuple[str, ...] = ()
    """Further roles that a decider needs, by the tool and by the policy for it."""


class Profile(Value, frozen=True):
    """The capabilities of a model. Unknown models get cautious defaults."""

    window: int = 8192
    """Context window in tokens."""
    window_known: bool = False
    native_tools: bool = False
    json_schema: bool = False
    streaming: bool = True
    inputs: tuple[str, ...] | None = None
    """The accepted kinds of media; None = unknown: media are sent and the model may refuse them."""
    thinking: Thinking = ""
    prefix_bound: bool = False
    """True if its reasoning is bound to every preceding byte, including tools and system prompt."""
    tool_search: bool = False
    """True if its provider searches deferred tools and loads the found ones into the context."""


class ModelSettings(Value, frozen=True):
    """The settings of a model request; an unset field leaves the choice to the provider.

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
        """Returns the settings in `values`, checked before any request.

        Raises:
            ConfigError: A name is unknown, or a value has a wrong type or range. `path` precedes
                the name in the message.
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
        """Returns these settings, with unset ones taken from `base`."""
        # The usual case on every model call: no new object if one side sets nothing.
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
    """Returns the type of a number within `bounds`, or None."""
    number: Any = Annotated[float, bounds]
    return number | None


_RANGES: Final[dict[str, tuple[Any, str]]] = {
    "effort": (Effort | None, f"one of {', '.join(EFFORTS)}"),
    # The upper bound is the provider's: 1 at Anthropic, 2 at OpenAI, open on local servers.
    "temperature": (_number(msgspec.Meta(ge=0, le=1e9)), "a number ≥ 0"),
    "top_p": (_number(msgspec.Meta(gt=0, le=1)), "a number in (0, 1]"),
    "max_tokens": (Annotated[int, msgspec.Meta(ge=0)], "a whole number ≥ 0"),
    "prompt_cache": (PromptCache, "'5m', '1h', 'off' or ''"),
    "service_tier": (str, "a text"),
    "extra": (dict[str, Any], "a mapping of the provider's own fields"),
}
