"""The project of a command: `.taofold/` with its configuration, policy, log and registry (D16).

Reads the environment variables of commands, such as `TAOFOLD_HOME` and `TAOFOLD_LOG`, and warns of
unknown `TAOFOLD_` variables.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from taofold.cli.output import invocation, say
from taofold.cli.tracebacks import EVIDENCE_KEY, is_key_file
from taofold.core.errors import ConfigError
from taofold.reserved_places import PROJECT, open_file, operator_folder

if TYPE_CHECKING:
    from taofold.evidence.statement import Signer
    from taofold.files.config import Config
    from taofold.learning.registry import Registry
    from taofold.learning.settings import Learning
    from taofold.log.log import Log
    from taofold.policy import Policy


FOLDER: Final = PROJECT
FILE: Final = "runs.db"
LOG: Final = "TAOFOLD_LOG"
"""Variable with the address of the log, if it is not the project's file: `postgresql://…`,
`sqlite:PATH`."""
BEGIN: Final = {
    "runs": "start one with `{0} run`",
    "loops": "start one with `{0} loop`",
    "patterns": "loops learn them (`{0} loop`), or import some with `{0} patterns import`",
}
"""Commands that create objects of each kind."""


def home(environment: Mapping[str, str] = os.environ, start: Path | None = None) -> Path:
    """Returns the project's folder: `TAOFOLD_HOME`, else the nearest `.taofold` upwards, else here.

    The search ends at the root of a git repository.

    Raises:
        ConfigError: The folder belongs to another user, or is a link.
    """
    home_variable = environment.get("TAOFOLD_HOME", "").strip()
    start = (start or Path.cwd()).absolute()
    if home_variable:
        # The owner is not checked: the variable is the user's explicit choice.
        return (start / Path(home_variable).expanduser()).absolute()
    for folder in (start, *start.parents):
        candidate = folder / FOLDER
        # Includes dangling links: creating the folder would create their target.
        if candidate.is_dir() or candidate.is_symlink():
            return _ours(candidate)
        if (folder / ".git").exists():
            return candidate
    return start / FOLDER


def _ours(folder: Path) -> Path:
    """Returns the folder. Raises `ConfigError` for a link or another user's folder."""
    if folder.is_symlink():
        raise ConfigError(
            f"{str(folder)!r} is a link, which a repository may contain: delete it, or set "
            "TAOFOLD_HOME to the folder"
        )
    owner = folder.stat().st_uid
    # Otherwise a folder in /tmp could configure every project below it.
    if hasattr(os, "getuid") and owner != os.getuid():
        raise ConfigError(
            f"{str(folder)!r} belongs to another user ({owner}): "
            "set TAOFOLD_HOME, or create your own .taofold folder in the project"
        )
    return folder


def operator_policy() -> "Policy":
    """Returns the operator's policy, or the default policy if there is no file.

    Raises:
        ExceptionGroup: All faults of the file.
    """
    from taofold.policy import Policy

    path = operator_folder() / "policy.yaml"
    return policy_at(path, "the operator's policy") if path.exists() else Policy()


def policy_at(path: Path, what: str) -> "Policy":
    """Returns the policy in the file at `path`; `what` names it in errors.

    Raises:
        ExceptionGroup: All faults of the file.
    """
    from taofold.files.checked_yaml import refuse
    from taofold.files.policy import read_policy
    from taofold.policy import Policy

    keys, faults = read_policy(path)
    if keys is None:
        refuse(faults, f"{what} cannot be used")
    try:
        return keys.over(Policy())
    except ConfigError as error:
        raise ConfigError(str(error), path=str(path)) from error


def config_path() -> Path | None:
    """Returns the project's configuration file, or None."""
    folder = home()
    # Includes dangling links and FIFOs, which are refused when opened.
    names = [name for name in ("config.yml", "config.yaml") if os.path.lexists(folder / name)]
    paths = [folder / name for name in names]
    if len(paths) > 1:
        raise ConfigError(f"there are both {paths[0].name} and {paths[1].name}; keep one of them")
    return paths[0] if paths else None


def config() -> "Config":
    """Returns the configuration.

    Raises:
        ExceptionGroup: All faults of the file and the environment.
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
    """Returns the address in `TAOFOLD_LOG` of a shared log; "" = the project's own file.

    Only the environment sets it: a project's files must not redirect its runs.
    """
    return os.environ.get(LOG, "").strip()


def open_store(*, create: bool = False, kind: str = "runs", adopt: bool = False) -> "Log":
    """Opens the project's log, with traces if configured. `kind` names the objects in errors.

    `adopt` trusts a log that another user or machine created.

    Raises:
        ConfigError: There is no log, and `create` is False.
        LogError: The log cannot be used.
    """
    address = log_address()
    log = _named(address) if address else _own(create=create, kind=kind, adopt=adopt)
    if signer := evidence_signer():
        from taofold.log.signed import SignedLog

        log = SignedLog(log, signer)
    configuration = config()
    if not configuration.traces:
        return log
    # Imported on demand: OpenTelemetry is slow to load, and optional.
    from taofold.telemetry.traced_log import with_traces

    return with_traces(log, configuration.traces, content=configuration.traces_content)


def has_log() -> bool:
    """Returns whether there is a log, or a variable names one."""
    return bool(log_address()) or (home() / FILE).exists()


def evidence_signer(key: str = "") -> "Signer | None":
    """Returns the signer that `key` names, else that of `TAOFOLD_EVIDENCE_KEY`, or None.

    Raises:
        ConfigError: The key cannot be used. The error names the variable if it holds the key.
    """
    spec = key or os.environ.get(EVIDENCE_KEY, "").strip()
    if not spec:
        return None
    from taofold.evidence.statement import signer_of

    try:
        return signer_of(spec)
    except ConfigError as error:
        if key:
            raise
        # Text that is no path may be the key itself.
        place = f"{EVIDENCE_KEY}={spec}" if is_key_file(spec) else EVIDENCE_KEY
        raise ConfigError(str(error).removeprefix(f"{error.path}: "), path=place) from None


def _named(address: str) -> "Log":
    """Opens the log at `address`."""
    from taofold.log.open import POSTGRES, open_builtin, open_log

    # A valid address, but every command would begin with an empty log.
    if address == "memory":
        raise ConfigError("memory is lost after each command: name a database", path=LOG)
    try:
        foreign = "://" in address and not address.startswith(("sqlite:", *POSTGRES))
        return open_log(address) if foreign else open_builtin(address)
    except ConfigError as error:
        # The error names the variable, which the user can change.
        raise ConfigError(str(error).removeprefix("log: "), path=LOG) from None


def _own(*, create: bool, kind: str, adopt: bool) -> "Log":
    """Opens the log file in the project's folder."""
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
        # Before the database, so that the folder is private (0700).
        make_home(folder)
    log = SqliteLog(path, adopt=adopt)
    log.open()
    return log


def _beside() -> str:
    """Returns a hint for the log of a Python program (`log="runs.db"`) in this folder."""
    logs = [path.name for path in sorted(Path.cwd().glob("*.db")) if _is_log(path)]
    return f"; to show the runs of {logs[0]}, set {LOG}={logs[0]}" if logs else ""


def _is_log(path: Path) -> bool:
    """Returns whether the header of a SQLite file has taofold's application id."""
    from taofold.log.sqlite.statements import APPLICATION

    try:
        with os.fdopen(open_file(path, trust="content"), "rb") as file:
            header = file.read(72)
    except (OSError, ConfigError):
        return False
    return header[68:72] == APPLICATION.to_bytes(4)


T = TypeVar("T")


def with_registry(work: "Callable[[Registry], Awaitable[T]]", *, create: bool = False) -> T:
    """Runs `work` with the project's registry.

    Raises:
        ConfigError: There is no store, and `create` is False.
        LogError: The store cannot be used.
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
"""Prefixes of variables whose reader refuses unknown names itself."""
KNOWN: Final = (
    *(
        f"{_PREFIX}{suffix}"
        for suffix in (
            *("HOME", "LOG", "MODEL", "PROVIDER", "SPAWNED", "TRACES", "STARTED_BY"),
            *("ENGINE", "TRACES_CONTENT", "EVIDENCE_KEY", "RECORDED_AGENTS"),
            # Set for commands that taofold starts, which may start it again.
            *("CASE", "RUN", "GATE_IN"),
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
    """Returns a warning for each unknown variable. The configuration refuses unknown limits."""
    return [
        f"unknown environment variable {name}{_near(name)}"
        for name in sorted(environment)
        if name.startswith(_PREFIX) and name not in KNOWN and not name.startswith(_READ)
    ]


def relative(environment: Mapping[str, str]) -> list[str]:
    """Returns a warning for each XDG variable with a relative path, which is ignored."""
    return [
        f"{name}={environment[name]!r} is a relative path and is ignored: write an absolute one"
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME")
        if environment.get(name, "/")[:1] not in ("", "/")
    ]


def _near(name: str) -> str:
    similar = get_close_matches(name, KNOWN, n=1, cutoff=0.75)
    return f"; did you mean {similar[0]}?" if similar else ""


def learning_settings() -> "Learning":
    """Returns the settings of learning: aiwg.yml < project's config.yml < operator's < environment.

    Raises:
        ExceptionGroup: All faults, with their paths.
    """
    from taofold.files.checked_yaml import refuse
    from taofold.files.config import read_learning

    read, faults = read_learning(learning_files(), os.environ)
    if read is None:
        refuse(faults, "the configuration of learning cannot be used")
    return read


def learning_files() -> "list[Path]":
    """Returns the possible files with keys of learning, the strongest last; some may not exist."""
    from taofold.files.config import AIWG

    configuration = config_path()
    seeds = [home().parent / name for name in AIWG]
    project = [configuration] if configuration else []
    return [*seeds, *project, _operator_config()]
