"""Command `taofold run`, and the driver of all runs at the terminal.

Trace, approvals (`--approve`), Ctrl-C and SIGTERM, result and exit code are the same for resumed
and forked runs.
"""

import asyncio
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

import typer

from taofold.cli import options
from taofold.cli.output import (
    INTERRUPTED,
    UNREACHED,
    code_of,
    fail,
    give,
    give_json,
    invocation,
    say,
)
from taofold.core.errors import LogError
from taofold.core.json_values import decoded, is_object

if TYPE_CHECKING:
    from taofold.agent import RunResult
    from taofold.cli.approval_prompt import PromptApprover
    from taofold.core.events import Record
    from taofold.core.happenings import Happening
    from taofold.files.flow.flow import Flow
    from taofold.log.log import Log
    from taofold.runtime.setup import Approval, Approver, Decision


T = TypeVar("T")

Listener: TypeAlias = "Callable[[Happening], None]"
Work: TypeAlias = "Callable[[Listener, Approver | None], Awaitable[RunResult[Any]]]"

APPROVE: Final = ("ask", "all", "wait")
"""Values of `--approve`: ask at the terminal, approve all, or wait."""


_NAME: Final = re.compile(r"[^\W\d][\w-]*")
_INPUT: Final = "Input"


def assignments(pairs: Sequence[str]) -> dict[str, Any]:
    """Parses KEY=VALUE pairs. Values are read as JSON, else as text.

    Exits if a pair is malformed or a key is given twice.
    """
    assignments: dict[str, Any] = {}
    for assignment in pairs:
        key, sign, text = assignment.partition("=")
        if not sign or not _NAME.fullmatch(key):
            fail(f"--set takes KEY=VALUE with a name as KEY, not {assignment!r}")
        if key in assignments:
            fail(f"--set gives {key!r} twice")
        assignments[key] = _value(text)
    return assignments


def _tagged(pairs: Sequence[str]) -> dict[str, str]:
    from taofold.core.tags import checked_tags

    tags: dict[str, str] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        if name in tags:
            fail(f"--tag gives {name!r} twice")
        tags |= checked_tags({name: value})
    return checked_tags(tags)


def _value(text: str) -> Any:
    try:
        return decoded(text)
    except (ValueError, RecursionError):
        return text


def run(
    agent: Annotated[
        str,
        typer.Argument(
            metavar="AGENT",
            help="Agent file (.yaml) or module:attr. Default: an agent with file and command "
            "tools that works on the current directory.",
            show_default=False,
        ),
    ] = "",
    goal: Annotated[
        str,
        typer.Argument(metavar="GOAL", help="Task in words; - reads it from standard input."),
    ] = "",
    model: options.ModelName = "",
    values: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Set `state.KEY` of a flow before it starts. VALUE is read as JSON, else as text. "
            "Repeatable.",
            rich_help_panel=_INPUT,
        ),
    ] = None,
    tools: Annotated[
        list[Path] | None,
        typer.Option(
            "--tools",
            metavar="DIR",
            help="Import the files taofold_tools.py and tagent.tools.py in DIR and below, and "
            "offer their tools too. Repeatable.",
            rich_help_panel=options.AGENT,
        ),
    ] = None,
    recursive: Annotated[
        bool,
        typer.Option(
            "--recursive/--no-recursive",
            help="Search the folders below --tools DIR too.",
            rich_help_panel=options.AGENT,
        ),
    ] = True,
    skills: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SOURCE",
            help="Offer the skills of a folder, of ~/.agents/skills (`user`) or of .agents/skills "
            "in --root (`project`, after `taofold skills trust`). Repeatable.",
            rich_help_panel=options.AGENT,
        ),
    ] = None,
    attach: Annotated[
        list[Path] | None,
        typer.Option(
            "--attach",
            metavar="FILE",
            help="Send the model a file: an image, a PDF or text. Repeatable.",
            rich_help_panel=_INPUT,
        ),
    ] = None,
    session: Annotated[
        str,
        typer.Option(
            "--session",
            metavar="NAME",
            help="Continue the conversation NAME, or begin it.",
            rich_help_panel=_INPUT,
        ),
    ] = "",
    tags: Annotated[
        list[str] | None,
        typer.Option(
            "--tag",
            metavar="NAME=VALUE",
            help="Tag the run, for `runs list --tag`. Repeatable.",
            rich_help_panel=_INPUT,
        ),
    ] = None,
    approve: options.Approve = "",
    autonomy: options.Autonomy = "",
    strict: options.Strict = False,
    steps: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="At most N steps.", rich_help_panel=options.LIMITS),
    ] = None,
    tool_calls: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="At most N tool calls.", rich_help_panel=options.LIMITS
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(min=0, metavar="N", help="At most N seconds.", rich_help_panel=options.LIMITS),
    ] = None,
    tokens: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="At most N tokens.", rich_help_panel=options.LIMITS),
    ] = None,
    usd: Annotated[
        float | None,
        typer.Option(
            min=0, metavar="N", help="At most N US dollars.", rich_help_panel=options.LIMITS
        ),
    ] = None,
    root: options.Root = None,
    network: options.Network = False,
    project_instructions: options.ProjectInstructions = True,
    snapshots: options.Snapshots = False,
    local_port: options.LocalPort = None,
    allow_python: options.AllowPython = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Run an agent on a goal and show its thoughts, actions and observations.

    Commands run in a sandbox if bubblewrap works here. Otherwise they run with your rights, are
    marked "not contained" and always need your approval.
    """
    from taofold.cli.agent_argument import approved_by, chosen, make
    from taofold.cli.prerequisites import lacking_for
    from taofold.cli.project import open_store
    from taofold.runtime.run import new_id
    from taofold.tools.attachments import Attachment

    data = assignments(values or [])
    agent, goal = _arguments(agent, goal or _own_goal(agent, data))
    tagged = _tagged(tags or [])
    files = [Attachment(path) for path in attach or ()]
    for file in files:
        file.load()  # report faulty files first
    bounds = {
        "steps": steps,
        "tool_calls": tool_calls,
        "seconds": seconds,
        "tokens": tokens,
        "usd": usd,
    }
    limits: dict[str, float] = {name: v for name, v in bounds.items() if v is not None}
    choice = chosen(
        agent,
        root,
        model=model,
        autonomy=autonomy,
        strict=strict,
        network=network,
        project_instructions=project_instructions,
        snapshots=snapshots,
        ports=local_port or (),
        limits=limits,
        tools=tools or (),
        skills=skills or (),
        recursive=recursive,
        allow_python=allow_python,
    )
    # Before the store is made, so that a faulty agent file leaves no `.taofold` behind.
    chosen_agent = make(choice, own_approver=True)
    data |= _texts(chosen_agent.strategy, values or [])
    _check_names(chosen_agent.strategy, list(data))
    if reason := lacking_for(chosen_agent, goal):
        fail(reason)
    log = open_store(create=True)
    name = new_id()

    async def work(listener: "Listener", approver: "Approver | None") -> "RunResult[Any]":
        named = session
        if named:
            from taofold.core.values import Principal
            from taofold.views import inner_session

            # Named as by a server: `ann/x` of this machine's user is no session of ann.
            named = inner_session(Principal(), named)
        return (
            await approved_by(chosen_agent, approve, approver)
            .replace(log=log)
            .run(
                [goal, *files] if files else goal,
                run_id=name,
                session=named,
                # The user has not seen the question of a waiting run.
                if_waiting="refuse",
                data=data,
                tags=tagged,
                listener=listener,
                settings=choice.settings(),
            )
        )

    finish(drive(log, name, work, approve=approve, json=json, quiet=quiet))


def _own_goal(agent: str, data: Mapping[str, Any]) -> str:
    """Returns the name of a flow file that needs no goal; "" for others.

    Raises:
        ExceptionGroup: All faults of the file, which come before a missing goal.
    """
    from taofold.cli.agent_argument import is_file
    from taofold.cli.project import operator_policy
    from taofold.files.checked_yaml import refuse
    from taofold.files.flow.file import FlowFile, needs_goal, read_agent

    if not is_file(agent) or not Path(agent).is_file():
        return ""
    file, faults = read_agent(Path(agent), operator_policy(), agent)
    if file is None:
        refuse(faults, f"{agent} cannot be used")
    if not isinstance(file, FlowFile) or file.flow.keys.input:
        return ""
    if not data:
        state = file.flow.keys.initial_state
        absent = {*file.flow.missing(state), *(file.flow.needs - state.keys())}
        if absent or needs_goal(file):
            options = " ".join([f"--set {name}=…" for name in sorted(absent)])
            others = f", or set its variables: {options}" if absent else ""
            fail(f'GOAL is missing: {invocation()} run {agent} "the task"{others}')
    return file.flow.name or Path(agent).stem


def _check_names(strategy: object, names: Iterable[str]) -> None:
    """Notes variables that the flow does not name. Exits if one is misspelled."""
    flow: Flow | None = getattr(strategy, "flow", None)
    if flow is None:
        return
    known = flow.known | set(re.findall(r"\w+", flow.code))
    for name in [name for name in names if name not in known]:
        # A list and one of its entries are two variables.
        others = [o for o in flow.known - set(names) if name not in (f"{o}s", o[:-1])]
        similar = get_close_matches(name, others, n=1, cutoff=0.75)
        if similar and (flow.types or flow.keys.initial_state):
            fail(
                f"--set {name}: the flow has no variable {name!r}; did you mean {similar[0]!r}? "
                "Otherwise declare it in state_schema"
            )
        say(f"note: --set {name}: the flow names no variable {name!r}")


def _texts(strategy: object, pairs: Sequence[str]) -> dict[str, str]:
    """Returns the values whose type in the flow's `state_schema` is text: `123` stays a text."""
    written: Any = getattr(strategy, "written", None) or {}
    schema: Any = written.get("state_schema") or {}
    types: Any = schema.get("properties", schema) if schema.get("type") == "object" else schema
    texts: dict[str, str] = {}
    for key, _, text in (pair.partition("=") for pair in pairs):
        kind: Any = types.get(key, types.get(f"{key}?"))
        kind = kind.get("type") if is_object(kind) else kind
        if kind in ("str", "string"):
            quoted = _value(text)
            texts[key] = quoted if isinstance(quoted, str) else text
    return texts


def _arguments(agent: str, goal: str) -> tuple[str, str]:
    """Returns agent and goal. A single argument is the goal."""
    from taofold.cli.agent_argument import is_file
    from taofold.files.python_references import is_name

    if not goal:
        # A single argument that looks like an agent means that the goal is missing.
        if is_file(agent) or is_name(agent):
            fail(f'GOAL is missing: {invocation()} run {agent} "the task"')
        agent, goal = "", agent
    if goal == "-":
        goal = sys.stdin.read()
    if not goal.strip():
        fail('GOAL is empty: give a task, as in `taofold run "the task"`')
    return agent, goal


def drive(
    log: "Log",
    run: str,
    work: "Work",
    *,
    approve: str = "",
    json: bool = False,
    quiet: bool = False,
    told: "list[Record] | None" = None,
    go_on: str = "",
) -> "RunResult[Any] | None":
    """Runs `work`, shows it and prints the result. Returns None if it was interrupted.

    `told` are the records shown before a resume. `go_on` is the command that continues the run.
    Default: `runs resume RUN`.
    """
    from taofold.cli.render.story import Story, voice
    from taofold.core.events import Record

    speaker = voice(quiet=quiet or json)
    story = Story(speaker, run, waved=approve == "all")
    heard: list[Record] = []
    command = go_on or f"{invocation()} runs resume {run}"
    # A resumed run continues its step numbers and totals.
    story.before(told or [])

    def hear(happening: "Happening") -> None:
        if isinstance(happening, Record) and happening.run == run:
            heard[:] = [happening]  # the newest
        story(happening)

    asking = approver(approve, lambda: speaker.busy(""))
    try:
        result = asyncio.run(cancellable(work(hear, asking), log))
    except (KeyboardInterrupt, asyncio.CancelledError):
        speaker.busy("")
        known = [*(told or []), *heard]
        say(_interrupted(known, command))
        return None
    except LogError as error:
        speaker.busy("")
        # Before the first event the log is unusable (exit 2); later the run failed (exit 1).
        if not heard:
            raise
        fail(str(error), UNREACHED)
    except BaseException:
        speaker.busy("")
        raise
    speaker.busy("")
    show(result, command, json=json, summary=not quiet)
    return result


def _interrupted(known: "Sequence[Record]", command: str) -> str:
    """Returns the message after Ctrl-C, with the command that continues the run."""
    from taofold.core.events import Parked

    waits = bool(known) and isinstance(known[-1].event, Parked)
    state = "the run waits for an approval or answer" if waits else "all steps are kept"
    return f"interrupted; {state}. Continue with: {command}"


def finish(result: "RunResult[Any] | None") -> None:
    """Exits with the exit code of `result`."""
    raise typer.Exit(INTERRUPTED if result is None else code_of(result.state))


def show(result: "RunResult[Any]", go_on: str, *, json: bool, summary: bool = True) -> None:
    """Prints the result to standard output and suggestions to standard error."""
    # Imported here, because `--help` imports this module.
    from taofold.cli.render.story import summary as summary_of
    from taofold.policy.redaction.views import shown_value

    if json:
        give_json(as_json(result))
        return
    output = result.state.output
    if output is not None:
        give(output) if isinstance(output, str) else give_json(output)
    if result.status == "waiting":
        _next(result, go_on)
        return
    if summary:
        for text in summary_of(result.state):
            say(text)
    elif result.error:  # a quiet run still reports its error
        say(f"{result.status}: {shown_value(result.error)}")
    say(f"log: {invocation()} runs show {result.run_id}")


def as_json(result: "RunResult[Any]") -> dict[str, Any]:
    """Returns the result as one JSON object, with the names of the HTTP API."""
    from taofold.policy.redaction.views import shown_value
    from taofold.views import approval_json, counts_json

    usage = result.usage
    return {
        "id": result.run_id,
        "status": result.status,
        "stop_reason": result.stop_reason,
        "success": result.success,
        "output": result.state.output,
        "error": shown_value(result.error),
        "steps": len(result.steps),
        **counts_json(result.state),
        "usage": {
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "usd": usage.shown_usd,
        },
        "pending": [approval_json(approval) for approval in result.pending],
    }


def _next(result: "RunResult[Any]", go_on: str) -> None:
    from taofold.cli.render.story import question

    say("")
    for approval in result.pending:
        say("\n".join(question(approval)))
    say(f"then:\n  {go_on}")


async def cancellable(work: "Awaitable[T]", log: "Log") -> T:
    """Runs `work`, which SIGTERM cancels like Ctrl-C."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is not None and sys.platform != "win32":
        # `kill` and the stop of a container close the log, so nothing is lost.
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await work
    finally:
        await log.close()
        # Only if a model was called: an import of the HTTP client would slow every command.
        if (http := sys.modules.get("taofold.models.transport")) is not None:
            await http.aclose_all()


def approver(approve: str, before: Callable[[], None]) -> "Approver | None":
    """Returns the approver for `--approve`; `before` is called before each question."""
    approve = approve or "ask"
    if approve not in APPROVE:
        fail(f"--approve is one of {', '.join(APPROVE)}, not {approve!r}")
    asking = None
    if sys.stdin.isatty() and sys.stderr.isatty():
        from taofold.cli.approval_prompt import PromptApprover, Terminal
        from taofold.cli.render.story import can_colour

        asking = PromptApprover(Terminal(colours=can_colour(sys.stderr)), before)
    if approve == "all":
        return _everything(asking)
    return None if approve == "wait" else asking


def _everything(asking: "PromptApprover | None") -> "Approver":
    """Returns an approver that approves all actions. Questions are asked, or the run waits."""
    from taofold.cli.render.story import WAVED
    from taofold.runtime.ledger import Park
    from taofold.runtime.setup import Decision

    async def approve(request: "Approval") -> "Decision | list[Decision]":
        # A question needs an answer: after a crash the result of an action must not be guessed.
        if not request.question:
            return Decision("allow", reason=WAVED)
        if asking is None:
            raise Park(request.waits_for)
        return await asking(request)

    return approve
