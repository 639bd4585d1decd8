"""The tool `python.run`: runs the Python code of a flow's node in the sandboxed interpreter.

The code reads JSON values by their names and returns JSON. It has no files, network, environment
or packages, so a call only reads. Needs the extra `code`.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from taofold.bridges.python_sandbox import CodeBounds, CodeFailure, CodeResult, evaluate
from taofold.tools import Outcome, RunContext, Tool
from taofold.tools.python_code import RUN, ended, failed, program_of
from taofold.tools.threads import WORKERS
from taofold.tools.tool import make

BOUNDS: Final = CodeBounds(seconds=10.0, memory=256_000_000, calls=1000)
"""Limits of the code of one node."""
_LACKS: Final = (
    *("NotImplementedError", "ModuleNotFoundError", "ImportError", "PermissionError"),
    "AttributeError: module ",
)
_OVERTIME: Final = re.compile(r"TimeoutError: (?:\w+ )*time limit exceeded")
"""How the interpreter reports its own limits of time."""
_REFUSED: Final = "is not supported in this environment"
"""How errors of constructs that the interpreter lacks begin or end."""


@dataclass(frozen=True, slots=True)
class SandboxedPython:
    """Runs codes in the sandboxed interpreter."""

    bounds: CodeBounds

    async def run(
        self, ctx: RunContext[Any], code: str, values: dict[str, Any], changes: bool = False
    ) -> Outcome:
        """Run Python code without files, network and environment.

        Args:
            ctx: The context of the call.
            code: The code. It returns its result.
            values: The values that the code reads, by name.
            changes: Also return what the code changes in `state`, as `{value, changes}`.
        """
        program = program_of(code, changes=changes)
        if isinstance(program, Outcome):
            return program
        turn = await WORKERS.run(evaluate, program, values, self.bounds)
        if turn.printed:
            ctx.report(turn.printed)
        match turn.end:
            case CodeResult(value):
                return ended(value, turn.printed)
            case CodeFailure(text, line):
                lacks = text.startswith(_LACKS) or text.endswith(_REFUSED)
                if _OVERTIME.match(text):
                    text = f"TimeoutError: the code ran longer than {self.bounds.seconds:g} s"
                return failed(text, line, code, turn.printed, lacks=lacks)
            case _:
                return ended(None, turn.printed)


def sandboxed_python(bounds: CodeBounds = BOUNDS) -> Tool:
    """Returns the tool `python.run`."""
    return make(
        SandboxedPython(bounds).run,
        name=RUN,
        effect="read",
        timeout=bounds.seconds + 10,
        toolset="python",
        preview=lambda parameters: f"run sandboxed Python: {parameters.get('code', '')!r}",
    )
