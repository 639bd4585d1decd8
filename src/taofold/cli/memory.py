"""Commands `taofold memory`: list, show, edit and forget the notes of agents about their users."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from taofold.cli import options
from taofold.cli.output import USAGE, fail, give, give_json, say
from taofold.cli.runs.find import with_log
from taofold.core.text import iso, line, times, visible

if TYPE_CHECKING:
    from taofold.log.log import Log
    from taofold.memory import NotebookEntry, NotebookOwner

    Found = tuple[NotebookOwner, NotebookEntry]

app = typer.Typer(
    no_args_is_help=True,
    help="Notes that agents with memory= keep about their users. NOTE is the id of a note. "
    "The flow actions memory.store and memory.recall keep values of one run: see `runs show`.",
)
Note = Annotated[str, typer.Argument(metavar="NOTE", help="The note's id, or its beginning.")]
Agent = Annotated[str, typer.Option("--agent", metavar="AGENT", help="Only of this agent.")]
User = Annotated[str, typer.Option("--principal", metavar="ID", help="Only of this principal.")]
_LEAST = 4


async def _all(log: "Log", principal: str = "", agent: str = "") -> "list[Found]":
    from taofold.memory import LogNotebooks

    store: LogNotebooks = LogNotebooks(log)
    owners = await store.owners(principal or None)
    return [
        (owner, entry)
        for owner in owners
        if agent in ("", owner.agent)
        for entry in reversed((await store.read(owner)).entries)
    ]


async def _find(log: "Log", note: str, principal: str, agent: str) -> "Found":
    every = await _all(log, principal, agent)
    found = [each for each in every if each[1].id == note]
    if not found and len(note) >= _LEAST:
        found = [each for each in every if each[1].id.startswith(note)]
    if not found:
        fail(f"there is no note {note!r}; `taofold memory list` shows the ids")
    if len(found) > 1:
        names = ", ".join([f"{owner.principal}/{owner.agent}" for owner, _ in found])
        fail(f"{note!r} is a note of several: {names}; give --principal and --agent")
    return found[0]


def _facts(found: "Found") -> dict[str, Any]:
    from taofold.policy.redaction.views import shown_value

    owner, entry = found
    return {
        "id": entry.id,
        "principal": owner.principal,
        "agent": owner.agent,
        "text": shown_value(entry.text),
        "origin": entry.origin,
        "after": list(entry.after),
        "author": entry.author,
        "by": entry.by,
        "at": iso(entry.at),
        "run": entry.run,
        "step": entry.step,
        "pinned": entry.pinned,
        "earlier": [shown_value(version.text) for version in entry.earlier],
    }


@app.command("list")
def list_(principal: User = "", agent: Agent = "", json: options.Json = False) -> None:
    """List notes, the newest first in each notebook."""
    from taofold.cli.render.tables import table

    rows = with_log(lambda log: _all(log, principal, agent))
    facts = [_facts(found) for found in rows]
    if json:
        give_json(facts)
        return
    if not rows:
        filters = [
            f"{name} {value!r}"
            for name, value in (("principal", principal), ("agent", agent))
            if value
        ]
        chosen = f" of {' and '.join(filters)}: `taofold memory list` shows all"
        say(f"no notes{chosen if filters else ': agents with `memory: true` write them'}")
        return
    cells = [
        (
            fact["id"],
            line(fact["principal"], 20),
            line(fact["agent"], 20),
            line(found[1].source, 40) + (" (pinned)" if fact["pinned"] else ""),
            fact["at"][:10],
            line(fact["text"], 80),
        )
        for fact, found in zip(facts, rows, strict=True)
    ]
    table(("note", "principal", "agent", "origin", "date", "text"), cells)


@app.command()
def show(note: Note, principal: User = "", agent: Agent = "", json: options.Json = False) -> None:
    """Show a note with its origin and its earlier texts."""
    fact = _facts(with_log(lambda log: _find(log, note, principal, agent)))
    if json:
        give_json(fact)
        return
    for name, value in fact.items():
        texts: list[Any] = [*value] if isinstance(value, list) else [value]
        for text in [each for each in texts if each != "" and each is not False]:
            give(f"{name}: {' '.join(visible(str(text), prose=True).split())}")


@app.command()
def edit(
    note: Note,
    text: Annotated[
        str | None, typer.Option("--text", metavar="TEXT", help="The new text.")
    ] = None,
    pin: Annotated[
        bool | None, typer.Option("--pin/--unpin", help="Keep it in every prompt, or not.")
    ] = None,
    principal: User = "",
    agent: Agent = "",
) -> None:
    """Correct the text of a note, or pin it."""
    from taofold.core.values import Principal

    if text is None and pin is None:
        fail("give --text, --pin or --unpin", USAGE)

    async def work(log: "Log") -> "Found":
        from taofold.memory import LogNotebooks
        from taofold.memory.offer import LONGEST_NOTE, checked_text
        from taofold.runtime.inbox import environment_redactor

        owner, entry = await _find(log, note, principal, agent)
        clean = None if text is None else checked_text(text, LONGEST_NOTE, environment_redactor())
        changed = await LogNotebooks(log).correct(
            owner, entry.id, by=Principal().id, text=clean, pinned=pin
        )
        return owner, changed

    fact = _facts(with_log(work))
    say(f"saved: {fact['id']}{' (pinned)' if fact['pinned'] else ''}  {line(fact['text'], 100)}")


@app.command()
def forget(
    note: Note,
    everywhere: Annotated[
        bool,
        typer.Option(
            "--everywhere",
            help="Also delete the runs that wrote the note, were shown it, or found it.",
        ),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    principal: User = "",
    agent: Agent = "",
) -> None:
    """Delete a note permanently. Logs of runs that were shown it keep its text.

    With --everywhere these runs are deleted too, as with `taofold runs delete`.
    """
    from taofold.runtime.control import children
    from taofold.runtime.ownership import driven

    async def named(log: "Log") -> "tuple[Found, list[str]]":
        from taofold.memory.everywhere import runs_with

        found = await _find(log, note, principal, agent)
        names: list[str] = []
        for row in await runs_with(log, *found):
            names += [row.run, *await children(log, row.run)]
        return found, list(dict.fromkeys(names))

    found, names = with_log(named)
    many = times(len(names), "run")
    what = f"the note {found[1].id}" + (f" and {many}" if everywhere else "")
    if not yes:
        if not sys.stdin.isatty():
            fail(f"this deletes {what} permanently; confirm with --yes", USAGE)
        say(line(_facts(found)["text"], 200))
        from taofold.runtime.approvers import discard_typed

        discard_typed()
        typer.confirm(f"delete {what} permanently?", abort=True, err=True)

    async def work(log: "Log") -> None:
        from taofold.memory import LogNotebooks
        from taofold.runtime.ratings import forget as forget_ratings

        if everywhere:
            for name in names:
                if driven(await log.row(name)):
                    fail(f"{name} is being driven by a live process; cancel it first", code=1)
        await LogNotebooks(log).forget(found[0], found[1].id)
        if everywhere:
            await forget_ratings(log, names)
            for name in names:
                await log.delete(name)
        await _scrub(log)

    with_log(work)
    say(f"deleted: {what}")
    if names and not everywhere:
        say(f"{many} still {'has' if len(names) == 1 else 'have'} its text: --everywhere deletes")


async def _scrub(log: "Log") -> None:
    """Overwrites deleted data in a file."""
    from taofold.core.errors import LogError
    from taofold.log.open import innermost

    wipe = getattr(innermost(log), "scrub", None)
    if wipe is None:
        return
    try:
        await wipe()
    except LogError as error:
        say(f"warning: {str(error).replace('the runs are', 'the note is')}")
