"""The action `python.run`: Python code in a node, as `run:` of The Edge Agent.

The code is the body of a function. It reads the names that templates read, and `return` ends it.
It runs in the sandboxed interpreter if its constructs suffice, else in a contained process if the
user has allowed that (`--allow-python`). It never runs in this process. Both are tool calls, so
they are logged, permitted by the policy, and not repeated by a replay.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from taofold.core.effects import Strategy
from taofold.core.json_values import is_object
from taofold.core.text import times
from taofold.core.values import Observation
from taofold.files.actions.action import ActionCall, Done, Keys, Kind, Misuse
from taofold.files.actions.tools import perform
from taofold.tools.python_code import PROCESS, RUN, NotPython, PythonCode, read_python

ALLOW: Final = "--allow-python"
ALLOW_HINT: Final = f"pass {ALLOW} (in Python: allow_python=True) to run it in a contained process"
_ELSEWHERE: Final = {
    "actions": "code cannot call actions: give the action a node of its own",
    "OpenAI": "code cannot call models: use the action llm.call in a node of its own",
}
"""Names of The Edge Agent that no code has here."""


_MISSING: Final = re.compile(r"KeyError: ['\"]?([A-Za-z_]\w*)['\"]?$")
"""The end of an error about a missing key."""


_MOST_LACKS: Final = 20
"""Maximum number of further constructs in a message."""


class PythonKeys(Keys):
    """The keys of the action `python.run`."""

    elsewhere = {"language": "the code is Python"}

    code: str
    names: dict[str, Any] = {}
    """Further values that the code reads, by name."""
    changes: bool = False
    """Its value has, besides the returned names, those that the code changes in `state`."""


def _misuses(written: Mapping[str, Any]) -> Iterable[Misuse]:
    source = written.get("code")
    if not isinstance(source, str):
        return
    try:
        code = read_python(source)
    except NotPython as error:
        yield Misuse("code", str(error), error.line)
        return
    for name, hint in _ELSEWHERE.items():
        if name in code.free and name not in written.get("names", {}):
            yield Misuse("code", f"{name!r} is not defined", 1, hint)


def needs_process(source: str, *, sandbox: bool) -> tuple[str, int]:
    """Returns why the code needs a contained process, or "" if the sandbox suffices, and the line.

    Args:
        source: The code.
        sandbox: The sandboxed interpreter is installed.
    """
    lines: dict[str, int] = {}
    for lack in read_python(source).lacks:
        lines.setdefault(lack.construct, lack.line)
    if lines:
        first, *others = lines
        rest = [f", `{name}` (line {lines[name]} of the code)" for name in others[:_MOST_LACKS]]
        more = len(others) - len(rest)
        rest += [f" and {times(more, 'more construct')}"] if more else []
        return f"the sandbox of Python code lacks `{first}`{''.join(rest)}", lines[first]
    if sandbox:
        return "", 1
    return "the sandbox of Python code is not installed: pip install 'taofold[code]'", 1


def _run(call: ActionCall[PythonKeys]) -> Strategy[Done]:
    keys = call.keys
    try:
        code = read_python(keys.code)
    except NotPython as error:
        return Done(error=f"code: {error} (line {error.line})")
    parameters: dict[str, Any] = {"code": keys.code, "values": _values(code, call)}
    if keys.changes:
        parameters["changes"] = True
    if call.seconds is not None:
        parameters["timeout_s"] = call.seconds
    offered = {offer.name for offer in call.task.offers}
    needs, line = needs_process(keys.code, sandbox=RUN in offered)
    observation: Observation | None = None
    if not needs:
        observation = yield from perform(call.node, RUN, parameters, call.thought)
        # Nothing has happened yet: sandboxed code only computes.
        needs = _lacked(observation)
        if needs and PROCESS not in offered:
            return Done(error=f"{needs}; {ALLOW_HINT}")
    if needs and PROCESS in offered:
        observation = yield from perform(call.node, PROCESS, parameters, call.thought)
        needs = ""
    if observation is None:
        return Done(error=f"line {line} of the code: {needs}; {ALLOW_HINT}")
    return _done(observation, call.variables.get("state"), changes=keys.changes)


def _values(code: PythonCode, call: ActionCall[PythonKeys]) -> dict[str, Any]:
    """Returns the values that the code reads. Others would only fill the log."""
    names = {**call.variables, **call.keys.names}
    values = {name: names[name] for name in sorted(code.free) if name in names}
    if "state" in values and code.reads is not None and "state" not in call.keys.names:
        state: Mapping[str, Any] = values["state"]
        values["state"] = {key: state[key] for key in sorted(code.reads) if key in state}
    return values


def _lacked(observation: Observation) -> str:
    """Returns the error of a code that the sandbox turned out to lack something for, or ""."""
    result = _result(observation)
    return str(result.get("error")) if result.get("lacks") is True else ""


def _done(observation: Observation, state: Any, *, changes: bool) -> Done:
    result = _result(observation)
    if observation.status == "success":
        value = result.get("value")
        return Done(_with_changes(value) if changes else value)
    error = str(result.get("error") or observation.result or observation.status)
    missing = _MISSING.search(error)
    if missing and is_object(state) and missing[1] not in state:
        name = missing[1]
        error += f"; if the code reads state.{name}, set it at the start: --set {name}=…"
    return Done(error=error)


def _with_changes(ended: Any) -> Any:
    """Returns the value of a code with the variables that it changed in place."""
    value, changes = ended["value"], ended["changes"]
    if not changes:
        return value
    if value is None:
        return changes
    return {**changes, **(value if is_object(value) else {"result": value})}


def _result(observation: Observation) -> Mapping[str, Any]:
    # The runtime's own failures, such as a refusal, are texts.
    return observation.result if is_object(observation.result) else {}


PYTHON: Final = Kind(
    RUN,
    "Run Python code on the values of the flow, in a sandbox.",
    PythonKeys,
    _run,
    verbatim=("code",),
    tools=(RUN, PROCESS),
    misuses=_misuses,
)
