"""The stored runs of `policy test`, `runs recheck` and `runs verify`, and their agents for reading.

A stored run names no code that runs: the user names its agent with `--agent`, or permits the
recorded ones with `--recorded-agents`. `StoredSelection` reads `--runs`, `StoredChoices` makes the
agents, without models.
"""

import re
from collections.abc import AsyncIterator, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

import typer

from taofold.cli.output import fail, say
from taofold.core.errors import ConfigError, TaofoldError, UnknownRun
from taofold.core.text import excerpt, times

if TYPE_CHECKING:
    from taofold.agent import Agent
    from taofold.cli.agent_argument import AgentChoice
    from taofold.core.events import RunStarted
    from taofold.log.log import Log, RunRow
    from taofold.policy import Policy
    from taofold.runtime.model import Model

_NUMBER: Final = re.compile(r"[-+]?\d[\dA-Za-z ]*|\d+[-.:]\S*|all", re.IGNORECASE)
_SHOWN: Final = 300
_KEPT: Final = 64
"""Number of agents that are kept."""

StoredRuns = Annotated[
    list[str] | None,
    typer.Option(
        "--runs",
        metavar="PERIOD|RUN",
        help="The runs of a period (30d, 12h, 2w, all), or a run. Repeatable for runs.",
    ),
]
StoredAgents = Annotated[
    list[str] | None,
    typer.Option(
        "--agent",
        metavar="AGENT",
        help="Agent file or module:attr for the runs of the agent with its name. Repeatable.",
    ),
]
RecordedAgents = Annotated[
    bool,
    typer.Option(
        "--recorded-agents",
        envvar="TAOFOLD_RECORDED_AGENTS",
        help="Make agents as the runs record them. Imports code that the log names: only for a "
        "log that only you write.",
    ),
]


@dataclass(slots=True)
class StoredSelection:
    """The runs of `--runs`: those named, else all since `start` (milliseconds since the epoch).

    A period leaves out the forks of earlier rechecks and their child runs: they show what was
    tested then. `left_out` counts them.
    """

    runs: Sequence[str] = ()
    start: int = 0
    left_out: int = 0

    @classmethod
    def of(cls, words: Sequence[str]) -> Self:
        """Reads the words of `--runs`: one period, or some runs."""
        from taofold.backtest.stored_calls import PERIOD, period_start
        from taofold.clocks import clock

        periods = [word for word in words if PERIOD.fullmatch(word)]
        if not periods:
            return cls(tuple(words))
        if len(words) > 1:
            fail(f"--runs is one period or some runs, not {', '.join(words)}")
        return cls(start=period_start(periods[0], clock()))

    def note(self) -> str:
        """Returns how many runs were left out; "" for none."""
        out = self.left_out
        return f"left out: {times(out, 'run')} of forks that `runs recheck` made" if out else ""

    async def rows(self, log: "Log") -> "AsyncIterator[RunRow]":
        """Yields the rows of the runs."""
        from taofold.backtest.stored_calls import is_trial, rows_since

        if not self.runs:
            async for row in rows_since(log, self.start):
                if is_trial(row):
                    self.left_out += 1
                else:
                    yield row
            return
        # All names are resolved before the first run is read.
        names = [await _named(log, run) for run in self.runs]
        for name in dict.fromkeys(names):
            yield await log.row(name)


async def _named(log: "Log", word: str) -> str:
    """Returns the id of the run that a value of `--runs` names.

    Raises:
        UnknownRun: There is none. For a number with a unit the message names the units.
    """
    from taofold.cli.runs.find import find

    try:
        return await find(log, word)
    except UnknownRun:
        if not _NUMBER.fullmatch(word):
            raise
    raise UnknownRun(
        f"{word!r} is neither a run nor a period: a period is a number and m, h, d or w "
        "(minutes, hours, days, weeks), such as 30d, or all"
    )


@dataclass(slots=True)
class StoredChoices:
    """The agents of stored root runs, each made once. Calling it returns that of a run.

    Args:
        policy: Replaces the operator's policy.
        agents: Agent files or module:attr. A single one serves all `named` runs, also those of
            agents with other names.
        recorded: True: agents that are not named are made as the runs record them.
        named: True if the user named the runs.
    """

    policy: "Policy | None"
    agents: Sequence[str] = ()
    recorded: bool = False
    named: bool = False
    _made: dict[str, "Agent[Any, Any] | ConfigError"] = field(
        default_factory=dict[str, "Agent[Any, Any] | ConfigError"]
    )
    _names: dict[str, str] = field(default_factory=dict[str, str])
    _noted: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        from taofold.cli.agent_argument import chosen

        for agent in self.agents:
            made = self.made(chosen(agent))
            if made.name in self._names:
                raise ConfigError(f"two agents are named {made.name!r}", path="--agent")
            self._names[made.name] = agent

    def __call__(self, started: "RunStarted") -> "Agent[Any, Any]":
        """Returns the agent of a run.

        Raises:
            ConfigError: The user named none, or it cannot be made.
        """
        key = dumps(asdict(choice := self.choice(started)), sort_keys=True, default=str)
        if key not in self._made:
            if len(self._made) >= _KEPT:
                self._made.pop(next(iter(self._made)))
            self._made[key] = self._tried(choice)
        kept = self._made[key]
        if isinstance(kept, ConfigError):
            raise ConfigError(str(kept))
        return kept

    def choice(self, started: "RunStarted") -> "AgentChoice":
        """Returns how the agent of a run is made.

        Raises:
            ConfigError: The user named no agent for it.
        """
        from taofold.cli.agent_argument import UNNAMED, named_choice, recorded_choice

        agent = self._names.get(started.agent, "")
        if self.named and len(self.agents) == 1:
            agent = self.agents[0]
        if self.agents and not agent:
            ours = ", ".join([repr(name) for name in self._names])
            raise ConfigError(f"a run of the agent {started.agent!r}, not of {ours}")
        if not self.recorded:
            return named_choice(started, agent)
        try:
            return recorded_choice(started, agent, quiet=True)
        except ConfigError:
            raise ConfigError(UNNAMED) from None

    def made(self, choice: "AgentChoice", model: "Model | None" = None) -> "Agent[Any, Any]":
        """Returns the agent of a choice. Without `model` it calls none."""
        from taofold.cli.agent_argument import make
        from taofold.files.flow.unasked import UnaskedModel

        with self._noting():
            return make(choice, model or UnaskedModel(), operator=self.policy)

    def driver(self, started: "RunStarted", model: str) -> "Agent[Any, Any]":
        """Returns the agent that continues a fork of the run, with its models or with `model`."""
        from taofold.cli.agent_argument import make

        choice = self.choice(started)
        choice = replace(choice, model=model) if model else choice
        with self._noting():
            return make(choice, operator=self.policy)

    @contextmanager
    def _noting(self) -> Generator[None]:
        """Prints a note, once, for each key of a project that the tested policy would refuse."""
        from taofold.files.policy import tested_policy

        if self.policy is None:
            yield
            return
        with tested_policy() as looser:
            yield
        for key in looser:
            text = f"{key.location}: looser than the tested policy ({key.message})"
            if text not in self._noted:
                self._noted.add(text)
                say(
                    f"note: {text}; tested with the stricter value, but with this policy of the "
                    "operator the agent would not start"
                )

    def _tried(self, choice: "AgentChoice") -> "Agent[Any, Any] | ConfigError":
        try:
            return self.made(choice)
        except ExceptionGroup as group:
            faults = "; ".join([str(error) for error in group.exceptions[:2]])
            return ConfigError(excerpt(f"its agent cannot be made: {faults}", _SHOWN))
        except (TaofoldError, ImportError, OSError) as error:
            return ConfigError(excerpt(f"its agent cannot be made: {error}", _SHOWN))
