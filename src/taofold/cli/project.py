"""The project of a command: `.taofold/`, its configuration and policy, log and registry (D16), and
how loops learn here.

Everything that a command reads from the environment is read here: `TAOFOLD_HOME`,
`TAOFOLD_LOG` says where things are, and a variable that looks like one
of ours but is none is warned of.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from taofold.cli.output import invocation, say
from taofold.core.errors import ConfigError
from taofold.reserved_places import PROJECT, open_file, operator_folder

if TYPE_CHECKING:
    from taofold.files.config import Config
    from taofold.learning.registry import Registry
    from taofold.learning.settings import Learning
    from taofold.log.log import Log
    from taofold.policy import Policy


FOLDER: Final = PROJECT
FILE: Final = "runs.db"
LOG: Final = "TAOFOLD_LOG"
"""Names the log, if it is not the project's own file: `postgresql://…`, `sqlite:PATH`."""
BEGIN: Final = {
    "runs": "start one with `{0} run`",
    "loops": "start one with `{0} loop`",
    "patterns": "loops learn them: `{0} loop`, or take some in with `{0} patterns import`",
}
"""How there come to be things of a kind."""


def home(environment: Mapping[str, str] = os.environ, start: Path | None = None) -> Path:
    """The folder of this project: `TAOFOLD_HOME`, or the nearest `.taofold` upwards, or here.

    The search ends at the root of a git repository: a repository is a project of its own.

    Raises:
        ConfigError: it belongs to another user, or is a link.
    """
    home_variable = environment.get("TAOFOLD_HOME", "").strip()
    start = (start or Path.cwd()).absolute()
    if home_variable:
        # Not checked for its owner: whoever sets the variable has chosen the folder.
        return (start / Path(home_variable).expanduser()).absolute()
    for folder in (start, *start.parents):
        candidate = folder / FOLDER
        # A link that leads nowhere counts, too: what is made there would be made elsewhere.
        if candidate.is_dir() or candidate.is_symlink():
            return _ours(candidate)
        if (folder / ".git").exists():
            return candidate
    return start / FOLDER


def _ours(folder: Path) -> Path:
    """A link, or a folder that another user left on the way up, decides nothing for us."""
    if folder.is_symlink():
        raise ConfigError(
            f"{str(folder)!r} is a link, which a repository can bring: delete it, or name the "
            "folder that you mean with TAOFOLD_HOME"
        )
    owner = folder.stat().st_uid
    # Else a folder in /tmp could hand its configuration to everybody who works below it.
    if hasattr(os, "getuid") and owner != os.getuid():
        raise ConfigError(
            f"{str(folder)!r} belongs to another user ({owner}): "
            "set TAOFOLD_HOME, or make a .taofold folder of your own in the project"
        )
    return folder


def operator_policy() -> "Policy":
    """The operator's policy, the default one if there is no file.

    Raises:
        ExceptionGroup: every fault of the file.
    """
    from taofold.files.checked_yaml import refuse
    from taofold.files.policy import read_policy
    from taofold.policy import Policy

    path = operator_folder() / "policy.yaml"
    if not path.exists():
        return Policy()
    keys, faults = read_policy(path)
    if keys is None:
        refuse(faults, "the operator's policy cannot be used")
    try:
        return keys.over(Policy())
    except ConfigError as error:
        raise ConfigError(str(error), path=str(path)) from error


def config_path() -> Path | None:
    """The project's configuration file, if there is one."""
    folder = home()
    # Links that lead nowhere and FIFOs, too: they are refused when they are opened.
    names = [name for name in ("config.yml", "config.yaml") if os.path.lexists(folder / name)]
    paths = [folder / name for name in names]
    if len(paths) > 1:
        raise ConfigError(f"there are both {paths[0].name} and {paths[1].name}; keep one of them")
    return paths[0] if paths else None


def config() -> "Config":
    """The configuration.

    Raises:
        ExceptionGroup: every fault of the file and the environment.
    """
    from taofold.files.checked_yaml import refuse
    from taofold.files.config import read_config

    own = _operator_config()
    read, faults = read_config(config_path(), os.environ, own if own.exists() else None)
    if read is None:
        refuse(faults, "the configuration cannot be used")
    return read


def _operator_config() -> Path:
    return operator_folder() / "config.yml"


def log_address() -> str:
    """What `TAOFOLD_LOG` names: a log that several machines share; "" = the project's own file.

    Only the environment says so: a project's files must not lead its runs elsewhere.
    """
    return os.environ.get(LOG, "").strip()


def open_store(*, create: bool = False, kind: str = "runs", adopt: bool = False) -> "Log":
    """The project's log, traced where the configuration says so; `kind` is what is looked for.

    `adopt` trusts one that another user or machine created, from now on.

    Raises:
        ConfigError: there is none, and it is not to be created.
        LogError: it cannot be used.
    """
    address = log_address()
    log = _named(address) if address else _own(create=create, kind=kind, adopt=adopt)
    configuration = config()
    if not configuration.traces:
        return log
    # Imported only where it is configured: OpenTelemetry is slow to load, and optional.
    from taofold.telemetry.traced_log import with_traces

    return with_traces(log, configuration.traces, content=configuration.traces_content)


def _named(address: str) -> "Log":
    """The log that the environment names."""
    from taofold.log.open import POSTGRES, open_builtin, open_log

    # The word is known, but every command would begin with an empty log.
    if address == "memory":
        raise ConfigError("memory keeps nothing between two commands: name a database", path=LOG)
    try:
        foreign = "://" in address and not address.startswith(("sqlite:", *POSTGRES))
        return open_log(address) if foreign else open_builtin(address)
    except ConfigError as error:
        # The fault is named by the variable, which a person can change.
        raise ConfigError(str(error).removeprefix("log: "), path=LOG) from None


def _own(*, create: bool, kind: str, adopt: bool) -> "Log":
    """The file in the project's folder."""
    from taofold.log.open import make_home
    from taofold.log.sqlite.log import SqliteLog

    folder = home()
    path = folder / FILE
    if not path.exists() and not create:
        raise ConfigError(
            f"there are no {kind} yet: {str(path)!r} does not exist; "
            f"{BEGIN[kind].format(invocation())}, "
            "or go to the project's folder (or set TAOFOLD_HOME)" + _beside()
        )
    if create:
        # Before the database: nobody else may look into the folder (0700) that it is made in.
        make_home(folder)
    log = SqliteLog(path, adopt=adopt)
    log.open()
    return log


def _beside() -> str:
    """How to look into the log of a Python program (`log="runs.db"`) that lies in this folder."""
    logs = [path.name for path in sorted(Path.cwd().glob("*.db")) if _is_log(path)]
    return f"; the runs of {logs[0]} are shown with {LOG}={logs[0]}" if logs else ""


def _is_log(path: Path) -> bool:
    """Does the header of a SQLite file say that it is ours?"""
    from taofold.log.sqlite.statements import APPLICATION

    try:
        with os.fdopen(open_file(path, trust="content"), "rb") as file:
            header = file.read(72)
    except (OSError, ConfigError):
        return False
    return header[68:72] == APPLICATION.to_bytes(4)


T = TypeVar("T")


def with_registry(work: "Callable[[Registry], Awaitable[T]]", *, create: bool = False) -> T:
    """Do `work` with the project's registry.

    Raises:
        ConfigError: there is no store yet, and it is not to be created.
        LogError: it cannot be used.
    """
    from taofold.log.patterns.stores import registry_beside

    async def done() -> T:
        log = open_store(create=create, kind="patterns")
        registry = registry_beside(log)
        try:
            result = await work(registry)
            for fault in await registry.faults():
                say(f"warning: {fault}")
            return result
        finally:
            await registry.close()
            await log.close()

    return asyncio.run(done())


_PREFIX: Final = "TAOFOLD_"
_LIMITS: Final = "TAOFOLD_LIMITS_"
_READ: Final = (_LIMITS, "TAOFOLD_LEARNING_")
"""Beginnings of names whose reader refuses the wrong ones itself."""
KNOWN: Final = (
    *(
        f"{_PREFIX}{suffix}"
        for suffix in (
            *("HOME", "LOG", "MODEL", "PROVIDER", "SPAWNED", "TRACES", "STARTED_BY"),
            *("ENGINE", "TRACES_CONTENT"),
        )
    ),
    *(
        f"{_LIMITS}{suffix}"
        for suffix in (
            *("STEPS", "MODEL_CALLS", "TOOL_CALLS", "SECONDS", "TOKENS", "USD"),
            *("PARSE_RETRIES", "DEPTH"),
        )
    ),
)


def unknown(environment: Iterable[str]) -> list[str]:
    """A warning for each; a wrong limit is the configuration's to refuse."""
    return [
        f"the environment variable {name} means nothing{_near(name)}"
        for name in sorted(environment)
        if name.startswith(_PREFIX) and name not in KNOWN and not name.startswith(_READ)
    ]


def _near(name: str) -> str:
    similar = get_close_matches(name, KNOWN, n=1, cutoff=0.75)
    return f"; did you mean {similar[0]}?" if similar else ""


def learning_settings() -> "Learning":
    """The settings of learning: aiwg.yml < the project's config.yml < the operator's < environment.

    Raises:
        ExceptionGroup: every fault, with its path.
    """
    from taofold.files.checked_yaml import refuse
    from taofold.files.config import read_learning

    read, faults = read_learning(learning_files(), os.environ)
    if read is None:
        refuse(faults, "the configuration of learning cannot be used")
    return read


def learning_files() -> "list[Path]":
    """Where the keys of learning may stand, the nearest last; not all of them exist."""
    from taofold.files.config import AIWG

    configuration = config_path()
    seeds = [home().parent / name for name in AIWG]
    project = [configuration] if configuration else []
    return [*seeds, *project, _operator_config()]
