"""`taofold approvals list|approve|deny`: a person's word, from any process."""

import json as jsonlib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taofold.cli import options
from taofold.cli.find import find, with_log
from taofold.cli.outcome import fail, give_json, say
from taofold.core.errors import Refused
from taofold.store.fields import is_mapping

if TYPE_CHECKING:
    from taofold.runtime.setup import Approval, Decision
    from taofold.store.log import Log

app = typer.Typer(
    no_args_is_help=True,
    help="What waits for a person. ID is as `approvals list` shows it, or a run with one question.",
)
Id = Annotated[str, typer.Argument(metavar="ID", help="RUN:SEQ, or RUN if it has one question.")]


@app.command("list")
def list_pending(
    run: Annotated[str, typer.Argument(metavar="RUN", help="Only of this run.")] = "",
    json: options.Json = False,
) -> None:
    """Actions and questions that wait, of all runs."""
    from taofold.cli.live import pending_json
    from taofold.cli.tables import approvals_table
    from taofold.runtime import people
    from taofold.store.store import clock

    async def work(log: "Log") -> "list[Approval]":
        return await people.pending(log, await find(log, run) if run else "")

    waiting = with_log(work)
    if json:
        give_json([pending_json(one) for one in waiting])
    elif waiting:
        approvals_table(waiting, clock())
    else:
        say("nothing waits for you")


@app.command("approve")
def approve(
    id: Id,  # noqa: A002 - the word
    parameters: Annotated[
        str, typer.Option("--parameters", metavar="JSON", help="Run it with these instead.")
    ] = "",
    answer: Annotated[
        str, typer.Option("--answer", metavar="TEXT", help="The answer to a question.")
    ] = "",
    done: Annotated[
        bool, typer.Option("--done", help="It had already happened before the crash.")
    ] = False,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="For the log.")] = "",
) -> None:
    """Let a pending action run, or answer a question."""
    from taofold.runtime.setup import Decision

    edited = _parameters(parameters)
    if answer:
        decision = Decision("answer", answer=answer, reason=reason)
    elif done:
        decision = Decision("done", reason=reason)
    elif edited is not None:
        decision = Decision("edit", parameters=edited, reason=reason)
    else:
        decision = Decision("approve", reason=reason)
    one = with_log(lambda log: _decide(log, id, decision))
    _said("answered" if answer else "approved", one)


@app.command("deny")
def deny(
    id: Id,  # noqa: A002 - the word
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="The agent reads it.")
    ] = "",
) -> None:
    """Refuse a pending action."""
    from taofold.runtime.setup import Decision

    _said("denied", with_log(lambda log: _decide(log, id, Decision("deny", reason=reason))))


async def _decide(log: "Log", said: str, decision: "Decision") -> "Approval":
    from taofold.cli.place import operator_policy
    from taofold.runtime import people

    one = await _pending(log, said)
    question = bool(one.question) and one.action.tool == "ask_user"
    if question and decision.answer is None and decision.verdict != "deny":
        fail(f"it asks {one.question!r}: answer with --answer TEXT")
    if decision.answer is not None and not question:
        fail(f"{one.action.tool} asks for approval, not for an answer: leave --answer out")
    return await people.decide(log, one.id, decision, policy=operator_policy())


async def _pending(log: "Log", said: str) -> "Approval":
    from taofold.runtime import people

    name, colon, seq = said.partition(":")
    run = await find(log, name)
    if colon:
        return await people.find(log, f"{run}:{seq}")
    waiting = await people.pending(log, run)
    if len(waiting) == 1:
        return waiting[0]
    if waiting:
        fail(f"run {run!r} has {len(waiting)} questions: {', '.join(one.id for one in waiting)}")
    raise Refused(f"run {run!r} has nothing that waits for a person")


def _parameters(text: str) -> dict[str, Any] | None:
    if not text:
        return None
    try:
        said: Any = jsonlib.loads(text)
    except ValueError as error:
        fail(f"--parameters is not JSON: {error}")
    if not is_mapping(said):
        fail(f"--parameters is a JSON object, not {text!r}")
    return said


def _said(what: str, one: "Approval") -> None:
    say(f"{what}: {one.question or one.preview or one.action.tool}")
    say(f"go on with: taofold runs resume {one.run}")
