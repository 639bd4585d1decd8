"""The tool `python.process`: runs the Python code of a flow's node in a contained process.

The process has the files of the work root, as commands have, and the packages of this Python. It
has no secrets in its environment, and a network only if commands have one. Its time, memory and
output are bounded. Values go in and the result comes out as JSON.

Without containment there is no such tool: code of a file never runs with the user's rights.
"""

import asyncio
import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from taofold.core.errors import ConfigError
from taofold.core.json_values import is_object
from taofold.core.values import Tier
from taofold.tools import process
from taofold.tools.command import confinement, inherited_environment
from taofold.tools.container_network import Reach
from taofold.tools.containment import HOME, Containment, check_ports, why_not
from taofold.tools.context import Outcome, RunContext
from taofold.tools.jail import jail
from taofold.tools.process import OutputExcerpt, key_line
from taofold.tools.python_code import MOST_RESULT, PROCESS, ended, failed, program_of
from taofold.tools.tool import Tool, make

MEMORY: Final = 2 << 30
"""Maximum bytes of address space of each process."""
_FILE: Final = 256 << 20
"""Maximum bytes of a file that the code writes."""
_PRINTED: Final = 2_000
"""Characters of output that are kept at its beginning, and at its end."""

_RUNNER: Final = """
import json, os, resource, sys, traceback
result, memory, file, given = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.stdin.buffer
resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
resource.setrlimit(resource.RLIMIT_FSIZE, (file, file))
work = json.load(given)
names = {"__name__": "__main__", **work["values"]}
lines = work["program"].rstrip("\\n").split("\\n")
try:
    exec(compile("\\n".join(lines[:-1]), "<code>", "exec", dont_inherit=True), names)
    end = {"result": eval(compile("\\n" * (len(lines) - 1) + lines[-1], "<code>", "eval"), names)}
except BaseException as error:
    frames = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == "<code>"]
    end = {"error": f"{type(error).__name__}: {error}"[:4000], "line": frames[-1] if frames else 0}
sys.stdout.flush()
with os.fdopen(result, "wb") as out:
    out.write(json.dumps(end).encode())
"""
"""The program of the process. The code cannot lift its limits: they are hard ones."""


@dataclass(frozen=True, slots=True)
class ContainedPython:
    """Runs codes in contained processes."""

    box: Containment

    async def run(
        self, ctx: RunContext[Any], code: str, values: dict[str, Any], changes: bool = False
    ) -> Outcome:
        """Run Python code in a contained process.

        Args:
            ctx: The context of the call.
            code: The code. It returns its result.
            values: The values that the code reads, by name.
            changes: Also return what the code changes in `state`, as `{value, changes}`.
        """
        program = program_of(code, changes=changes)
        if isinstance(program, Outcome):
            return program
        given = json.dumps({"program": program, "values": values}).encode()
        output = OutputExcerpt(_PRINTED, _PRINTED)

        def heard(chunk: bytes) -> None:
            if text := output.feed(chunk):
                ctx.report(text)

        with _memory_file() as fd:
            limits = [str(fd), str(MEMORY), str(_FILE)]
            # Isolated: the work root, which an agent may write, is no source of modules.
            command = [sys.executable, "-I", "-c", _RUNNER, *limits]
            try:
                async with self.box.around(command, self.box.root) as (wrapped, inherited):
                    status = await process.run(
                        wrapped,
                        folder=self.box.root,
                        environment=_environment(),
                        heard=heard,
                        inherited=(*inherited, fd),
                        given=given,
                    )
            except asyncio.CancelledError:
                ctx.partial[:] = [output.text]
                raise
            except process.Flood as error:
                return failed(f"the code ended: {error}", 0, code, output.text)
            except OSError as error:
                reason = f"the code cannot be contained: {error.strerror or error}"
                return failed(f"{reason}; nothing was run", 0, code, "")
            end = _end(fd)
        if end is None:
            text = key_line(output.text, failed=True) or f"exit code {status}"
            return failed(f"the process ended without a result: {text}", 0, code, output.text)
        if "result" in end:
            return ended(end["result"], output.text)
        line: Any = end.get("line")
        return failed(
            str(end.get("error")), line if isinstance(line, int) else 0, code, output.text
        )


def _environment() -> dict[str, str]:
    return {**inherited_environment({}), "HOME": HOME, "TMPDIR": str(Path(HOME).parent)}


@contextmanager
def _memory_file() -> Generator[int]:
    """Yields a descriptor to which the process writes its result.

    Its standard output belongs to the code, which could print a result of its own.
    """
    fd = os.memfd_create("taofold", os.MFD_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


def _end(fd: int) -> dict[str, Any] | None:
    """Returns what the process wrote, if it is a mapping. It is data of foreign code."""
    # A result is JSON inside of JSON, so each of its characters may take several bytes.
    text = os.pread(fd, 8 * MOST_RESULT, 0)
    try:
        end = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return end if is_object(end) else None


def contained_python(root: Path, reach: Reach = Reach()) -> Tool:
    """Returns the tool `python.process`, whose code works in `root`.

    Raises:
        ConfigError: Processes cannot be contained here, or `root` is not a directory.
    """
    reason = why_not()
    if reason:
        raise ConfigError(f"Python code cannot be contained: {reason}")
    check_ports(reach)
    try:
        inside = jail(root).root
    except OSError as error:
        raise ConfigError(f"the work root {str(root)!r} cannot be used: {error}") from error
    box = confinement(inside, reach)
    if box.shares:
        raise ConfigError("Python code cannot be contained: it would share this machine's network")
    made = make(
        ContainedPython(box).run,
        name=PROCESS,
        tier=Tier.CARD,
        effect="once",
        timeout=60.0,
        longest=600.0,
        sequential=True,
        toolset="python",
        preview=lambda parameters: (
            f"run Python in a contained process, {reach.label}: {parameters.get('code', '')!r}"
        ),
    )
    return replace(made, root=inside, place=partial(contained_python, reach=reach))
