"""Commands `taofold approvals list|approve|deny`: decisions from any process.

`approval_prompt` asks at the terminal that drives a run.
"""

import json as jsonlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taofold.cli import options
from taofold.cli.output import fail, give_json, say
from taofold.cli.runs.find import find, with_log
from taofold.cli.runs.go_on import resume_command
from taofold.core.errors import ConfigError, Refused
from taofold.core.json_values import is_object
from taofold.core.text import line, times

if TYPE_CHECKING:
    from taofold.log.log import Log
    from taofold.runtime.setup import Approval, Decision
    from taofold.tools import Tool, Toolset

app = typer.Typer(
    no_args_is_help=True,
    help="List and decide waiting actions and questions. ID is an id from `approvals list`.",
)
Ids = Annotated[
    list[str],
    typer.Argument(
        metavar="ID…",
        help="RUN:SEQ, or RUN if it has only one question.",
        autocompletion=options.questions,
    ),
]
All = Annotated[bool, typer.Option("--all", help="Decide all actions of the run ID.")]


@app.command("list")
def list_pending(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Only this run.")] = "",
    json: options.Json = False,
) -> None:
    """List waiting actions and questions of all runs."""
    from taofold.cli.render.story import doubtful, question
    from taofold.cli.render.tables import approvals_table
    from taofold.clocks import clock
    from taofold.runtime import control
    from taofold.runtime.ownership import driven
    from taofold.views import approval_json

    async def work(log: "Log") -> "tuple[list[Approval], set[str], set[str]]":
        waiting = await control.pending(log, await find(log, run) if run else "")
        names = {approval.run for approval in waiting}
        posted = {f"{name}:{seq}" for name in names for seq in await _posted(log, name)}
        return waiting, {name for name in names if driven(await log.row(name))}, posted

    waiting, driven_runs, posted = with_log(work)
    decided = {approval.id for approval in waiting} & posted
    live = {approval.id for approval in waiting if approval.run in driven_runs} - decided
    if json:
        give_json(
            [
                {
                    **approval_json(approval),
                    "live": approval.id in live,
                    "decided": approval.id in decided,
                }
                for approval in waiting
            ]
        )
    elif waiting:
        notes = {
            **dict.fromkeys([approval.id for approval in waiting], ""),
            **dict.fromkeys(live, "asked at a terminal"),
            **dict.fromkeys(decided, "decided: resume the run"),
        }
        approvals_table(waiting, clock(), notes)
        for approval in waiting:
            if doubtful(approval) or approval.form is not None:
                say("\n" + "\n".join(question(approval)))
    else:
        say("nothing waits for you")


async def _posted(log: "Log", run: str) -> list[int]:
    """Returns the run's questions that have an answer in its inbox."""
    signals = await log.inbox(run)
    return [signal.data["seq"] for signal in signals if signal.kind in ("decide", "answer")]


@app.command("approve")
def approve(
    ids: Ids,
    parameters: Annotated[
        str, typer.Option("--parameters", metavar="JSON", help="Run it with these parameters.")
    ] = "",
    answer: Annotated[
        str, typer.Option("--answer", metavar="TEXT", help="Answer to a question.")
    ] = "",
    done: Annotated[
        bool, typer.Option("--done", help="The action was done before the crash.")
    ] = False,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Reason for the log.")
    ] = "",
    all: All = False,  # noqa: A002 - the word
) -> None:
    """Approve waiting actions, or answer a question."""
    from taofold.runtime.setup import Decision

    edited = _parameters(parameters)
    if (answer or done or edited is not None) and (all or len(ids) > 1):
        fail("--answer, --parameters and --done need exactly one ID")
    if answer:
        decision = Decision("answer", answer=answer, reason=reason)
    elif done:
        decision = Decision("done", reason=reason)
    elif edited is not None:
        decision = Decision("edit", parameters=edited, reason=reason)
    else:
        decision = Decision("approve", reason=reason)
    what = "answered" if answer else "recorded as done" if done else "approved"
    _decided(what, with_log(lambda log: _decide_each(log, ids, decision, everything=all)))


@app.command("deny")
def deny(
    ids: Ids,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Reason; the agent reads it.")
    ] = "",
    all: All = False,  # noqa: A002 - the word
) -> None:
    """Deny waiting actions."""
    from taofold.runtime.setup import Decision

    decision = Decision("deny", reason=reason)
    _decided("denied", with_log(lambda log: _decide_each(log, ids, decision, everything=all)))


async def _decide_each(
    log: "Log", ids: "list[str]", decision: "Decision", *, everything: bool
) -> "tuple[list[tuple[Approval, bool]], dict[str, str]]":
    """Decides each.

    Returns the decisions, with whether a process is waiting for them, and the command that
    continues each run.
    """
    if everything:
        waiting = await _waiting(log, ids)
        questions = [approval.id for approval in waiting if approval.question]
        if questions and decision.verdict != "deny":
            fail(f"{questions[0]} is a question: answer it alone, with --answer TEXT")
        ids = [approval.id for approval in waiting]
    decisions = [await _decide(log, name, decision) for name in ids]
    runs = {approval.run for approval, _ in decisions}
    return decisions, {run: await resume_command(log, run) for run in runs}


async def _waiting(log: "Log", runs: "list[str]") -> "list[Approval]":
    """Returns all waiting approvals of these runs. Raises `Refused` if there are none."""
    from taofold.runtime import control

    names = [await find(log, run) for run in runs]
    waiting = [approval for name in names for approval in await control.pending(log, name)]
    if not waiting:
        raise Refused(f"nothing waits for a person in {', '.join(names)}")
    return waiting


async def _decide(log: "Log", reference: str, decision: "Decision") -> "tuple[Approval, bool]":
    """Decides one approval. Returns it, and whether a running process is waiting for it."""
    from taofold.cli.project import operator_policy
    from taofold.runtime import control
    from taofold.runtime.ownership import driven

    approval = await _pending(log, reference)
    question = approval.wants_text
    if question and decision.answer is None and decision.verdict not in ("deny", "edit"):
        fail(f"it asks {approval.question!r}: answer with --answer TEXT")
    if decision.answer is not None and not question:
        fail(f"{approval.action.tool} asks for approval, not for an answer: leave --answer out")
    # Read before the decision, because the waiting process may end the run at once.
    live = driven(await log.row(approval.run))
    tools = None if decision.parameters is None else await _tools(log, approval)
    decided = await control.decide(
        log, approval.id, decision, policy=operator_policy(), tools=tools
    )
    return decided, live


async def _tools(log: "Log", approval: "Approval") -> "Mapping[str, Tool]":
    """Returns the tools of the run's agent, to check an edit; none if the agent cannot be made
    here.
    """
    from taofold.cli.agent_argument import is_recorded, make, recorded_choice
    from taofold.core.state import opening
    from taofold.files.flow.unasked import UnaskedModel
    from taofold.runtime import control
    from taofold.tools.threads import WORKERS

    top = await control.root(log, await log.row(approval.run))
    started = opening(await log.read(top.run, limit=1))
    why = "this run does not record how its agent is made"
    if started is not None and is_recorded(started):
        try:
            agent = make(recorded_choice(started), stand_in=UnaskedModel())
            # In a thread, because MCP servers are asked for their tools.
            tools: Toolset = await WORKERS.run(lambda: agent.toolset)
            return tools
        except (ConfigError, ExceptionGroup) as error:
            why = f"the run's agent cannot be made here: {str(error).splitlines()[0]}"
    if approval.form is None:
        say(f"note: {why}. If the parameters do not fit, the run asks again when it goes on.")
    return {}


async def _pending(log: "Log", reference: str) -> "Approval":
    from taofold.runtime import control

    name, colon, seq = reference.partition(":")
    run = await find(log, name)
    if colon:
        return await control.find(log, f"{run}:{seq}")
    waiting = await control.pending(log, run)
    if len(waiting) == 1:
        return waiting[0]
    if waiting:
        ids = ", ".join(approval.id for approval in waiting)
        fail(f"run {run!r} has {times(len(waiting), 'question')}: {ids}; name them, or add --all")
    raise Refused(f"run {run!r} has nothing that waits for a person")


def _parameters(text: str) -> dict[str, Any] | None:
    if not text:
        return None
    try:
        edited: Any = jsonlib.loads(text)
    except ValueError as error:
        fail(f"--parameters is not JSON: {error}")
    if not is_object(edited):
        fail(f"--parameters is a JSON object, not {text!r}")
    return edited


def _decided(what: str, decided: "tuple[list[tuple[Approval, bool]], dict[str, str]]") -> None:
    decisions, commands = decided
    for approval, _ in decisions:
        subject = approval.question if approval.wants_text else approval.preview
        say(f"{what}: {line(subject or approval.action.tool, 200)}")
    live = any(live for _, live in decisions)
    if live:
        say("the run continues at the terminal that asked")
    # Calls of one run, and of a child and its root, are continued by one command.
    waiting = dict.fromkeys(commands[approval.run] for approval, live in decisions if not live)
    for command in waiting:
        say(f"continue with: {command}")
