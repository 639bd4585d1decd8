"""Makes the `Agent` of a command from its AGENT argument or from a run's record.

`make` takes an `AgentChoice`, which holds the options of the command line or of the record. AGENT
is an agent file, a `module:attr`, or empty. If it is empty, the default agent has file and command
tools on the current directory. This module connects the models of the agent file or of `--model`; a
flow without model calls needs none. It then applies the operator's policy, the tools of `--tools`
folders and the flags.

`taofold.files` reads agent files.
"""

import os
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from taofold.agent.origin import ORIGIN
from taofold.cli import project
from taofold.cli.output import say
from taofold.cli.tracebacks import know
from taofold.core.errors import ConfigError
from taofold.core.json_values import is_object
from taofold.reserved_places import read_named
from taofold.skills import SkillWarning, find_skills, skill_tools
from taofold.skills.sources import PROJECT, USER
from taofold.tools.discovery import DiscoveryWarning, discover_toolset

if TYPE_CHECKING:
    from taofold.agent import Agent
    from taofold.core.events import RunStarted
    from taofold.files.config import Config
    from taofold.policy import Policy
    from taofold.runtime.model import Model
    from taofold.runtime.setup import Approver
    from taofold.tools.container_network import Reach


def live(
    agent: "Agent[Any, Any]", model: str, provider: str
) -> "tuple[Model, Mapping[str, Model]]":
    """Connects the agent's default model and its other models by name; `model` replaces all.

    Raises:
        ConfigError: There is no model, or it cannot be used.
    """
    # Imported here, as in most commands, so that `--help` and completion start fast.
    from taofold.runtime.providers import resolve

    if model:
        connected = resolve(model, provider=provider)
        return connected, dict.fromkeys(agent.models, connected)
    if not agent.model:
        from taofold.files.flow.unasked import NO_MODEL

        raise ConfigError(NO_MODEL)
    others = {name: resolve(spec, provider=provider) for name, spec in agent.models.items()}
    where = {"base_url": agent.base_url} if agent.base_url else {}
    return resolve(agent.model, provider=provider, **where), others


def everywhere(
    agent: "Agent[Any, Any]", changes: "Callable[[Agent[Any, Any]], Mapping[str, Any]]"
) -> "Agent[Any, Any]":
    """Returns the agent with `changes` applied to it, to all agents among its tools, and to those
    to which it hands over.
    """
    from taofold.agent import Agent
    from taofold.agent.team import changed_team
    from taofold.tools import Tool

    def inner(thing: Any) -> Any:
        if isinstance(thing, Agent):
            return everywhere(cast("Agent[Any, Any]", thing), changes)
        if not isinstance(thing, Tool):
            return thing
        tool = cast("Tool[..., Any]", thing)
        return replace(tool, agent=inner(tool.agent)) if tool.agent is not None else tool

    return changed_team(
        agent, lambda each: each.replace(**changes(each), tools=tuple(map(inner, each.tools)))
    )


def with_model(agent: "Agent[Any, Any]", model: "Model") -> "Agent[Any, Any]":
    """Returns the agent with `model` as every model, so that a run calls and pays no other one."""
    return everywhere(agent, lambda a: {"model": model, "models": dict.fromkeys(a.models, model)})


def with_autonomy(agent: "Agent[Any, Any]", autonomy: str) -> "Agent[Any, Any]":
    """Returns the agent and its inner agents with the autonomy of the command line.

    It replaces the autonomy of a file or of code, which cannot know whether the run is watched.
    """
    return everywhere(
        agent,
        lambda a: {"policy": replace(a.policy, autonomy=autonomy)},  # type: ignore[arg-type]
    )


SETTINGS: Final = "cli"
"""The command line's key in `RunStarted.settings`."""
STEPS: Final = 30
DIAL: Final = ("conservative", "balanced", "autonomous")
_HARMLESS: Final = frozenset(
    {"autonomy", "unsaid_autonomy", "strict", "limits", "no_project", "instructions"}
)
"""The fields of a choice that name no file, folder, tool, model or program."""
UNNAMED: Final = "name the agent with --agent: a stored run does not choose the code to run"
_INSTRUCTIONS: Final = (
    "You work on the files of one directory. Look before you change anything, "
    "change as little as you can, and check your work by running it."
)


@dataclass(frozen=True, slots=True)
class AgentChoice:
    """The options of the command line about the agent, enough to make the same agent again."""

    agent: str = ""
    folder: str = ""
    """Current directory of the command; names are relative to it."""
    root: str = ""
    model: str = ""
    autonomy: str = ""
    """The autonomy of the command line. It replaces the autonomy of a file or of code."""
    unsaid_autonomy: str = ""
    """The default autonomy of the command. A file or code may tighten it."""
    strict: bool = False
    network: bool = False
    ports: list[int] = field(default_factory=list[int])
    """TCP ports of this machine that commands may use."""
    allow_python: bool = False
    """Nodes of a flow may run Python in a contained process."""
    limits: dict[str, float] = field(default_factory=dict[str, float])
    digest: str = ""
    """Digest of the agent file, to detect later changes."""
    tools: list[str] = field(default_factory=list[str])
    """Folders in which tools are discovered, relative to `folder`."""
    flat: bool = False
    """True: search these folders only, not the folders below."""
    no_project: bool = False
    """True: no `AGENTS.md` is shown to models."""
    skills: list[str] = field(default_factory=list[str])
    """Sources of skills; folders are relative to `folder`."""
    snapshots: bool = False
    """True: the files of `root` are stored after each step, with any agent."""
    instructions: str = ""
    """Instructions of a loop that replace the agent's own; "" = none."""

    @property
    def reach(self) -> "Reach":
        """Network access of sandboxed commands."""
        from taofold.tools.container_network import Reach

        return Reach(self.network, tuple(self.ports))

    @classmethod
    def of(cls, record: Mapping[Any, Any]) -> "AgentChoice":
        """Reads a recorded choice, possibly of another release."""
        # Unknown keys are dropped: a newer release may have written the log.
        names = {attribute.name for attribute in fields(cls)}
        return cls(**{str(name): value for name, value in record.items() if name in names})

    def told(self) -> dict[str, Any]:
        """Returns the options that were set, as JSON values."""
        return {
            name: value for name, value in asdict(self).items() if value not in ("", None, {}, [])
        }

    def settings(self) -> dict[str, Any]:
        """Returns the choice as settings for the run's log."""
        return {SETTINGS: self.told()}


def chosen(
    agent: str,
    root: Path | None = None,
    *,
    model: str = "",
    autonomy: str = "",
    unsaid_autonomy: str = "",
    strict: bool = False,
    network: bool = False,
    ports: Iterable[int] = (),
    limits: dict[str, float] | None = None,
    tools: Iterable[Path] = (),
    recursive: bool = True,
    allow_python: bool = False,
    skills: Iterable[str] = (),
    project_instructions: bool = True,
    snapshots: bool = False,
) -> AgentChoice:
    """Returns the choice for the arguments of a command."""
    here = Path.cwd()
    work = (here / root if root else here).resolve()
    if not work.is_dir():
        raise ConfigError(f"the work root {str(work)!r} is no directory", path="--root")
    if autonomy and autonomy not in DIAL:
        raise ConfigError(f"--autonomy is one of {', '.join(DIAL)}, not {autonomy!r}")
    paths, skills = [str(path) for path in tools], list(skills)
    if is_coding_agent(agent):
        option = "--tools" if paths else "--skills" if skills else ""
        option = option or "--snapshots" * snapshots
        _refuse_ours(agent, strict=strict, option=option)
    choice = AgentChoice(
        agent,
        str(here),
        str(work),
        model,
        autonomy,
        unsaid_autonomy,
        strict,
        network,
        list(ports),
        allow_python,
        limits or {},
        tools=paths,
        flat=not recursive,
        skills=skills,
        no_project=not project_instructions,
        snapshots=snapshots,
    )
    return replace(choice, digest=_digest(choice))


def _refuse_ours(agent: str, *, strict: bool, option: str) -> None:
    """Refuses options that a coding agent does not support: strict, and `option` if it is given.

    Raises:
        ConfigError: Such an option was given.
    """
    if strict:
        raise ConfigError(
            f"{agent!r} is a coding agent, whose thoughts are not checked: leave --strict out",
            path="--strict",
        )
    if option:
        raise ConfigError(
            f"{agent!r} is a coding agent, which has its own: leave {option} out, and configure "
            "them in its own settings",
            path=option,
        )


def is_recorded(started: "RunStarted | None") -> bool:
    """Returns whether the run records how its agent is made."""
    return started is not None and not {SETTINGS, ORIGIN}.isdisjoint(started.settings)


def recorded_choice(
    started: "RunStarted", agent: str = "", model: str = "", *, quiet: bool = False
) -> AgentChoice:
    """Returns the choice that a run was started with. `agent` and `model` replace its own.

    Without `quiet` a note is printed if the agent file has changed since.

    Raises:
        ConfigError: The run was not started by the command line, or is from another machine.
    """
    settings: Any = started.settings.get(SETTINGS)
    if not is_object(settings):
        origin: Any = started.settings.get(ORIGIN)
        if agent or not is_object(origin):
            return replace(chosen(_named(agent), model=model), digest="")
        # For a Python program the run records the file and the agent's name in it.
        settings = {**origin, "root": str(Path.cwd())}
    choice = AgentChoice.of(settings)
    if agent:
        # Without a digest: an explicitly named agent needs no note.
        choice = replace(choice, agent=agent, folder=str(Path.cwd()), digest="")
    elif not quiet and choice.digest and choice.digest != _digest(choice):
        say(f"note: {choice.agent} has changed since this run began")
    return replace(choice, model=model) if model else choice


def named_choice(started: "RunStarted", agent: str = "") -> AgentChoice:
    """Returns the choice for a run that anyone may have written: no code that it names is run.

    Only `agent`, which the user names, names code. The recorded choice counts without the words
    that name a file, folder, tool or program. The default agent of the command line has no code.

    Raises:
        ConfigError: `agent` is "" and the run names code, or its options are damaged.
    """
    settings = started.settings.get(SETTINGS)
    if not is_object(settings):
        settings = {}
    if not agent and not _is_codeless(settings):
        raise ConfigError(UNNAMED)
    try:
        recorded = {name: settings[name] for name in _HARMLESS & settings.keys()}
        kept = msgspec.convert(recorded, AgentChoice)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the options that the run records are damaged: {error}") from error
    if {kept.autonomy, kept.unsaid_autonomy} - {"", *DIAL}:
        raise ConfigError("the run records an autonomy that does not exist")
    options = {name: getattr(kept, name) for name in _HARMLESS}
    return replace(chosen(agent), digest="", **options)


def _is_codeless(settings: Mapping[Any, Any]) -> bool:
    """Returns whether a recorded choice is the default agent, on the present directory.

    Options of another agent, or another directory with other instructions, make another prompt.
    """
    here = str(Path.cwd())
    unnamed = settings.keys() - _HARMLESS - {"folder", "root", "model"}
    return settings.get("root") == here and not any([settings[name] for name in unnamed])


def _named(agent: str) -> str:
    if not agent:
        raise ConfigError(
            "this run does not say how to make its agent: it was imported, or the program that "
            "began it holds the agent by no name in its own file. Name it: --agent FILE.py:NAME "
            "(or an agent file, or module:attr)"
        )
    return agent


def approved_by(
    agent: "Agent[Any, Any]", word: str, approver: "Approver | None"
) -> "Agent[Any, Any]":
    """Returns the agent with its approver.

    Args:
        agent: As `make` made it with `own_approver`.
        word: Value of `--approve`; "" without the option. An agent then keeps the approver of its
            own code.
        approver: Asks at the terminal or approves everything; None: the run waits.
    """
    if not word and agent.approve not in (None, "terminal"):
        return agent
    return agent.replace(approve=approver)


def make(
    choice: AgentChoice,
    stand_in: "Model | None" = None,
    *,
    own_approver: bool = False,
    operator: "Policy | None" = None,
) -> "Agent[Any, Any]":
    """Makes the agent under the operator's policy. `stand_in` replaces its model.

    Without `own_approver` the agent has no approver: on a server or in an evaluation the
    developer's own approver is not available. `operator` replaces the operator's policy.

    Raises:
        ConfigError: The description has a fault; several faults are an ExceptionGroup.
    """
    config, operator = project.config(), operator or project.operator_policy()
    dial: Any = choice.autonomy or choice.unsaid_autonomy
    if dial:
        operator = replace(operator, autonomy=dial)
    if is_coding_agent(choice.agent):
        return _coding(choice, operator, stand_in, own_approver=own_approver)
    with _discovery():
        agent = _described(choice, config, operator)
        agent = _with_discovered(agent, choice)
        agent = _with_skills(agent, choice)
        if choice.no_project:
            agent = agent.replace(project_instructions=False)
        if agent.discover or agent.skills:
            agent.toolset  # noqa: B018 - made here, to report unusable files now
    know(agent.known_secrets())
    if choice.autonomy:
        agent = with_autonomy(agent, choice.autonomy)
    changes = _changes(agent, choice, own_approver=own_approver)
    if choice.strict:
        changes["strict"] = True
    if choice.snapshots or agent.snapshots:
        # An agent of a Python program works where the command does, as its tools do.
        changes["snapshots"] = Path(choice.root)
    if stand_in is not None:
        return with_model(agent, stand_in).replace(**changes)
    default, others = live(agent, choice.model, config.provider)
    if choice.model:
        return with_model(agent, default).replace(**changes)
    return agent.replace(model=default, models=others, **changes)


@contextmanager
def _discovery() -> Generator[None]:
    """Prints warnings about tools and skills that were left out as notes of this program."""
    with warnings.catch_warnings(record=True) as caught:
        for kind in (DiscoveryWarning, SkillWarning):
            warnings.simplefilter("always", kind)
        yield
    for warning in caught:
        if issubclass(warning.category, DiscoveryWarning | SkillWarning):
            say(f"note: {warning.message}")
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


def _with_discovered(agent: "Agent[Any, Any]", choice: AgentChoice) -> "Agent[Any, Any]":
    if not choice.tools:
        return agent
    paths = [Path(choice.folder) / name for name in choice.tools]
    absent = [str(path) for path in paths if not path.exists()]
    if absent:
        raise ConfigError(f"there is no file or directory {', '.join(absent)}", path="--tools")
    return agent.replace(tools=(*agent.tools, discover_toolset(paths, recursive=not choice.flat)))


def _with_skills(agent: "Agent[Any, Any]", choice: AgentChoice) -> "Agent[Any, Any]":
    if not choice.skills:
        return agent
    named = (USER, PROJECT)
    sources = [each if each in named else Path(choice.folder) / each for each in choice.skills]
    skills = find_skills(sources, choice.root)
    return agent.replace(
        tools=(*agent.tools, skill_tools(skills, choice.root, network=choice.reach))
    )


def _described(choice: AgentChoice, config: "Config", operator: "Policy") -> "Agent[Any, Any]":
    folder, root = Path(choice.folder), Path(choice.root)
    if not choice.agent:
        return _default(config, operator, root, choice.reach)
    if is_file(choice.agent):
        from taofold.files.checked_yaml import refuse
        from taofold.files.flow.file import build, read_agent, without_idle_model

        path = folder / choice.agent
        if not path.exists():
            raise ConfigError(f"there is no agent file {choice.agent!r}{_beside(path)}")
        file, faults = read_agent(path, operator, choice.agent)
        if file is None:
            refuse(faults, f"{choice.agent} cannot be used")
        agent = build(file, config, root, choice.reach, allow_python=choice.allow_python)
        return without_idle_model(agent, file)
    return _imported(choice.agent, folder, operator)


def is_file(agent: str) -> bool:
    """Returns whether the argument is an agent file, not `module:attr`."""
    return agent.endswith((".yaml", ".yml")) and not agent.startswith("cmd:")


def is_coding_agent(agent: str) -> bool:
    """Returns whether the argument is a coding agent's name, or `cmd:` and a command."""
    # Skips the import if the agent is certainly of another kind.
    if not agent or is_file(agent):
        return False
    from taofold.bridges.coding_agents import names_coding_agent

    return names_coding_agent(agent)


def made_per_folder(agent: str) -> bool:
    """Returns whether each folder gets its own agent.

    An agent from Python is made only once.
    """
    return not agent or is_file(agent) or is_coding_agent(agent)


def _coding(
    choice: AgentChoice, operator: "Policy", stand_in: "Model | None", *, own_approver: bool
) -> "Agent[Any, Any]":
    """Makes an agent that runs a coding agent's program."""
    from taofold.bridges.coding_agents import coding_agent

    agent: Agent[Any, Any] = coding_agent(
        choice.agent, choice.root, model=choice.model, policy=operator, ports=choice.ports
    )
    if stand_in is not None:
        agent = with_model(agent, stand_in)
    return agent.replace(**_changes(agent, choice, own_approver=own_approver))


def _changes(
    agent: "Agent[Any, Any]", choice: AgentChoice, *, own_approver: bool
) -> dict[str, Any]:
    """Returns the changes of the choice that apply to any agent."""
    changes: dict[str, Any] = {}
    if choice.instructions:
        changes["instructions"] = choice.instructions
    if choice.limits:
        changes["limits"] = replace(agent.limits, **choice.limits)  # type: ignore[arg-type]
    if not own_approver:
        changes["approve"] = None
    return changes


def _imported(name: str, folder: Path, operator: "Policy") -> "Agent[Any, Any]":
    from taofold.agent import Agent
    from taofold.files.python_references import is_name, load
    from taofold.policy import Policy

    if name.endswith(".py"):
        raise ConfigError(f"AGENT names an agent in {name!r}: write {name}:agent")
    if not is_name(name):
        raise ConfigError(
            "AGENT is an agent file (.yaml), module:attr or a coding agent (claude, codex, gemini, "
            f"opencode, aider, cmd: COMMAND), not {name!r}{_beside(folder / name)}"
        )
    agent: Any = load(name, folder)
    if not isinstance(agent, Agent):
        raise ConfigError(f"{name!r} is of the type {type(agent).__name__}, not an Agent")
    imported = cast("Agent[Any, Any]", agent)
    # An agent with the default policy tightens nothing, like an agent file without a policy.
    own = imported.policy
    return imported.replace(policy=operator if own == Policy() else operator.tightened(own))


def _default(config: "Config", operator: "Policy", root: Path, reach: "Reach") -> "Agent[Any, Any]":
    from taofold.agent import Agent
    from taofold.policy import Limits

    limits = replace(Limits(steps=STEPS), **config.limits.given())
    return Agent[Any, Any](
        config.model,
        name="default",
        instructions=_INSTRUCTIONS,
        tools=tools_for_work(root, reach),
        project_instructions=root,
        limits=limits,
        policy=operator,
    )


def has_own_tools(agent: "Agent[Any, Any]") -> bool:
    """Returns whether the agent has tools, without opening any, such as an MCP server."""
    return bool(agent.tools or agent.discover)


def tools_for_work(root: Path, reach: "Reach") -> "tuple[Any, ...]":
    """Returns the file and command tools for a folder."""
    from taofold.tools.command import command_tool
    from taofold.tools.files import file_tools

    return file_tools(root), command_tool(root, network=reach)


def _digest(choice: AgentChoice) -> str:
    if not is_file(choice.agent):
        return ""
    try:
        body = read_named(Path(choice.folder) / choice.agent)
    except (OSError, ConfigError):
        return ""
    return blake2b(body, digest_size=8).hexdigest()


def _beside(path: Path) -> str:
    """Returns a hint with files of similar names."""
    from difflib import get_close_matches

    try:
        names = [name for name in os.listdir(path.parent) if is_file(name)]  # noqa: PTH208
    except OSError:
        return ""
    similar = get_close_matches(path.name, names, n=2, cutoff=0.5)
    return f"; did you mean {' or '.join(map(repr, similar))}?" if similar else ""
