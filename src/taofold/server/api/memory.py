"""The routes of notebooks: list, correct and delete the caller's own notes.

A notebook belongs to the principal of a run, so each caller sees its own only, like runs. The
principal is the established one: no parameter names another.
"""

from typing import Final

from taofold.core.errors import ConfigError, Refused
from taofold.core.text import iso
from taofold.memory import (
    LogNotebooks,
    Memory,
    NotebookEntry,
    NotebookOwner,
    NotebookStore,
)
from taofold.memory.offer import LONGEST_NOTE, checked_text
from taofold.policy.redaction.views import shown_value
from taofold.server.api import schemas
from taofold.server.endpoint import ApiCall, Problem, Routes

routes: Final = Routes("memory")


@routes.get("/memory", right="read", query=schemas.MemoryQuery)
async def notes(call: ApiCall) -> schemas.Notes:
    """Lists your notes, the newest first in each notebook."""
    query: schemas.MemoryQuery = call.query
    items: list[schemas.NoteView] = []
    for agent in await _agents(call):
        if query.agent in ("", agent):
            page = await _store(call, agent).read(_owner(call, agent))
            items += [_view(agent, entry) for entry in reversed(page.entries)]
    return schemas.Notes(items=items)


@routes.post("/memory/{note}/edit", right="start", body=schemas.EditNote, errors=(404, 422))
async def edit(call: ApiCall) -> schemas.NoteView:
    """Corrects or pins a note."""
    body: schemas.EditNote = call.body
    if body.text is None and body.pinned is None:
        raise Problem(422, "invalid", "give text or pinned")
    agent, note = body.agent, call.path["note"]
    bounds, text = _bounds(call, agent), body.text
    try:
        clean = None if text is None else checked_text(text, bounds.chars, call.server.redactor)
    except Refused as error:
        raise Problem(422, "invalid", str(error)) from None
    try:
        entry = await _store(call, agent).correct(
            _owner(call, agent), note, by=call.principal.id, text=clean, pinned=body.pinned
        )
    except (Refused, ConfigError):
        raise _unknown() from None
    # Without the text: the audit outlives the note.
    call.server.audit("edit_note", call.principal.id, agent=agent, detail=note)
    return _view(agent, entry)


@routes.post("/memory/{note}/forget", right="start", body=schemas.ForgetNote, errors=(404,))
async def forget(call: ApiCall) -> schemas.ForgottenNote:
    """Deletes a note permanently. Logs of runs that were shown it keep its text."""
    body: schemas.ForgetNote = call.body
    agent, note = body.agent, call.path["note"]
    try:
        await _store(call, agent).forget(_owner(call, agent), note)
    except (Refused, ConfigError):
        raise _unknown() from None
    call.server.audit("forget_note", call.principal.id, agent=agent, detail=note)
    return schemas.ForgottenNote(id=note)


def _owner(call: ApiCall, agent: str) -> NotebookOwner:
    return NotebookOwner(call.principal.id, agent)


def _bounds(call: ApiCall, agent: str) -> Memory:
    """Returns the bounds of the served agent with this name, or the widest ones."""
    catalog = call.server.catalog
    for name in catalog.names:
        bounds = catalog[name].memory_bounds
        if catalog[name].name == agent and bounds is not None:
            return bounds
    # An agent that is not served here, or is called by another one.
    return Memory(chars=LONGEST_NOTE)


def _store(call: ApiCall, agent: str) -> NotebookStore:
    return _bounds(call, agent).store or LogNotebooks(call.server.log)


async def _agents(call: ApiCall) -> list[str]:
    """Returns the names of agents that may have a notebook of the caller."""
    catalog = call.server.catalog
    served = [catalog[name] for name in catalog.names]
    elsewhere = [a.name for a in served if a.memory_bounds and a.memory_bounds.store]
    try:
        owners = await LogNotebooks(call.server.log).owners(call.principal.id)
    except ConfigError:  # a log without a journal has no notebooks
        owners = []
    return list(dict.fromkeys([*[owner.agent for owner in owners], *elsewhere]))


def _view(agent: str, entry: NotebookEntry) -> schemas.NoteView:
    return schemas.NoteView.of(
        entry,
        agent=agent,
        text=shown_value(entry.text),
        at=iso(entry.at),
        earlier=[shown_value(version.text) for version in entry.earlier],
    )


def _unknown() -> Problem:
    # The same answer for a note of another principal.
    return Problem(404, "not_found", "there is no such note, or it is not yours")
