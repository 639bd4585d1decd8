"""Finds out which texts a run has read, and with them the origin of a note. Pure, but `sources`.

The rule: a note is the user's if it is one whole message of the run's principal. Otherwise it is
`mixed` if the run has read any text that neither its principal nor the author of its agent wrote,
and `model` if it has not. Texts are compared for equality only, so no other wording evades the
rule. A run's first event records what it had read when it began: in the calling run, in the
session, in its notebook.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from taofold.core import events as e
from taofold.core.effects import hand_off_tool
from taofold.core.errors import UnknownRun
from taofold.core.json_values import is_array, is_object
from taofold.core.state import live
from taofold.core.values import (
    ASK_USER,
    ATTACHED_TEXT,
    GOAL_FROM,
    PROJECT_FILE,
    PROJECT_INSTRUCTIONS,
    RESERVED,
    SEARCH,
    Action,
)
from taofold.log.log import Log

SETTING: Final = "memory"
"""Key in `RunStarted.settings` of what a run recorded of its notebook."""
READ: Final = "read"
"""Key in this setting: the names of what the run had read when it began."""
NAMES: Final = ("remember", "recall", "forget")
"""The tools of a notebook."""
_OWN: Final = frozenset({*NAMES, *RESERVED, SEARCH})
"""Tools whose results are no foreign texts. `recall` finds notes that were there at the start."""
_CONTEXT: Final = "[UI Context: "
"""The beginning of a goal in which the user's page describes itself."""

# Names of sources that are no tools. A blank keeps them apart from the names of tools.
NOTES: Final = "unverified notes"
EARLIER: Final = "earlier messages"
ATTACHED: Final = "attached files"
PAGE: Final = "the page's context"
DATA: Final = "the run's data"
GOAL: Final = "a goal of a program"
OTHERS: Final = "another user"
DELETED: Final = "a deleted run"


def recorded(started: e.RunStarted) -> Mapping[str, Any]:
    """Returns what the run recorded of its notebook."""
    setting: Any = started.settings.get(SETTING)
    return setting if is_object(setting) else {}


def read_at_start(started: e.RunStarted) -> list[str]:
    """Returns the names of the foreign texts in the first event of a run, but for its history."""
    project: Any = started.settings.get(PROJECT_INSTRUCTIONS)
    held = {
        PROJECT_FILE: bool(project),
        GOAL: GOAL_FROM in started.settings,
        PAGE: started.goal.startswith(_CONTEXT),
        ATTACHED: bool(started.parts) or ATTACHED_TEXT in started.settings,
        DATA: bool(started.data),
    }
    return [name for name, is_held in held.items() if is_held]


def read_in(records: Sequence[e.Record]) -> list[str]:
    """Returns the names of the foreign texts that a run has read, also before it began.

    Results of an open step count too: code of a model may pass one call's result to the next.
    """
    names: dict[str, None] = {}
    actions: dict[str, Sequence[Action]] = {}
    principal, new = "", set[str]()
    """`new`: the tools whose first results are in the last step."""
    for record in live(records):
        match record.event:
            case e.RunStarted() as started:
                principal = started.principal.id
                known: Any = recorded(started).get(READ)
                if is_array(known):
                    begun = [str(name) for name in known]
                else:
                    # The writers of the earlier messages were not recorded.
                    begun = [*read_at_start(started), *([EARLIER] if started.history else [])]
                names |= dict.fromkeys(begun)
            case e.HandedOff() as handed:
                # The result of the call that handed over is the runtime's own text.
                if (called := hand_off_tool(handed.agent)) in new:
                    del names[called]
                # The next agent begins with its own project and notebook.
                held = handed.settings.get(SETTING)
                known = held.get(READ) if is_object(held) else None
                if handed.settings.get(PROJECT_INSTRUCTIONS):
                    names[PROJECT_FILE] = None
                names |= dict.fromkeys([str(name) for name in known] if is_array(known) else [])
            case e.Steered(by=by, parts=parts) if by != principal or parts:
                names[ATTACHED if by == principal else OTHERS] = None
            # An answer, the reason of a refusal, or changed parameters.
            case e.Resolved(by=by) if by != principal:
                names[OTHERS] = None
            case e.Hooked(hook=hook, message=message) if message:
                names[f"hook {hook}"] = None
            case e.Proposed() as proposed:
                actions[proposed.key], new = proposed.actions, set[str]()
            case e.Observed() as observed:
                used = _tool(actions, observed)
                if used not in _OWN and used not in names:
                    names[used] = None
                    new.add(used)
            case _:
                pass
    return list(names)


def _tool(actions: Mapping[str, Sequence[Action]], observed: e.Observed) -> str:
    """Returns the name of the tool that gave a result."""
    proposed = actions.get(observed.key, ())
    return proposed[observed.index].tool if observed.index < len(proposed) else "an unknown tool"


async def sources(log: Log, run: str, principal: str) -> list[str]:
    """Returns the names of the foreign texts that a run and its callers have read.

    Args:
        log: The log of the run.
        run: Its id.
        principal: The id of the principal for whom the text of the run is read.
    """
    names: dict[str, None] = {}
    while run:
        try:
            records = await log.read(run)
        except UnknownRun:
            records = []
        if not records or not isinstance(started := records[0].event, e.RunStarted):
            names[DELETED] = None
            break
        if started.principal.id != principal:
            names[OTHERS] = None
        names |= dict.fromkeys(read_in(records))
        # A run with a notebook has recorded what its callers had read.
        run = "" if is_array(recorded(started).get(READ)) else started.parent
    return list(names)


def own_messages(records: Iterable[e.Record]) -> Iterator[str]:
    """Yields the messages that the run's principal wrote: the goal, answers, later messages.

    A message with attached files is not only the principal's.
    """
    principal = ""
    actions: dict[str, Sequence[Action]] = {}
    answered: set[tuple[str, int]] = set()
    for record in live(records):
        match record.event:
            case e.RunStarted() as started:
                principal = started.principal.id
                foreign = {GOAL, PAGE, ATTACHED}.intersection(read_at_start(started))
                # The goal of a child is a text of the model that called its agent.
                if not started.parent and not foreign:
                    yield started.goal
            case e.Steered(by=by, parts=()) as steered if by == principal:
                yield steered.text
            case e.Proposed() as proposed:
                actions[proposed.key] = proposed.actions
            case e.Resolved(by=by) as resolved if by == principal:
                answered.add((resolved.key, resolved.index))
            case e.Observed(key=key, index=index) as observed if (key, index) in answered:
                text = observed.observation.result
                if _tool(actions, observed) == ASK_USER and isinstance(text, str):
                    yield text
            case _:
                pass
