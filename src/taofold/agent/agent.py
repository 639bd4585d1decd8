"""`Agent`: a cheap, immutable description of an agent, and the verbs to run it.

`replace` gives a copy with other fields, `as_tool` makes it a tool of another agent. State lives in
runs, never here. Mistakes in the description are found before the first model call, all at once. A
new option is a field here, its kind in `_KINDS`, its key in `files/agent.py`, and the place where
it takes effect (`docs/internals/changing.md`).
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
from taofold.agent.options import STRICT, IfWaiting, MapOptions, RunOptions, StartOptions
from taofold.agent.prompts import SentPrompt, sent_prompts
from taofold.agent.result import ANSWERING, AnswerText, Out, RunResult, Stream, settle_log
from taofold.agent.strategies import StrategyName, check_strategy
from taofold.core.errors import ConfigError
from taofold.core.happenings import Happening
from taofold.core.text import near
from taofold.core.values import (
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
from taofold.tools.threads import WORKERS, run_now
from taofold.tools.toolset import custom_actions

if TYPE_CHECKING:
    # What runs an agent is loaded with its first run: a program that only describes agents, or
    # prints its help, does without.
    from taofold.agent.activation import Activation
    from taofold.agent.batch import Batch, BatchState
    from taofold.agent.plan import AgentPlan
    from taofold.core.effects import Strategy
    from taofold.reasoning import Offer, Output, Task

_SCHEMA = {
    "type": "object",
    "properties": {"goal": {"type": "string", "description": "What the agent should do."}},
    "required": ["goal"],
    "additionalProperties": False,
}


_BUILT_IN: Final = {"files": "file_tools", "command": "command_tool"}
"""Tools that are named: their modules in `taofold.tools` are loaded when one is."""


def _of(*kinds: Any) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, kinds)


def _list_of(*kinds: Any) -> Callable[[Any], bool]:
    def fits(value: Any) -> bool:
        # A text would be taken letter by letter, and a generator be used up by a look at it.
        if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
            return False
        items = cast("Collection[Any]", value) if isinstance(value, Collection) else ()
        return all([isinstance(item, kinds) for item in items])

    return fits


def _path_or_paths(value: Any) -> bool:
    return isinstance(value, str | Path) or _list_of(str, Path)(value)


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
    # None is what `os.environ.get` gives.
    "base_url": (_of(str, type(None)), "is a text"),
    **dict.fromkeys(("models", "extra"), _MAPPING),
    **dict.fromkeys(("ask_user", "research", "cache", "raise_on_limit"), _FLAG),
    "strict": (_of(bool), "is True or False"),
    "strategy": (
        lambda value: isinstance(value, str) or callable(value),
        "is a name or a function",
    ),
    "tools": (_list_of(object), "is a list: write tools=[add]"),
    "hooks": (_list_of(object), "is a list: write hooks=[Guard()]"),
    "secrets": (_list_of(str), "is a list of texts: write secrets=[token]"),
    "discover": (_path_or_paths, "is a folder or a list of folders"),
    "output": (
        lambda value: not isinstance(value, bytes | int | float | list | tuple | dict | set),
        "is a type",
    ),
    # Anything else would mean "continue" without a word, for whoever wanted it to stop.
    "on_denial": (lambda value: value in ("continue", "stop"), "is 'continue' or 'stop'"),
    "approve": (
        lambda value: value in (None, "terminal", "all") or callable(value),
        "is a callback, 'terminal' or 'all'",
    ),
    "log": (
        lambda value: value is None or isinstance(value, str | Path) or hasattr(value, "create"),
        "is a log, a path or 'memory'",
    ),
}
"""What each option must be; it would fail far from where it was written, or not at all."""


@dataclass(frozen=True)
class Agent(Generic[Deps, Out]):
    """An agent: a model, tools, a strategy, and the rules it works under.

        agent = Agent("openai:gpt-5", tools=[price], output=float)
        print(agent.run_sync("What do two teas cost?").output)

    Generic in its dependencies and its output.

    Args:
        model: Provider:model, a Model, or a list of fallbacks.
        base_url: Address of the model's server, if it is not at its provider's.
        output: Type of the answer, also a union such as City | None.
        deps_type: Type of deps; a run without deps is then a ConfigError.
        name: Name in the log, and as another agent's tool.
        description: What it is good for, when it is another agent's tool.
        instructions: The first text for the model: a string, or a function of the RunContext.
        tools: Functions, @tools, toolsets, other agents, "files", "command".
        discover: Directories whose tagent.tools.py and taofold_tools.py are run for more tools.
        strategy: Name of a strategy, or a function that makes one.
        limits: Bounds of a run: steps, calls, seconds, tokens, dollars.
        policy: Rules for tools: what is denied, what asks a person.
        models: Other models by role: planner, executor, evaluator, finalizer, critic.
        approve: Who approves: a callback, "terminal" or "all"; None lets the run wait.
        ask_user: Offer the action ask_user: the model may ask a person.
        strict: Ask again, once per turn, for what a reply lacks by the rules of the loop.
        research: Allow the seventh type of thought.
        on_denial: "stop" ends the run when an action is denied.
        hooks: Code around model and tool calls, also those of the agents that it asks.
        cache: Answer identical requests from memory, for as long as the agent lives.
        secrets: Values that are never written, besides those of the environment.
        max_tokens: Tokens of one reply; 0 = the model's own bound.
        temperature: Sampling temperature; None = the model's own.
        top_p: Nucleus sampling; None = the model's own.
        effort: How hard models think: none, minimal, low, medium, high, xhigh, max.
        prompt_cache: How long providers keep the prompt: "5m", "1h", "off".
        service_tier: Tier of service, as the provider names it.
        extra: Further fields of each request, as the provider documents them.
        raise_on_limit: Raise LimitReached when a limit ends a run.
        log: Where runs are kept: a Log, a path, or "memory"; None keeps each in its result.
    """

    model: ModelSpec
    """`provider:model`, a `Model`, or a list of fallbacks."""
    _: KW_ONLY
    base_url: str = ""
    """Where the model's server is, if not at its provider's; of `model`, if it is one name."""
    output: TypeForm[Out] = str  # type: ignore[assignment] # pyright: ignore[reportAssignmentType]
    """The type of the answer, also a union; `result.output` is an instance of it."""
    deps_type: type[Deps] | None = None
    """What `deps` must be, for type checkers. A run without `deps` is then a `ConfigError`."""
    name: str = "agent"
    description: str = ""
    """What it is good for, when it serves as another agent's tool."""
    instructions: Instructions[Deps] = ""
    """The first text for the model: a string, or a function of the `RunContext` that returns it.

    A function is called once, when a run starts; its text is recorded with the run.
    """
    tools: Sequence[Any] = ()
    """Functions, `@tool`s, toolsets, other agents; "files", "command" in the working directory."""
    discover: str | Path | Sequence[str | Path] = ()
    """Directories whose `tagent.tools.py` and `taofold_tools.py` are **run** for more tools.

    What such a file lacks is a `DiscoveryWarning`; no tool found is below tier 2.
    """
    strategy: "StrategyName | Callable[[Task], Strategy[Any]]" = "react"
    limits: Limits = field(default_factory=Limits)
    policy: Policy = field(default_factory=Policy)
    models: Mapping[str, ModelSpec] = field(default_factory=dict[str, ModelSpec])
    """Other models by role: planner, executor, evaluator, finalizer, critic."""
    approve: Approver | Literal["terminal", "all"] | None = None
    """A callback, "terminal" or "all"; None parks the run until somebody decides."""
    ask_user: bool = False
    """Offer the reserved action `ask_user`."""
    strict: bool = False
    """Ask again, once per turn, for what a reply lacks by the rules of the loop (D3).

    Without it nothing is refused for its form, and what breaks a rule is recorded. A run keeps the
    strictness it began with.
    """
    research: bool = False
    """Allow the seventh thought type."""
    on_denial: Literal["continue", "stop"] = "continue"
    """"stop" ends the run when an action is denied."""
    hooks: Sequence[Hook] = ()
    """Code around its model and tool calls, and those of the agents it asks."""
    cache: bool = False
    """Answer identical requests from memory."""
    secrets: Sequence[str] = ()
    """Values that must never be written, besides those of the environment."""
    max_tokens: int = 0
    temperature: float | None = None
    top_p: float | None = None
    effort: Effort | None = None
    """How hard its models shall think: none, minimal, low, medium, high, xhigh, max."""
    prompt_cache: PromptCache = ""
    """How long providers shall keep the prompt: "5m", "1h", "off"; "" = as is usual there."""
    service_tier: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Further fields of each request, as the provider documents them."""
    raise_on_limit: bool = False
    log: Log | str | None = None
    """Where runs are kept: a `Log`, a path, or "memory", for as long as the agent lives.

    None keeps each run by itself, in its result: no session remembers.
    """

    def __post_init__(self) -> None:
        """Raise `ConfigError` for what is easily mistaken: it would fail far from here."""
        for name, (fits, wanted) in _KINDS.items():
            value = getattr(self, name)
            if not fits(value):
                shown = "" if name == "secrets" else f", not {value!r}"
                raise ConfigError(f"{wanted}{shown}", path=name)
        if isinstance(self.strategy, str):
            check_strategy(self.strategy)
        # A generator is not looked into: it could be read only once.
        named = self.tools if isinstance(self.tools, list | tuple) else ()
        for index, tool in enumerate(named):
            if isinstance(tool, str) and tool not in _BUILT_IN:
                hint = near(tool, _BUILT_IN)
                wrong = f"there is no built-in tool {tool!r}; {hint}; your own are functions"
                raise ConfigError(wrong, path=f"tools[{index}]")
        if isinstance(self.output, str):
            wrong = f"is a type: write output={self.output}, not {self.output!r}"
            raise ConfigError(wrong, path="output")
        # Checked here, not at the first model call: a wrong setting is an error of who wrote it.
        _ = self.model_settings

    @property
    def toolset(self) -> Toolset:
        """Its tools and the process's custom actions, as their sources describe them now.

        Raises:
            ConfigError: a tool cannot be used; an ExceptionGroup of them if several cannot.
        """
        toolset = self._made_toolset
        current = toolset.renewed()
        if current is not toolset:
            # What was made of the older tools stays with the runs that have it.
            for name in ("offers", "offered", "noted", "_plan"):
                self.__dict__.pop(name, None)
            self.__dict__["_made_toolset"] = current
        return current

    @property
    def plan(self) -> "AgentPlan":
        """What all its runs have in common; made again where the sources of its tools changed.

        Raises:
            ConfigError: the agent cannot run as described; an ExceptionGroup of several faults.
        """
        _ = self.toolset  # a plan of older tools is forgotten here
        return self._plan

    @cached_property
    def _plan(self) -> "AgentPlan":
        from taofold.agent.plan import compile_plan

        return compile_plan(self)

    @cached_property
    def _made_toolset(self) -> Toolset:
        """The tools, made once.

        Raises:
            ConfigError: a tool cannot be used; an ExceptionGroup of them if several cannot.
        """
        _check_acyclic(self, {})
        tools = _toolset(self.tools)
        if self.discover:
            from taofold.tools.discovery import discover_toolset

            tools = Toolset.of(tools, discover_toolset(self.discover))
        # The agent's own tool wins over a custom action of the same name.
        added = [tool for name, tool in custom_actions().items() if name not in tools]
        return Toolset.of(tools, *added) if added else tools

    @cached_property
    def opened_log(self) -> Log | None:
        """Where its runs are kept, opened; None if each is kept by itself."""
        return None if self.log is None else open_log(self.log)

    @cached_property
    def offers(self) -> "tuple[Offer, ...]":
        """Its tools as a strategy sees them."""
        from taofold.reasoning import Offer

        tools = self.toolset.values()
        return tuple([Offer(t.name, t.model_description, t.schema, t.effect) for t in tools])

    @cached_property
    def offered(self) -> dict[tuple[str, ...], tuple[ToolSpec, ...]]:
        """Its tools as they were offered to models, by their names."""
        return {}

    @cached_property
    def noted(self) -> dict[str, Any]:
        """What of it is kept with each run: for the rules, and for replay."""
        noted: dict[str, Any] = {STRICT: self.strict}
        # Kept for `runs check`, which judges a log without having the agent's tools.
        effects = {offer.name: offer.effect for offer in self.offers if offer.effect != "read"}
        if effects:
            noted["effects"] = effects
        if self.research:
            noted["research"] = True
        if isinstance(self.instructions, str) and self.instructions:
            noted["instructions"] = self.redactor.text(self.instructions)
        return noted

    @cached_property
    def model_settings(self) -> ModelSettings:
        """How its models are asked, where they have no settings of their own."""
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
        """How the answer's type is asked for and checked.

        Raises:
            ConfigError: no such value can be asked for.
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
        """What `cache` remembers, for as long as this agent lives."""
        return {}

    @cached_property
    def redactor(self) -> Redactor:
        """Takes out `secrets`, and what the environment says is secret at the first run."""
        return Redactor((*self.secrets, *Redactor.secrets_in(os.environ)))

    def known_secrets(self, depth: int = 4) -> frozenset[str]:
        """What its redactor and those of the agents that it may call know to be secret."""
        own = frozenset(self.redactor.known)
        # The depth is bounded because agents may call each other in a circle.
        inner = [cast("Agent[Any, Any]", t.agent) for t in self.toolset.values() if t.agent]
        return own.union(*[agent.known_secrets(depth - 1) for agent in inner]) if depth else own

    @classmethod
    def from_file(cls, path: str | Path, *, root: str | Path = ".") -> "Agent[Any, Any]":
        """Returns the agent of an agent file or a flow, as `taofold run FILE` reads it.

            agent = Agent.from_file("agent.yaml")
            result = agent.run_sync("Bill Ada")

        The environment (`TAOFOLD_MODEL`, `TAOFOLD_LIMITS_…`) fills in what the file leaves open.
        The operator's policy applies to the command line only. MCP servers of the file are
        started and asked for their tools, which blocks.

        Args:
            root: the directory that its file and command tools work in.

        Raises:
            ConfigError: the file cannot be read, or the environment is wrong.
            ExceptionGroup: everything that is wrong with the file, each with its line.
        """
        # By name: agent files are read in a layer above this one.
        files = import_module("taofold.files")
        agent: Agent[Any, Any] = files.load_agent(Path(path), Path(root))
        return agent

    def replace(self, **changes: Any) -> "Agent[Deps, Out]":
        """The same agent with some of its fields changed. It remembers what this one does.

        Another `model` is looked for at the same `base_url` if it is named, else where it is.
        """
        if not isinstance(changes.get("model", ""), str):
            changes.setdefault("base_url", "")
        # "memory" means one log for each agent: a changed copy must not begin another.
        if self.log == "memory":
            changes.setdefault("log", self.opened_log)
        return replace(self, **changes)

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
        """Works on `goal` until it is reached, a limit is hit, or an approval is needed.

            await agent.run(["What is wrong here?", Image("screen.png")])

        Args:
            tags: names and values to filter lists of runs by: `{"team": "x"}`, at most 16.
            if_waiting: what `goal` does while a run of `session` waits: "answer" answers its
                question (the result is that run's) and withdraws what waits for an approval;
                "withdraw" ends the waiting run in any case; "refuse" raises `Conflict`. An
                approval that has expired is always withdrawn.

        Raises:
            ConfigError: the agent cannot run as described (or an ExceptionGroup of them).
            Conflict: the id is taken, or the session has a run that goes on.
            TypeError: there is no such option; a field of the agent is changed by `replace`.
            LimitReached: only with `raise_on_limit`.
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
        """`run` for code that is not async; works inside a running loop too (notebooks)."""
        given: Any = options
        return run_now(self.run(goal, listener=listener, **given))

    def stream(self, goal: Prompt, **options: Unpack[RunOptions[Deps]]) -> Stream[Out]:
        """`run`, as it happens: `async for text in agent.stream(goal).text()`."""
        live, given = self.strategy in ANSWERING, cast("Any", options)
        return Stream(
            lambda listener: self.run(goal, listener=listener, **given),
            lambda: AnswerText(list(self.toolset), live=live),
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
        """Carry on a run that waits, was interrupted or was forked.

        Raises:
            Refused: it has ended in a way that cannot be resumed.
            Conflict: another live process drives it and `takeover` is not set.
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
        """Put a run into the log and return its id; a call of `advance` drives it.

        Args:
            deps: For `instructions` that are a function; `advance` has its own.
            options: As for `run`: session, tags, data, ui_context, history, settings.

        Raises:
            ConfigError: the agent cannot run as described, or has no log; a file of the goal
                cannot be read, is too large, damaged, or of another kind.
            Conflict: the id is taken, or the session has another run that has not ended.
        """
        if self.log is None:
            raise ConfigError("a run that is begun needs a log to lie in: pass log=…")
        activation = await self._activation(deps, principal)
        return (await activation.begin(goal, run_id=run_id, **options))[0]

    async def cancel(self, run: "str | RunResult[Any]", *, by: Principal | None = None) -> bool:
        """Cancels a run and its children. What was done is kept; nothing starts afterwards.

            await agent.cancel(result)

        Returns:
            True if the run is over. False if a process drives it: it ends before its next call.

        Raises:
            UnknownRun: there is no such run.
            Refused: it has ended already.
        """
        from taofold.runtime.control import cancel

        log, run_id = settle_log(self.opened_log, run)
        return await cancel(log, run_id, by=by or Principal(), redactor=self.redactor)

    async def steer(
        self, run: "str | RunResult[Any]", text: str, *, by: Principal | None = None
    ) -> None:
        """Sends the model of a run a message that it reads once, at its next turn.

            await agent.steer(run_id, "Ada has moved to Oslo.")

        Raises:
            UnknownRun: there is no such run.
            Refused: it has ended.
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
        """Do whatever can be done for a run now: what an engine calls, as often as it likes.

        `pause` says before each model call why the run must wait, "" = it may go on. A run
        that has ended or waits is left as it is; so is one that another process drives.

        Raises:
            UnknownRun: there is no such run.
        """
        log, run_id = settle_log(self.opened_log, run)
        activation = await self._activation(deps, principal, listener, log)
        return await activation.advance(run_id, pause)

    def resume_sync(
        self,
        run: "str | RunResult[Any]",
        *,
        deps: Deps | None = None,
        principal: Principal | None = None,
        listener: Callable[[Happening], None] | None = None,
        takeover: bool = False,
    ) -> RunResult[Out]:
        """`resume` for code that is not async."""
        work = self.resume(
            run, deps=deps, principal=principal, listener=listener, takeover=takeover
        )
        return run_now(work)

    async def result(self, run: str) -> RunResult[Out]:
        """How a run ended, or how far it has come; read from the log, nothing is driven.

        Raises:
            UnknownRun: there is no such run.
        """
        log, run_id = settle_log(self.opened_log, run)
        return await (await self._activation(log=log)).result(run_id)

    async def prompts(self, run: "str | RunResult[Any]") -> list[SentPrompt]:
        """What the model was sent in each model call of a run.

            for prompt in await agent.prompts(result):
                print(prompt.number, prompt.system, prompt.messages, prompt.tools)

        The run is derived again from its log, offline, and each prompt is checked against the
        digest that the log holds. A prompt that cannot be derived says why in `missing`.

        Args:
            run: The result of a run, or its id.

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
        """Work on many goals, each a run of its own.

            batch = await agent.map(questions, name="survey", concurrency=8, progress="terminal")
            print(batch.summary)

        A run that fails stops no other. With a `name` and a log the same call goes on where an
        earlier one was stopped: what has ended is read, not done again.

        Args:
            name: of the batch; "" = a new one.
            concurrency: runs at once.
            usd: what all runs and their children may cost together, earlier calls of the name
                included. A call that might not fit is not made: its run waits (for `batch_usd`)
                and goes on when the same call has more, and no further goal is begun.
            progress: hears how far it is, after each run; "terminal" draws a bar.
            options: as for `run`, the same for all.

        Raises:
            ConfigError: the agent cannot run as described, a goal cannot be read, or `usd` is
                given for a model without a known price.
        """
        from taofold.agent.batch import run_batch

        await self.load_toolset()
        return await run_batch(self, goals, name, concurrency, usd, progress, options)

    def map_sync(
        self, goals: Iterable[Prompt], **options: Unpack[MapOptions[Deps]]
    ) -> "Batch[Out]":
        """`map` for code that is not async.

        Ctrl-C with `progress="terminal"` says how to go on and ends a script with exit code 130.
        """
        try:
            return run_now(self.map(goals, **options))
        except KeyboardInterrupt:
            # At a prompt, where SystemExit would end the person's session, it stays what it is.
            if options.get("progress") != "terminal" or hasattr(sys, "ps1"):
                raise
            from taofold.agent.batch import Interrupted

            raise Interrupted(130) from None

    async def replay(self, run: "str | RunResult[Any]") -> RunResult[Out]:
        """Re-derive a run offline: no model, no tool, no writing.

        Raises:
            ReplayDiverged: at the first difference.
        """
        log, run_id = settle_log(self.opened_log, run)
        return await (await self._activation(log=log)).replay(run_id)

    async def fork(
        self,
        run: "str | RunResult[Any]",
        *,
        at: int | None = None,
        run_id: str = "",
        deps: Deps | None = None,
        listener: Callable[[Happening], None] | None = None,
    ) -> RunResult[Out]:
        """Branch off at the last complete step at or before event `at`, and go on from there."""
        log, source = settle_log(self.opened_log, run)
        activation = await self._activation(deps, None, listener, log)
        return await activation.fork(source, at=at, run_id=run_id)

    async def _activation(
        self,
        deps: Deps | None = None,
        principal: Principal | None = None,
        listener: Callable[[Happening], None] | None = None,
        log: Log | None = None,
    ) -> "Activation":
        """Returns the agent, ready to drive a run."""
        from taofold.agent.activation import Activation

        # Before the activation, whose toolset would otherwise be made inside the event loop.
        await self.load_toolset()
        return Activation(self, deps, principal, listener, log)

    async def load_toolset(self) -> None:
        """Make the toolset; servers are asked for their tools without holding up the loop."""
        # Looked up in __dict__: reading the cached property would make it, here, blocking.
        if "_made_toolset" in self.__dict__:
            return
        _check_acyclic(self, {})
        if _remote(self.tools):
            await WORKERS.run(lambda: self.toolset)

    def as_tool(self, name: str = "", description: str = "") -> Tool:
        """This agent as a tool of another. Its own tools are governed inside the child run."""
        tier, effect = self._reach()
        return Tool(
            name=name or self.name,
            description=description or self.description or f"Ask the agent {self.name}.",
            schema=_SCHEMA,
            # As high as the highest tier of its tools: the caller's policy
            # sees nothing else of them.
            tier=tier,
            effect=effect,
            reversible=True,
            agent=self,
            # With an approver of its own it asks somebody else than its caller would (D15).
            delegated=self.approve is None,
            renew=self._raised if any(tool.renew for tool in self.toolset.values()) else None,
        )

    def _reach(self) -> tuple[Tier, Sideeffect]:
        """Tier and effect of a call of the whole agent, by its tools as they are now."""
        tools = self.toolset.values()
        reads = all(tool.effect == "read" for tool in tools)
        # "idempotent", because a child run has a log of its own and goes on where it was.
        return max((t.tier for t in tools), default=Tier.AUTO), "read" if reads else "idempotent"

    def _raised(self, tool: Tool) -> Tool:
        """A tool that calls this agent, as high as the agent's tools are now, or higher."""
        tier, effect = self._reach()
        tier, effect = max(tier, tool.tier), effect if tool.effect == "read" else tool.effect
        if (tier, effect) == (tool.tier, tool.effect):
            return tool
        return replace(tool, tier=tier, effect=effect)


def _no_option(name: str) -> str:
    """Why a run takes no option of this name."""
    if name in Agent.__dataclass_fields__:
        return f"run() has no option {name!r}: write agent.replace({name}=…).run(…)"
    options = [option for option in signature(Agent.run).parameters if option != "fields"]
    hint = near(name, options) or f"its options are {', '.join(options[2:])}"
    return f"run() has no option {name!r}; {hint}"


def _builtin_tool(name: str) -> Tool | Toolset:
    """A built-in tool, for the working directory."""
    if name not in _BUILT_IN:
        raise ConfigError(f"there is no built-in tool {name!r}; {near(name, _BUILT_IN)}")
    make: Callable[[Path], Tool | Toolset]
    make = getattr(import_module(f"taofold.tools.{name}"), _BUILT_IN[name])
    return make(Path.cwd())


def _check_acyclic(agent: Agent[Any, Any], open_: dict[int, bool]) -> None:
    """Raises ConfigError if an agent is, directly or through others, among its own tools.

    Args:
        agent: the agent whose tools are followed.
        open_: by the identity of each agent reached so far, whether its tools are being followed.
    """
    key = id(agent)
    if open_.get(key):
        raise ConfigError(
            f"agent {agent.name!r} is among its own tools, directly or through another agent: "
            "give it another agent with fewer tools instead",
            path="tools",
        )
    if key in open_:
        return
    open_[key] = True
    # A generator is used up by a look, and cannot hold the agent that it is given to.
    things: Any = agent.tools
    for thing in cast("Sequence[Any]", things) if isinstance(things, Sequence) else ():
        if isinstance(thing, Agent):
            _check_acyclic(cast("Agent[Any, Any]", thing), open_)
    open_[key] = False


def _remote(things: Sequence[Any]) -> bool:
    """Must anybody be asked what the tools are?"""
    return any(
        _remote(cast("Agent[Any, Any]", thing).tools) if isinstance(thing, Agent) else thing.remote
        for thing in things
        if isinstance(thing, Agent | Toolset)
    )


def _toolset(things: Sequence[Any]) -> Toolset:
    faults: list[ConfigError] = []
    tools: list[Tool] = []
    for thing in things:
        try:
            if isinstance(thing, Agent):
                tools.append(cast("Agent[Any, Any]", thing).as_tool())
            elif isinstance(thing, str):
                built_in = _builtin_tool(thing)
                tools += [built_in] if isinstance(built_in, Tool) else built_in.values()
            elif isinstance(thing, Toolset):
                tools += thing.values()
            else:
                tools.append(as_tool(thing))
        except ConfigError as error:
            faults.append(error)
    # All that is wrong at once, before the first model call; a lone fault needs no group.
    if len(faults) == 1:
        raise faults[0]
    if faults:
        raise ExceptionGroup("the agent's tools cannot be used", faults)
    return Toolset.of(*tools)
