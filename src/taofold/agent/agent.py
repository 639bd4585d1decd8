"""`Agent`: an immutable description of an agent, and the methods that run it.

State lives in runs, not in the agent. A wrong argument raises `ConfigError` before the first model
call, together with all others. A new option needs a field here, its check in `_KINDS`, its key in
`files/agent.py`, and the code that applies it (`docs/internals/changing.md`).
"""

import os
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, Never, Unpack, cast

from pydantic import PydanticUserError
from typing_extensions import TypeForm

from taofold.agent.history import Earlier
from taofold.agent.instructions import Instructions
from taofold.agent.options import (
    COMPACTION,
    JUDGE,
    STRICT,
    TOOL_SEARCH,
    IfWaiting,
    MapOptions,
    ResumeOptions,
    RunOptions,
    StartOptions,
)
from taofold.agent.prompts import SentPrompt, sent_prompts
from taofold.agent.result import ANSWERING, AnswerText, Out, RunResult, Stream, settle_log
from taofold.agent.strategies import StrategyName, check_model_roles, check_strategy
from taofold.core.errors import ConfigError
from taofold.core.happenings import Happening
from taofold.core.text import line, near
from taofold.core.values import (
    SEARCH,
    Compaction,
    Effort,
    ModelSettings,
    Principal,
    PromptCache,
    Reply,
    Sideeffect,
    Tier,
)
from taofold.log.log import Log
from taofold.log.open import open_log
from taofold.policy import Limits, Policy
from taofold.policy.redaction import Redactor
from taofold.runtime.endings import Advanced
from taofold.runtime.hooks import Hook
from taofold.runtime.model import ModelSpec, ToolSpec
from taofold.runtime.setup import Approver, Pause
from taofold.tools import Tool, Toolset, as_tool
from taofold.tools.attachments import Prompt
from taofold.tools.context import Deps
from taofold.tools.deferral import deferred
from taofold.tools.installed import load_tools, tool_names
from taofold.tools.threads import WORKERS, run_now
from taofold.tools.toolset import custom_actions

if TYPE_CHECKING:
    # The modules that run an agent load with its first run. Programs that only describe agents, or
    # print help, never load them.
    from taofold.agent.activation import Activation
    from taofold.agent.batch import Batch, BatchState
    from taofold.agent.plan import AgentPlan
    from taofold.core.effects import Strategy
    from taofold.memory import Memory
    from taofold.reasoning import Offer, Output, Task
    from taofold.skills import Skill

_SCHEMA = {
    "type": "object",
    "properties": {"goal": {"type": "string", "description": "What the agent should do."}},
    "required": ["goal"],
    "additionalProperties": False,
}


_BUILT_IN: Final = {"files": "file_tools", "command": "command_tool"}
"""Built-in tools by name. The module in `taofold.tools` is loaded when the name is used."""


def _of(*kinds: Any) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def _list_of(*kinds: Any) -> Callable[[Any], bool]:
    def fits(value: Any) -> bool:
        # A string would be read letter by letter, and iterating a generator would consume it.
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            return False
        items = cast("Collection[Any]", value) if isinstance(value, Collection) else ()
        return all([isinstance(item, kinds) for item in items])

    return fits


def _path_or_paths(value: Any) -> bool:
    return isinstance(value, str | Path) or _list_of(str, Path)(value)


def _is_memory(value: Any) -> bool:
    from taofold.memory import Memory

    return isinstance(value, Memory)


def _are_skills(value: Any) -> bool:
    # Most agents have none, and need not load the package.
    if value == ():
        return True
    from taofold.skills import Skill

    return _list_of(str, Path, Skill)(value)


_SHOWN: Final = 100
"""Maximum characters of a wrong value in a message."""
_TEXT: Final = (_of(str), "is a text")
_FLAG: Final = (_of(bool), "is True or False")
_MAPPING: Final = (_of(Mapping), "is a mapping")
_KINDS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "limits": (_of(Limits), "write limits=Limits(steps=3, …)"),
    "policy": (_of(Policy), "write policy=Policy(…) or leave it out"),
    **dict.fromkeys(("name", "description"), _TEXT),
    "instructions": (
        lambda value: isinstance(value, str) or (callable(value) and not isinstance(value, type)),
        "is a text, or a function of the run's context",
    ),
    # `os.environ.get` returns None for an unset variable.
    "base_url": (_of(str, type(None)), "is a text"),
    **dict.fromkeys(("models", "extra"), _MAPPING),
    **dict.fromkeys(("ask_user", "research", "cache", "raise_on_limit", "worktree"), _FLAG),
    "strict": (_of(bool), "is True or False"),
    "tool_search": (
        lambda value: value is None or isinstance(value, bool) or value == "local",
        "is True, False, 'local' or None",
    ),
    "strategy": (
        lambda value: isinstance(value, str) or callable(value),
        "is a name or a function",
    ),
    "tools": (_list_of(object), "is a list: write tools=[add]"),
    "handoffs": (
        lambda value: callable(value) or _list_of(Agent)(value),
        "is a list of agents: write handoffs=[billing]",
    ),
    "hooks": (_list_of(object), "is a list: write hooks=[Guard()]"),
    "secrets": (_list_of(str), "is a list of texts: write secrets=[token]"),
    "discover": (_path_or_paths, "is a folder or a list of folders"),
    "project_instructions": (_of(bool, str, Path), "is True, False or a folder"),
    "skills": (_are_skills, "is a list of folders: write skills=['skills/reports', 'user']"),
    "snapshots": (_of(bool, str, Path), "is True, False or a folder"),
    "memory": (
        lambda value: isinstance(value, bool) or _is_memory(value),
        "is True, False or Memory(…)",
    ),
    "output": (
        lambda value: not isinstance(value, bytes | int | float | list | tuple | dict | set),
        "is a type",
    ),
    # Any other value would silently mean "continue".
    "on_denial": (lambda value: value in ("continue", "stop"), "is 'continue' or 'stop'"),
    "compaction": (lambda value: value in ("fold", "summary"), "is 'fold' or 'summary'"),
    "approve": (
        lambda value: value in (None, "terminal", "all") or callable(value),
        "is a callback, 'terminal' or 'all'",
    ),
    "log": (
        lambda value: value is None or isinstance(value, str | Path) or hasattr(value, "create"),
        "is a log, a path or 'memory'",
    ),
}
"""The check of each option and its error message. Unchecked, the fault would surface elsewhere."""


@dataclass(frozen=True)
class Agent(Generic[Deps, Out]):
    """An agent: a model, instructions, tools, a strategy, and the rules that bound its runs.

    An agent is an immutable description. State lives in runs, so one agent can drive many runs at
    the same time. A wrong argument raises `ConfigError` before the first model call. The class is
    generic in the type of its dependencies and of its output.

    Example:
        ```python
        from taofold import Agent, tool


        @tool(effect="read")
        def price(item: str) -> float:
            "Price of an item in euros."
            return {"tea": 2.5}.get(item, 4.0)


        agent = Agent("openai:gpt-5", tools=[price], output=float)
        result = agent.run_sync("What do two teas cost?")
        print(result.output)
        ```

    The main methods:

    * `run`, `run_sync`, `stream`: work on one goal.
    * `map`, `map_sync`: work on many goals, several at a time.
    * `resume`, `fork`, `replay`: continue, branch or re-derive a run from its log.
    * `begin`, `advance`: record a run and drive it later, as an engine does.
    * `steer`, `cancel`: send a message to a run, or end it.
    * `result`, `prompts`: read a run and what its model was sent.
    * `replace`, `as_tool`, `from_file`: make another agent, a tool, or an agent of a file.

    Args:
        model: `"provider:model"`, a `Model`, or a list of fallbacks.
        base_url: Address of the model's server, if it is not the provider's own. Applies to `model`
            if it is a single name.
        output: Type of the answer, also a union such as `City | None`.
        deps_type: Type of `deps`, for type checkers. A run without `deps` is then a `ConfigError`.
        name: Name in the log, and as a tool of another agent.
        description: Purpose of the agent, shown to the model when it is another agent's tool.
        instructions: The system text: a string, or a function of the `RunContext` that returns one.
            A function is called once, when a run starts; its text is recorded.
        tools: Functions, `@tool`s, toolsets, other agents, `"files"`, `"command"`. The last two
            work in the working directory.
        handoffs: Agents that may continue a run in place of this one, with the conversation so far
            and with their own instructions, tools, model and rules. A function that returns them
            serves agents that hand over to each other.
        discover: Directories whose `tagent.tools.py` and `taofold_tools.py` are executed for more
            tools. Incomplete definitions raise a `DiscoveryWarning`. Discovered tools have at least
            tier 2.
        skills: Agent Skills: folders of skills, `"user"` (`~/.agents/skills`), `"project"`
            (`.agents/skills`, after `taofold skills trust`). The model loads the instructions of a
            skill when a task needs them.
        project_instructions: Shows models the nearest `AGENTS.md` of the working directory, or of
            the given folder, and those of folders that tools enter. The text is marked as data of
            the project's owner. Agents that this agent calls are shown it too.
        memory: True or `Memory(…)`: a notebook for each principal, which later runs read. The model
            has the tools `remember`, `recall` and `forget`. Needs a log.
        snapshots: Stores the files of the working directory, or of the given folder, after each
            step, so that a fork or a rewind can restore them. The tools `"files"` and `"command"`
            work in that folder.
        worktree: As a tool of another agent, works in its own copy of that agent's files. Changes
            are merged into them when it has succeeded; those that cannot be are reported as open
            conflicts. The agent that asks it needs `snapshots`.
        tool_search: True offers the tools of toolsets (such as MCP servers) only after the model
            has found them, by a search of its provider where that is known to exist, else with
            `search_tools`. "local" always uses `search_tools`. None searches above 50 tools or
            about 16,000 tokens of descriptions. False never.
        strategy: Name of a strategy (`"react"`, `"cot"`, `"self_correct"`, `"decompose"`, `"plan"`,
            `"direct"`), or a function that makes one.
        limits: Bounds of a run: steps, calls, seconds, tokens, dollars.
        policy: Rules for tools: which are denied, which need approval.
        models: Other models by role: planner, executor, evaluator, finalizer, critic,
            compactor.
        grounding_judge: A model that judges, after the answer, whether the thoughts of a run rest
            on what was observed. One recorded call, within the limits. None leaves it to the rules.
        compaction: How older steps are shortened near the end of the window: `"fold"` keeps one
            line of each, `"summary"` asks the model with the role `compactor` for a summary.
        approve: Approves actions: a callback, `"terminal"` or `"all"`. None lets the run wait for a
            decision.
        ask_user: Offers the reserved action `ask_user`: the model may ask the user.
        strict: Asks the model again, once per turn, for what a reply lacks by the rules of the
            loop. Otherwise violations are only recorded. A run keeps the value it began with.
        research: Allows the seventh type of thought, research.
        on_denial: `"stop"` ends the run when an action is denied, `"continue"` shows the denial to
            the model.
        hooks: Code around model and tool calls, also those of agents that this agent calls.
        cache: Answers identical requests from memory, for as long as the agent lives.
        secrets: Values that are never written, besides those found in the environment.
        max_tokens: Maximum tokens of one reply. 0 leaves it to the model.
        temperature: Sampling temperature. None leaves it to the model.
        top_p: Nucleus sampling. None leaves it to the model.
        effort: Reasoning effort: none, minimal, low, medium, high, xhigh, max.
        prompt_cache: Lifetime of the provider's prompt cache: `"5m"`, `"1h"`, `"off"`. An empty
            string keeps the provider's default.
        service_tier: Service tier, as the provider names it.
        extra: Further fields of each request, as the provider documents them.
        raise_on_limit: Raises `LimitReached` when a limit ends a run.
        log: Stores the runs: a `Log`, a path, or `"memory"` (for as long as the agent lives). None
            keeps each run in its result only, so sessions do not work.
    """

    model: ModelSpec
    _: KW_ONLY
    base_url: str = ""
    output: TypeForm[Out] = str  # type: ignore[assignment] # pyright: ignore[reportAssignmentType]
    deps_type: type[Deps] | None = None
    name: str = "agent"
    description: str = ""
    instructions: Instructions[Deps] = ""
    tools: Sequence[Any] = ()
    handoffs: "Sequence[Agent[Any, Any]] | Callable[[], Sequence[Agent[Any, Any]]]" = ()
    discover: str | Path | Sequence[str | Path] = ()
    skills: "Sequence[str | Path | Skill]" = ()
    project_instructions: bool | str | Path = False
    memory: "bool | Memory" = False
    snapshots: bool | str | Path = False
    worktree: bool = False
    tool_search: bool | Literal["local"] | None = None
    strategy: "StrategyName | Callable[[Task], Strategy[Any]]" = "react"
    limits: Limits = field(default_factory=Limits)
    policy: Policy = field(default_factory=Policy)
    models: Mapping[str, ModelSpec] = field(default_factory=dict[str, ModelSpec])
    grounding_judge: ModelSpec | None = None
    compaction: Compaction = "fold"
    approve: Approver | Literal["terminal", "all"] | None = None
    ask_user: bool = False
    strict: bool = False
    research: bool = False
    on_denial: Literal["continue", "stop"] = "continue"
    hooks: Sequence[Hook] = ()
    cache: bool = False
    secrets: Sequence[str] = ()
    max_tokens: int = 0
    temperature: float | None = None
    top_p: float | None = None
    effort: Effort | None = None
    prompt_cache: PromptCache = ""
    service_tier: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    raise_on_limit: bool = False
    log: Log | str | None = None

    def __post_init__(self) -> None:
        """Raises `ConfigError` for arguments whose fault would otherwise surface far from here."""
        for name, (fits, wanted) in _KINDS.items():
            value = getattr(self, name)
            if not fits(value):
                # The text of an agent or of a tool has all its fields.
                shown = "" if name == "secrets" else f", not {line(repr(value), _SHOWN)}"
                raise ConfigError(f"{wanted}{shown}", path=name)
        if isinstance(self.strategy, str):
            check_strategy(self.strategy)
            check_model_roles(self.models)
        # A generator is not inspected: it can be read only once.
        named = self.tools if isinstance(self.tools, list | tuple) else ()
        for index, tool in enumerate(named):
            if isinstance(tool, str) and tool not in _BUILT_IN and tool not in tool_names():
                hint = near(tool, [*_BUILT_IN, *tool_names()])
                wrong = f"there is no built-in tool {tool!r}; {hint}; your own are functions"
                raise ConfigError(wrong, path=f"tools[{index}]")
        if isinstance(self.output, str):
            wrong = f"is a type: write output={self.output}, not {self.output!r}"
            raise ConfigError(wrong, path="output")
        # Validates the settings now instead of at the first model call.
        _ = self.model_settings

    @property
    def toolset(self) -> Toolset:
        """The agent's tools and the process's custom actions, as their sources describe them now.

        Raises:
            ConfigError: A tool cannot be used. An ExceptionGroup if several cannot.
        """
        toolset = self._made_toolset
        current = toolset.renewed()
        if current is not toolset:
            # Runs that have values derived from the older tools keep them.
            for name in ("offers", "offered", "noted", "_plan"):
                self.__dict__.pop(name, None)
            self.__dict__["_made_toolset"] = current
        return current

    @property
    def plan(self) -> "AgentPlan":
        """The parts that all runs of the agent share. Renewed when the sources of its tools change.

        Raises:
            ConfigError: The agent cannot run as described. An ExceptionGroup of several faults.
        """
        _ = self.toolset  # drops a plan that was made with older tools
        return self._plan

    @cached_property
    def _plan(self) -> "AgentPlan":
        from taofold.agent.plan import compile_plan

        return compile_plan(self)

    @cached_property
    def listed_toolset(self) -> Toolset:
        """The tools of `tools=` alone, without those that other options add.

        Raises:
            ConfigError: A tool cannot be used. An ExceptionGroup if several cannot.
        """
        return _toolset(self.tools, self.snapshot_folder or Path.cwd())

    @property
    def lasting_tools(self) -> list[Tool]:
        """The tools that a copy without `discover` and `skills` may list in `tools=`.

        The others are made again by the copy: notebooks, hand-offs, and the search of tools.
        """
        from taofold.memory import memory_tools
        from taofold.tools.search import ToolSearch

        notebook = memory_tools() if self.memory else Toolset([])
        return [
            tool
            for name, tool in self.toolset.items()
            if tool.successor is None
            and not isinstance(tool.function, ToolSearch)
            and notebook.get(name) is not tool
        ]

    @cached_property
    def _made_toolset(self) -> Toolset:
        """The tools, built once.

        Raises:
            ConfigError: A tool cannot be used. An ExceptionGroup if several cannot.
        """
        _check_acyclic(self, {})
        tools = self.listed_toolset
        if self.discover:
            from taofold.tools.discovery import discover_toolset

            tools = Toolset.of(tools, discover_toolset(self.discover))
        if self.skills:
            from taofold.skills import find_skills, skill_tools

            tools = Toolset.of(tools, skill_tools(find_skills(self.skills)))
        if self.memory:
            from taofold.memory import memory_tools

            tools = Toolset.of(tools, memory_tools())
        if self.handoffs:
            from taofold.agent.team import hand_off_tools

            tools = Toolset.of(tools, *hand_off_tools(self))
        # The agent's own tool takes precedence over a custom action of the same name.
        added = [tool for name, tool in custom_actions().items() if name not in tools]
        tools = Toolset.of(tools, *added) if added else tools
        away = deferred(tools, True if self.tool_search == "local" else self.tool_search)
        if not away:
            return tools
        from taofold.tools.search import search_tool

        if SEARCH in tools:
            raise ConfigError(
                f"a tool is named {SEARCH!r}, as the search of many tools is: rename it with "
                "prefixed() or renamed(), or pass tool_search=False"
            )
        return Toolset.of(tools, search_tool([tools[name] for name in tools if name in away]))

    @cached_property
    def team(self) -> "Mapping[str, Agent[Any, Any]]":
        """The agents that may be active in a run of this one, by name; itself first.

        Raises:
            ConfigError: They cannot share a run.
        """
        if not self.handoffs:
            return {self.name: self}
        from taofold.agent.team import team_of

        return team_of(self)

    @property
    def original(self) -> "Agent[Any, Any]":
        """The agent of which this one is a copy, changed by `replace`; itself if it is none."""
        original: Agent[Any, Any] = self.__dict__.get("_original", self)
        return original

    @cached_property
    def project_folder(self) -> Path | None:
        """The folder whose `AGENTS.md` models are shown. None if they are shown none.

        Raises:
            ConfigError: The named folder is none.
        """
        given = self.project_instructions
        if isinstance(given, bool):
            return Path.cwd() if given else None
        folder = Path(given).absolute()
        if not folder.is_dir():
            raise ConfigError(
                f"{str(given)!r} is not a folder: name the folder of the project, or True for the "
                "working directory",
                path="project_instructions",
            )
        return folder

    @cached_property
    def snapshot_folder(self) -> Path | None:
        """The folder whose files are stored after each step. None if none are."""
        given = self.snapshots
        return None if given is False else Path.cwd() if given is True else Path(given).absolute()

    @cached_property
    def memory_bounds(self) -> "Memory | None":
        """The bounds of the agent's notebooks. None if it has none."""
        if not self.memory:
            return None
        from taofold.memory import Memory

        return self.memory if isinstance(self.memory, Memory) else Memory()

    @cached_property
    def opened_log(self) -> Log | None:
        """The log of the agent, opened. None if each run keeps its own."""
        return None if self.log is None else open_log(self.log)

    @cached_property
    def offers(self) -> "tuple[Offer, ...]":
        """The tools in the form that strategies use."""
        from taofold.reasoning import Offer

        tools = self.toolset
        # The search knows the choice. With its own tool among them it could be another one.
        search = tools[SEARCH].function if SEARCH in tools else None
        away: Collection[str] = ()
        if search is not None:
            from taofold.tools.search import ToolSearch

            away = search.known if isinstance(search, ToolSearch) else ()
        return tuple(
            [
                Offer(
                    t.name,
                    t.model_description,
                    t.schema,
                    t.effect,
                    t.pinned,
                    t.name in away,
                    "" if t.successor is None else t.successor.name,
                )
                for t in tools.values()
            ]
        )

    @property
    def callable_names(self) -> list[str]:
        """The names of the tools that models may call in a run, whichever agent is active."""
        return list(dict.fromkeys([n for member in self.team.values() for n in member.toolset]))

    @cached_property
    def offered(self) -> dict[tuple[str, ...], tuple[ToolSpec, ...]]:
        """Cache of the tool specifications that models were offered, by the tools' names."""
        return {}

    @cached_property
    def noted(self) -> dict[str, Any]:
        """Facts about the agent that are recorded with each run, for the rules and for replay."""
        noted: dict[str, Any] = {STRICT: self.strict}
        # `runs check` judges a log without the agent's tools, so their effects are recorded.
        effects = {offer.name: offer.effect for offer in self.offers if offer.effect != "read"}
        if effects:
            noted["effects"] = effects
        if self.research:
            noted["research"] = True
        if self.grounding_judge is not None:
            noted[JUDGE] = self.plan.models[JUDGE].name
        if self.compaction != "fold":
            noted[COMPACTION] = self.compaction
        if any(offer.deferred for offer in self.offers):
            profile = self.plan.models["executor"].profile
            loads = profile.tool_search and profile.native_tools
            side = "local" if self.tool_search == "local" else "provider"
            noted[TOOL_SEARCH] = side if loads else True
        if isinstance(self.instructions, str) and self.instructions:
            noted["instructions"] = self.redactor.text(self.instructions)
        return noted

    @cached_property
    def model_settings(self) -> ModelSettings:
        """Settings for models that have none of their own."""
        return ModelSettings.of(
            {
                "effort": self.effort,
                "temperature": self.temperature,
                "top_p": self.top_p,
                "max_tokens": self.max_tokens,
                "prompt_cache": self.prompt_cache,
                "service_tier": self.service_tier,
                "extra": dict(self.extra),
            }
        )

    @cached_property
    def answer(self) -> "Output":
        """Schema and validation of the answer's type.

        Raises:
            ConfigError: A model cannot be asked for a value of this type.
        """
        from taofold.reasoning import Output

        try:
            return Output(self.output)
        except PydanticUserError as error:
            what = error.message.partition("\n")[0]
            raise ConfigError(
                f"{self.output!r} is no type of an answer: {what}", path="output"
            ) from error

    @cached_property
    def replies(self) -> dict[str, Reply]:
        """Replies that `cache` keeps for as long as the agent lives."""
        return {}

    @cached_property
    def redactor(self) -> Redactor:
        """Removes `secrets` and the secrets found in the environment at the first run.

        The secrets of agents to which it hands over are in the same log, so they are removed too.
        """
        secrets = [secret for member in self.team.values() for secret in member.secrets]
        return Redactor((*secrets, *Redactor.secrets_in(os.environ)))

    def known_secrets(self, depth: int = 4) -> frozenset[str]:
        """Returns the secrets known to this agent's redactor and to those of agents it can call.

        Args:
            depth: Levels of called agents to include.
        """
        own = frozenset(self.redactor.known)
        # Agents may call each other in a circle, so the depth is bounded.
        called = [t.agent or t.successor for t in self.toolset.values()]
        inner = [cast("Agent[Any, Any]", agent) for agent in called if agent is not None]
        return own.union(*[agent.known_secrets(depth - 1) for agent in inner]) if depth else own

    @classmethod
    def from_file(
        cls, path: str | Path, *, root: str | Path = ".", allow_python: bool = False
    ) -> "Agent[Any, Any]":
        """Returns the agent of an agent file or a flow, as `taofold run FILE` reads it.

        The environment (`TAOFOLD_MODEL`, `TAOFOLD_LIMITS_…`) supplies what the file leaves open.
        The operator's policy applies to the command line only. MCP servers of the file are started
        and asked for their tools, which blocks.

        Example:
            ```python
            from pathlib import Path

            from taofold import Agent

            Path("agent.yaml").write_text("model: openai:gpt-5")
            agent = Agent.from_file("agent.yaml")
            print(agent.run_sync("Count to three.").output)
            ```

        Args:
            path: The agent file or flow.
            root: Working directory of its file and command tools.
            allow_python: Permits nodes whose Python code the sandbox cannot run. It then runs in a
                contained process.

        Raises:
            ConfigError: The file cannot be read, or the environment is wrong.
            ExceptionGroup: All faults of the file, each with its line.
        """
        # By name: agent files are read in a layer above this one.
        files = import_module("taofold.files")
        agent: Agent[Any, Any] = files.load_agent(Path(path), Path(root), allow_python=allow_python)
        return agent

    def replace(self, **changes: Any) -> "Agent[Deps, Out]":
        """Returns a copy of the agent with some arguments changed.

        The copy shares an in-memory log with the original. If `model` is given as a name,
        `base_url` is kept; a `Model` or a list resets it.

        Example:
            ```python
            careful = agent.replace(temperature=0.0, strict=True)
            ```

        Args:
            changes: Arguments of `Agent` with their new values.

        Raises:
            ConfigError: A new value is wrong.
            TypeError: `Agent` has no such argument.
        """
        for name in changes:
            if name not in Agent.__dataclass_fields__:
                hint = near(name, signature(Agent).parameters)
                raise TypeError(f"Agent has no argument {name!r}{hint and f'; {hint}'}")
        if not isinstance(changes.get("model", ""), str):
            changes.setdefault("base_url", "")
        # "memory" means one log for each agent. A changed copy must share it.
        if self.log == "memory":
            changes.setdefault("log", self.opened_log)
        copy = replace(self, **changes)
        copy.__dict__["_original"] = self.original
        return copy

    async def run(
        self,
        goal: Prompt,
        *,
        deps: Deps | None = None,
        principal: Principal | None = None,
        session: str = "",
        tags: Mapping[str, str] | None = None,
        run_id: str = "",
        data: Mapping[str, Any] | None = None,
        ui_context: str = "",
        history: Sequence[Earlier] = (),
        settings: Mapping[str, Any] | None = None,
        if_waiting: IfWaiting = "answer",
        listener: Callable[[Happening], None] | None = None,
        **fields: Never,
    ) -> RunResult[Out]:
        """Works on a goal until it is reached, a limit is hit, or an approval is needed.

        Example:
            ```python
            result = await agent.run("How many words does notes.txt have?", tags={"team": "x"})
            print(result.output, result.usage.tokens)
            ```

        Args:
            goal: The task: a text, or a list of texts and attachments (`Image`, `Document`,
                `Audio`).
            deps: Dependencies for tools and instructions, as `RunContext.deps`.
            principal: The user on whose behalf the run acts. None is the owner of the process.
            session: Name of the conversation that the run continues. Needs a log.
            tags: Names and values that lists of runs can be filtered by: at most 16.
            run_id: Id of the new run. An empty string makes a new id.
            data: JSON values for tools and instructions, as `RunContext.data`. Recorded without
                secrets.
            ui_context: State of the embedding user interface, shown to the model before the goal.
                At most 2,000 characters are used.
            history: Earlier messages of the conversation: `Message`s, pairs of role and text, or
                messages of OpenAI's and Anthropic's SDKs.
            settings: Values recorded with the run, for code that must rebuild the agent.
            if_waiting: Effect of the goal while a run of `session` waits. `"answer"` answers its
                question (the result is that run's) and withdraws pending approvals. `"withdraw"`
                ends the waiting run. `"refuse"` raises `Conflict`. Expired approvals are always
                withdrawn.
            listener: Called with each event, text delta and progress report of the run.

        Returns:
            The result. A run that waits is a result too: see `RunResult.pending`.

        Raises:
            ConfigError: The agent cannot run as described. An ExceptionGroup of several faults.
            Conflict: The id is taken, or a run of the session has not ended.
            TypeError: An option does not exist. Arguments of the agent are changed by `replace`.
            LimitReached: A limit ended the run. Only with `raise_on_limit`.
        """
        if fields:
            raise TypeError(_no_option(next(iter(fields))))
        activation = await self._activation(deps, principal, listener)
        return await activation.run(
            goal,
            session=session,
            tags=tags,
            run_id=run_id,
            data=data,
            ui_context=ui_context,
            history=history,
            settings=settings,
            if_waiting=if_waiting,
        )

    def run_sync(
        self,
        goal: Prompt,
        *,
        listener: Callable[[Happening], None] | None = None,
        **options: Unpack[RunOptions[Deps]],
    ) -> RunResult[Out]:
        """Runs the agent from code that is not async. Works inside a running loop too (notebooks).

        Example:
            ```python
            print(agent.run_sync("How many words does notes.txt have?").output)
            ```

        Args:
            goal: The task: a text, or a list of texts and attachments.
            listener: Called with each event, text delta and progress report of the run.
            options: Options of `run`.

        Returns:
            The result of the run, as `run` returns it.
        """
        given: Any = options
        return run_now(self.run(goal, listener=listener, **given))

    def stream(self, goal: Prompt, **options: Unpack[RunOptions[Deps]]) -> Stream[Out]:
        """Starts a run whose events, text or partial output are read while it happens.

        Example:
            ```python
            stream = agent.stream("Describe notes.txt.")
            async for text in stream.text():
                print(text, end="", flush=True)
            print(stream.result.usage)
            ```

        Args:
            goal: The task: a text, or a list of texts and attachments.
            options: Options of `run`, except `listener`.

        Returns:
            The stream. The run starts when the iteration does.
        """
        live, given = self.strategy in ANSWERING, cast("Any", options)
        return Stream(
            lambda listener: self.run(goal, listener=listener, **given),
            lambda: AnswerText(self.callable_names, live=live),
            self.output,
        )

    async def resume(
        self,
        run: "str | RunResult[Any]",
        *,
        deps: Deps | None = None,
        principal: Principal | None = None,
        listener: Callable[[Happening], None] | None = None,
        takeover: bool = False,
    ) -> RunResult[Out]:
        """Continues a run that waits, was interrupted, was cancelled or was forked.

        Example:
            ```python
            result = await agent.run("Pay Ada's bill.")
            if result.status == "waiting":  # the user decides, later
                result = await agent.resume(result)
            ```

        Args:
            run: The run's result or its id.
            deps: Dependencies for tools.
            principal: The user on whose behalf the run goes on. None keeps the run's own principal.
            listener: Called with each event, text delta and progress report of the run.
            takeover: Takes the run from another live process.

        Returns:
            The result of the whole run.

        Raises:
            Refused: The run has ended in a way that cannot be resumed.
            Conflict: Another live process drives the run and `takeover` is not set.
        """
        log, run_id = settle_log(self.opened_log, run)
        activation = await self._activation(deps, principal, listener, log)
        return await activation.resume(run_id, takeover=takeover)

    async def begin(
        self,
        goal: Prompt,
        *,
        deps: Deps | None = None,
        principal: Principal | None = None,
        run_id: str = "",
        **options: Unpack[StartOptions],
    ) -> str:
        """Records a run without driving it. `advance` drives it later.

        Example:
            ```python
            run_id = await agent.begin("How many words does notes.txt have?")
            await agent.advance(run_id)
            print((await agent.result(run_id)).output)
            ```

        Args:
            goal: The task: a text, or a list of texts and attachments.
            deps: Dependencies for `instructions` that are a function. `advance` takes its own.
            principal: The user on whose behalf the run acts.
            run_id: Id of the new run. An empty string makes a new id.
            options: Options of `run`: session, tags, data, ui_context, history, settings.

        Returns:
            The id of the run.

        Raises:
            ConfigError: The agent cannot run as described, or has no log. Or a file of the goal
                cannot be read, is too large, damaged, or of another kind.
            Conflict: The id is taken, or another run of the session has not ended.
        """
        if self.log is None:
            raise ConfigError("a run that is begun needs a log to lie in: pass log=…")
        activation = await self._activation(deps, principal)
        return (await activation.begin(goal, run_id=run_id, **options))[0]

    async def cancel(self, run: "str | RunResult[Any]", *, by: Principal | None = None) -> bool:
        """Cancels a run and its children. Finished work is kept, and no further call starts.

        Example:
            ```python
            run_id = await agent.begin("Count the words of every file.")
            await agent.cancel(run_id)
            ```

        Args:
            run: The run's result or its id.
            by: The principal that cancels. None is the owner of the process.

        Returns:
            True if the run is over. False if a process drives it: it ends before its next call.

        Raises:
            UnknownRun: There is no such run.
            Refused: The run has already ended.
        """
        from taofold.runtime.control import cancel

        log, run_id = settle_log(self.opened_log, run)
        return await cancel(log, run_id, by=by or Principal(), redactor=self.redactor)

    async def steer(
        self, run: "str | RunResult[Any]", text: str, *, by: Principal | None = None
    ) -> None:
        """Sends a message to the model of a run, which reads it once, at its next turn.

        Example:
            ```python
            run_id = await agent.begin("Where does Ada live?")
            await agent.steer(run_id, "Ada has moved to Oslo.")
            ```

        Args:
            run: The run's result or its id.
            text: The message.
            by: The principal that sends it. None is the owner of the process.

        Raises:
            UnknownRun: There is no such run.
            Refused: The run has ended.
        """
        from taofold.runtime.control import steer

        log, run_id = settle_log(self.opened_log, run)
        await steer(log, run_id, text, by=by or Principal(), redactor=self.redactor)

    async def advance(
        self,
        run: str,
        *,
        deps: Deps | None = None,
        principal: Principal | None = None,
        listener: Callable[[Happening], None] | None = None,
        pause: Pause = str,
    ) -> Advanced:
        """Does everything that can be done for a run now. An engine may call it at any time.

        A run that has ended, waits, or is driven by another process is left unchanged.

        Example:
            ```python
            run_id = await agent.begin("How many words does notes.txt have?")
            advanced = await agent.advance(run_id)
            ```

        Args:
            run: The run's id.
            deps: Dependencies for tools.
            principal: The user on whose behalf the run goes on. None keeps the run's own principal.
            listener: Called with each event, text delta and progress report of the run.
            pause: Called before each model call. Returns the reason why the run must wait, or an
                empty string.

        Returns:
            The status of the run and when it is due again.

        Raises:
            UnknownRun: There is no such run.
        """
        log, run_id = settle_log(self.opened_log, run)
        activation = await self._activation(deps, principal, listener, log)
        return await activation.advance(run_id, pause)

    def resume_sync(
        self, run: "str | RunResult[Any]", **options: Unpack[ResumeOptions[Deps]]
    ) -> RunResult[Out]:
        """Continues a run from code that is not async.

        Args:
            run: The run's result or its id.
            options: Options of `resume`.

        Returns:
            The result of the whole run, as `resume` returns it.
        """
        return run_now(self.resume(run, **options))

    async def result(self, run: str) -> RunResult[Out]:
        """Reads the result of a run, finished or not, from the log. Nothing is driven.

        Example:
            ```python
            print((await agent.result(run_id)).status)
            ```

        Args:
            run: The run's id.

        Returns:
            The result so far.

        Raises:
            UnknownRun: There is no such run.
        """
        log, run_id = settle_log(self.opened_log, run)
        return await (await self._activation(log=log)).result(run_id)

    async def prompts(self, run: "str | RunResult[Any]") -> list[SentPrompt]:
        """Returns what the model was sent in each model call of a run.

        The run is derived again from its log, offline. Each prompt is compared with the digest in
        the log. A prompt that cannot be derived has the reason in `missing`.

        Example:
            ```python
            for prompt in await agent.prompts(result):
                print(prompt.number, prompt.system, prompt.messages, prompt.tools)
            ```

        Args:
            run: The run's result or its id.

        Returns:
            One prompt for each model call, in the order of the calls.

        Raises:
            UnknownRun: There is no such run.
        """
        log, run_id = settle_log(self.opened_log, run)
        return await sent_prompts(log, run_id, lambda heard: self.replace(log=heard).replay(run_id))

    async def map(
        self,
        goals: Iterable[Prompt],
        *,
        name: str = "",
        concurrency: int = 4,
        usd: float | None = None,
        progress: "Callable[[BatchState], None] | Literal['terminal'] | None" = None,
        **options: Unpack[RunOptions[Deps]],
    ) -> "Batch[Out]":
        """Works on many goals, each in a run of its own.

        A run that fails stops no other. With a `name` and a log, the same call continues where an
        earlier one stopped. Runs that ended are read from the log, not repeated.

        Example:
            ```python
            batch = await agent.map(["Count a.txt.", "Count b.txt."], name="count", concurrency=8)
            print(batch.summary)
            ```

        Args:
            goals: The goals: texts, or lists of texts and attachments.
            name: Name of the batch. An empty string makes a new one.
            concurrency: Number of runs at the same time.
            usd: Dollars that all runs and their children may cost together, earlier calls of the
                same name included. A call that might exceed it is not made: its run waits (for
                `batch_usd`), and no further goal begins. The same call with a higher value goes on.
            progress: Called with a `BatchState` after each run. `"terminal"` draws a bar.
            options: Options of `run`, the same for all goals.

        Returns:
            The results, in the order of the goals.

        Raises:
            ConfigError: The agent cannot run as described, a goal cannot be read, or `usd` is given
                for a model without a known price.
        """
        from taofold.agent.batch import run_batch

        await self.load_toolset()
        return await run_batch(self, goals, name, concurrency, usd, progress, options)

    def map_sync(
        self, goals: Iterable[Prompt], **options: Unpack[MapOptions[Deps]]
    ) -> "Batch[Out]":
        """Works on many goals from code that is not async.

        Ctrl-C with `progress="terminal"` prints how to continue and ends a script with exit code
        130.

        Args:
            goals: The goals: texts, or lists of texts and attachments.
            options: Options of `map`.

        Returns:
            The results, in the order of the goals.
        """
        try:
            return run_now(self.map(goals, **options))
        except KeyboardInterrupt:
            # SystemExit would end an interactive session, so there the exception stays as it is.
            if options.get("progress") != "terminal" or hasattr(sys, "ps1"):
                raise
            from taofold.agent.batch import Interrupted

            raise Interrupted(130) from None

    async def replay(self, run: "str | RunResult[Any]") -> RunResult[Out]:
        """Derives a run again offline and compares: no model, no tool, no writing.

        Example:
            ```python
            again = await agent.replay(result)
            assert again.output == result.output
            ```

        Args:
            run: The run's result or its id.

        Returns:
            The derived result, equal to the recorded one.

        Raises:
            ReplayDiverged: The first difference between the run and its log.
        """
        log, run_id = settle_log(self.opened_log, run)
        return await (await self._activation(log=log)).replay(run_id)

    async def fork(
        self,
        run: "str | RunResult[Any]",
        *,
        at: int | None = None,
        run_id: str = "",
        folder: str | Path | None = None,
        deps: Deps | None = None,
        listener: Callable[[Happening], None] | None = None,
    ) -> RunResult[Out]:
        """Starts a new run from the first records of another, and drives it.

        The copy ends with the last complete step at or before event `at`. If the agent has
        `snapshots`, the files of that step are restored into another folder, and the new run works
        there. The event `restored` lists the calls that this does not undo.

        Example:
            ```python
            branch = await agent.fork(result, at=1)
            print(branch.run_id, branch.output)
            ```

        Args:
            run: The source run's result or its id.
            at: Number (`seq`) of an event of the source run. None keeps all complete steps.
            run_id: Id of the new run. An empty string makes a new id.
            folder: A new or empty folder for the files. None: one in the user's state folder. The
                source's own folder restores them there, if no change would be lost.
            deps: Dependencies for tools.
            listener: Called with each event, text delta and progress report of the new run.

        Returns:
            The result of the new run.

        Raises:
            UnknownRun: There is no such run.
            Refused: The run has no event `at`, the files of the step are not stored, or changes of
                files would be lost.
            ConfigError: A tool is bound to the source's folder.
        """
        log, source = settle_log(self.opened_log, run)
        activation = await self._activation(deps, None, listener, log)
        if self.snapshot_folder is None:
            if folder is not None:
                raise ConfigError("goes with snapshots=True", path="folder")
            return await activation.fork(source, at=at, run_id=run_id)
        new, where = await activation.fork_files(
            source, at=at, run_id=run_id, folder=None if folder is None else Path(folder)
        )
        moved = self.replace(snapshots=where)
        return await (await moved._activation(deps, None, listener, log)).resume(new)

    async def _activation(
        self,
        deps: Deps | None = None,
        principal: Principal | None = None,
        listener: Callable[[Happening], None] | None = None,
        log: Log | None = None,
    ) -> "Activation":
        """Returns the agent, ready to drive a run."""
        from taofold.agent.activation import Activation

        # The constructor of `Activation` would otherwise build the toolset inside the event loop.
        await self.load_toolset()
        return Activation(self, deps, principal, listener, log)

    async def load_toolset(self) -> None:
        """Builds the toolset, in a thread if servers have to be asked for their tools."""
        # Reading the cached property would build it here and block.
        if "_made_toolset" in self.__dict__:
            return
        _check_acyclic(self, {})
        if any(_remote(member.tools) for member in self.team.values()):
            await WORKERS.run(lambda: [member.toolset for member in self.team.values()])

    def as_tool(self, name: str = "", description: str = "") -> Tool:
        """Returns this agent as a tool of another. Its own tools are governed inside the child run.

        Example:
            ```python
            from taofold import Agent

            researcher = Agent("openai:gpt-5", name="researcher", description="Looks up facts.")
            writer = Agent("openai:gpt-5", tools=[researcher.as_tool("look_up")])
            ```

        Args:
            name: Name of the tool. An empty string uses the agent's name.
            description: Description for the model. An empty string uses the agent's description.

        Returns:
            The tool. Its tier is the highest tier of the agent's tools.

        Raises:
            ConfigError: One of the agent's tools cannot be used.
        """
        tier, effect = self._reach()
        return Tool(
            name=name or self.name,
            description=description or self.description or f"Ask the agent {self.name}.",
            schema=_SCHEMA,
            # The caller's policy sees only this tool, so it has the highest tier of the agent's
            # tools.
            tier=tier,
            effect=effect,
            reversible=True,
            agent=self,
            # An agent with its own approver asks that one instead of the caller's (D15).
            delegated=self.approve is None,
            renew=self._raised
            if any(tool.renew for member in self.team.values() for tool in member.toolset.values())
            else None,
        )

    def _reach(self) -> tuple[Tier, Sideeffect]:
        """Returns tier and effect of a call to the whole agent, from its tools as they are now."""
        tools = [tool for member in self.team.values() for tool in member.toolset.values()]
        reads = all(tool.effect == "read" for tool in tools)
        # A repeated call continues the child run from its own log, so it is idempotent.
        return max((t.tier for t in tools), default=Tier.AUTO), "read" if reads else "idempotent"

    def _raised(self, tool: Tool) -> Tool:
        """Returns `tool` with at least the tier that the agent's tools have now."""
        tier, effect = self._reach()
        tier, effect = max(tier, tool.tier), effect if tool.effect == "read" else tool.effect
        if (tier, effect) == (tool.tier, tool.effect):
            return tool
        return replace(tool, tier=tier, effect=effect)


def _no_option(name: str) -> str:
    """Returns the error message for an option that `run` does not have."""
    if name in Agent.__dataclass_fields__:
        return f"run() has no option {name!r}: write agent.replace({name}=…).run(…)"
    options = [option for option in signature(Agent.run).parameters if option != "fields"]
    hint = near(name, options) or f"its options are {', '.join(options[2:])}"
    return f"run() has no option {name!r}; {hint}"


def _builtin_tool(name: str, folder: Path) -> Tool | Toolset:
    """Returns a built-in tool for the folder, or the tools of an installed package."""
    if name not in _BUILT_IN:
        if name not in tool_names():
            hint = near(name, [*_BUILT_IN, *tool_names()])
            raise ConfigError(f"there is no built-in tool {name!r}; {hint}")
        return load_tools(name)
    make: Callable[[Path], Tool | Toolset]
    make = getattr(import_module(f"taofold.tools.{name}"), _BUILT_IN[name])
    return make(folder)


def _check_acyclic(agent: Agent[Any, Any], open_: dict[int, bool]) -> None:
    """Raises `ConfigError` if an agent is, directly or through others, among its own tools.

    Args:
        agent: The agent whose tools are followed.
        open_: For the identity of each agent reached so far: True while its tools are being
            followed.
    """
    # A run of the agent may be handed over: the tools of all its agents are called in it.
    team = {id(member): member for member in agent.team.values()}
    if any(open_.get(key) for key in team):
        raise ConfigError(
            f"agent {agent.name!r} is among its own tools, directly or through another agent: "
            "give it another agent with fewer tools instead",
            path="tools",
        )
    if id(agent) in open_:
        return
    open_.update(dict.fromkeys(team, True))
    for member in team.values():
        # Iterating a generator would consume it. It cannot contain the agent that it is given to.
        things: Any = member.tools
        for thing in cast("Sequence[Any]", things) if isinstance(things, Sequence) else ():
            if isinstance(thing, Agent):
                _check_acyclic(cast("Agent[Any, Any]", thing), open_)
    open_.update(dict.fromkeys(team, False))


def _remote(things: Sequence[Any]) -> bool:
    """Returns True if a server has to be asked for the tools."""
    return any(
        _remote(cast("Agent[Any, Any]", thing).tools) if isinstance(thing, Agent) else thing.remote
        for thing in things
        if isinstance(thing, Agent | Toolset)
    )


def _toolset(things: Sequence[Any], folder: Path) -> Toolset:
    faults: list[ConfigError] = []
    tools: list[Tool] = []
    for thing in things:
        try:
            if isinstance(thing, Agent):
                tools.append(cast("Agent[Any, Any]", thing).as_tool())
            elif isinstance(thing, str):
                built_in = _builtin_tool(thing, folder)
                tools += [built_in] if isinstance(built_in, Tool) else built_in.values()
            elif isinstance(thing, Toolset):
                tools += thing.values()
            else:
                tools.append(as_tool(thing))
        except ConfigError as error:
            faults.append(error)
    # All faults are raised together. A single fault needs no group.
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise ExceptionGroup("the agent's tools cannot be used", faults)
    return Toolset.of(*tools)
