"""The built-in tool `run_command`: runs commands, contained by bubblewrap if it works here.

It controls which environment variables a command inherits, how long it runs, and how much of its
output a model reads. Without bubblewrap the tool is tier 3, and each result contains "not
contained" (D8): such a command has all rights of the user who started the agent.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from taofold.core.errors import ConfigError
from taofold.core.values import Tier
from taofold.reserved_places import MARK
from taofold.tools import container_network, process
from taofold.tools.container_network import Reach
from taofold.tools.containment import (
    HOME,
    Containment,
    check_ports,
    installed_outside,
    python_homes,
    why_not,
)
from taofold.tools.context import Outcome, RunContext
from taofold.tools.jail import HIDDEN, PROTECTED, Jail, jail
from taofold.tools.process import OutputExcerpt, key_line
from taofold.tools.temporary_folders import scratch
from taofold.tools.tool import Tool, make

ALLOWED: Final = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "PYTEST_DISABLE_PLUGIN_AUTOLOAD")
"""Environment variables that a command inherits. All others may hold secrets.

`PYTEST_DISABLE_PLUGIN_AUTOLOAD` is kept because loading many plugins takes pytest seconds.
"""
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
LEFT_RUNNING: Final = "what it left running in the background was stopped with it"

Contain = Literal["auto", "always", "never"]
Command = Annotated[list[str], Field(min_length=1)] | Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs commands in a directory, contained or not."""

    jail: Jail
    containment: Containment | None
    reach: Reach
    environment: Mapping[str, str]

    @property
    def label(self) -> str:
        """Description of the confinement for results."""
        if self.containment is None:
            return "not contained"
        if self.containment.shares:
            return "not contained: it shares this machine's network"
        return f"contained, {'with ' if self.reach else ''}{self.reach.label}"

    async def run_command(
        self, ctx: RunContext[Any], command: Command, folder: str = "."
    ) -> Outcome:
        """Run a program and return its exit code and output (standard output and errors).

        Give a list of arguments, or a text for /bin/sh when pipes or wildcards are needed.
        There is no input and no terminal. Long output is shortened in the middle. What a command
        leaves running in the background is stopped when the command ends.

        Args:
            command: For example ["python", "-m", "pytest", "-q"], or "ls | wc -l".
            folder: Directory to run it in, relative to the work root.
        """
        try:
            # Opened once to check that it is a directory inside the root, without links. Then it is
            # used by path.
            parts = self.jail.parts(folder)
            with self.jail.directory(parts):
                where = self.jail.root.joinpath(*parts)
        except (OSError, ValueError) as error:
            return Outcome(str(error), "failure")
        # Only a string is run by a shell. A list is passed unchanged.
        arguments = ["/bin/sh", "-c", command] if isinstance(command, str) else command
        if any("\0" in argument for argument in arguments):
            return Outcome("the command holds a NUL character", "failure")
        if self.containment is not None:
            return await self._contained(ctx, self.containment, arguments, where)
        with scratch("home") as home:
            return await self._observed(ctx, arguments, where, str(home))

    async def _contained(
        self, ctx: RunContext[Any], box: Containment, command: list[str], where: Path
    ) -> Outcome:
        try:
            async with box.around(command, where) as (wrapped, inherited):
                return await self._observed(ctx, wrapped, self.jail.root, HOME, inherited)
        except OSError as error:
            reason = f"it cannot be contained: {error.strerror or error}"
            return Outcome(f"{reason}; nothing was run", "failure", reason)

    async def _observed(
        self,
        ctx: RunContext[Any],
        command: list[str],
        where: Path,
        home: str,
        inherited: tuple[int, ...] = (),
    ) -> Outcome:
        output = OutputExcerpt()
        left: list[str] = []
        started = monotonic()
        # The home is inside the temporary folder, in the container and outside.
        environment = {**self.environment, "HOME": home, "TMPDIR": str(Path(home).parent)}
        if self.containment is None:
            environment[MARK] = "run_command"
        try:
            code = await process.run(
                command,
                folder=where,
                environment=environment,
                heard=_hearing(ctx, output),
                inherited=inherited,
                left_running=lambda: left.append(LEFT_RUNNING),
            )
        except asyncio.CancelledError:
            # The output so far becomes part of the observation of a call that timed out.
            ctx.partial[:] = [output.text]
            raise
        except (OSError, ValueError) as error:
            reason = f"{command[0]!r} cannot be started: {error}"
            return Outcome(f"{reason} ({self.label})", "failure", reason)
        except process.Flood as error:
            return Outcome(f"{error} ({self.label})\n{output.text}", "failure", str(error))
        text = output.text.rstrip("\n")
        head = f"{_ended(code)}, {monotonic() - started:.1f} s ({self.label})"
        reason = key_line(text, code != 0) or head
        said = "\n".join([head, *left, text])
        return Outcome(said, "failure" if code else "success", reason)


def command_tool(
    root: Path | str,
    *,
    network: bool | Reach = False,
    contain: Contain = "auto",
    env: Mapping[str, str] | None = None,
    readable: Iterable[Path | str] = (),
    protected: tuple[str, ...] = PROTECTED,
    timeout: float = 60.0,
    longest: float = 600.0,
) -> Tool:
    """Returns the tool `run_command`, which works in `root`.

    A contained command is tier 2, others tier 3 (with `contain="auto"`). With `network` a command
    is contained if it can get its own network (pasta or slirp4netns). Otherwise only its files are
    confined: it reaches services on this machine, and is tier 3.

    A contained command cannot see `.taofold` and can only read names in `protected`. In `root` this
    also covers names that do not exist, below it those that exist when the command starts.
    Installed packages (`.venv`, `node_modules`) are read-only without the network, or if they are
    hard links into a package cache.

    Args:
        root: Working directory of the commands.
        network: True, or a `Reach`, which also names ports of this machine, such as a database's.
        contain: `"auto"`, `"always"` or `"never"`.
        env: Environment variables besides the inherited ones.
        readable: Further directories that commands can read. This Python's are always readable.
        protected: Names that are read-only.
        timeout: Seconds that a command may take.
        longest: Maximum seconds that a model can request with `timeout_s`.

    Returns:
        The tool.

    Raises:
        ConfigError: `root` is not a directory, `contain="always"` but containment does not work
            here, or a port cannot be opened for the container alone.
    """
    readable = tuple(readable)
    reason = "contain='never'" if contain == "never" else why_not()
    # Without its own network the command counts as not contained.
    reach = network if isinstance(network, Reach) else Reach(world=network)
    if not reason:
        check_ports(reach)
    open_ = reason or (container_network.why_not() if reach.world else "")
    if contain == "always" and open_:
        hint = "" if reason else f"; {container_network.INSTALL}"
        raise ConfigError(f"commands cannot be contained: {open_}{hint}")
    try:
        inside = jail(root, protected=protected)
    except OSError as error:
        raise ConfigError(f"the work root {str(root)!r} cannot be used: {error}") from error
    confined = confinement(inside.root, reach, readable, protected)
    shell = Shell(inside, None if reason else confined, reach, inherited_environment(env or {}))
    made = make(
        shell.run_command,
        tier=Tier.CONFIRM if open_ else Tier.CARD,
        effect="once",
        timeout=timeout,
        longest=max(longest, timeout),
        sequential=True,
        toolset="command",
        preview=lambda parameters: _preview(parameters, shell.label),
    )
    again = partial(
        command_tool,
        network=network,
        contain=contain,
        env=env,
        readable=readable,
        protected=protected,
        timeout=timeout,
        longest=longest,
    )
    return replace(made, root=inside.root, place=again)


def confinement(
    root: Path,
    reach: Reach,
    readable: Iterable[Path | str] = (),
    protected: tuple[str, ...] = PROTECTED,
) -> Containment:
    """Returns the confinement of programs that work in `root`.

    Args:
        root: The only writable directory.
        reach: The network of the programs.
        readable: Further directories that they can read. This Python's are always readable.
        protected: Names that are read-only.
    """
    # A Python installation that encloses the work root would make all of it readable, and
    # read-only.
    homes = tuple(home for home in python_homes() if not root.is_relative_to(home))
    more = tuple(Path(path).resolve() for path in readable) + installed_outside(root)
    return Containment(root, reach, homes + more, protected, HIDDEN, reach.world)


def inherited_environment(more: Mapping[str, str]) -> dict[str, str]:
    """Returns the environment of a command: the inherited variables (`ALLOWED`), and `more`."""
    variables = {name: os.environ[name] for name in ALLOWED if name in os.environ}
    fixed = {"TERM": "dumb", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    # `python` is the interpreter of this process, whose directories the container mounts.
    path = f"{Path(sys.prefix) / 'bin'}:{variables.pop('PATH', _PATH)}"
    return {"PATH": path, "LANG": "C.UTF-8", **variables, **fixed, **more}


def _hearing(ctx: RunContext[Any], output: OutputExcerpt) -> Callable[[bytes], None]:
    def heard(chunk: bytes) -> None:
        text = output.feed(chunk)
        if text:
            ctx.report(text)

    return heard


def _ended(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


def _preview(parameters: dict[str, Any], label: str) -> str:
    command = parameters.get("command")
    return f"run {command!r} in {parameters.get('folder', '.')!r} ({label})"
