"""The states of files that a run has stored, and the calls whose effects they do not hold.

Pure functions of records: `state_at` finds the state of a step, `place_of` the folder in which a
run continues, `effects_after` the calls that taking steps back does not undo.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from taofold.core import events as e
from taofold.core import text
from taofold.core.state import RunState, fold, live, reduce
from taofold.core.values import Action, Observation


def stores_files(records: Sequence[e.Record]) -> bool:
    """Returns whether the run stores, or has restored, states of its files."""
    return any([isinstance(it.event, e.Snapshotted | e.Restored) for it in records])


def steps_at(records: Sequence[e.Record], upto: int) -> int:
    """Returns the number of complete steps at the event `upto`."""
    return len(fold([record for record in records if record.seq <= upto]).steps)


def stored_states(records: Sequence[e.Record]) -> dict[int, e.Snapshotted | e.Restored]:
    """Returns the last stored state of each step that counts."""
    return {
        record.event.step: record.event
        for record in live(records)
        if isinstance(record.event, e.Snapshotted | e.Restored) and record.event.tree
    }


def state_at(records: Sequence[e.Record], upto: int) -> e.Snapshotted | e.Restored | None:
    """Returns the state of the files at the last complete step at or before the event `upto`.

    None if there is none, as when the process ended between a tool and the snapshot.
    """
    step = steps_at(records, upto)
    # The state is recorded after the step, so it may lie behind `upto`. Steps that were rewound
    # have equal numbers: only a state before the next step of the same history counts.
    found: e.Snapshotted | e.Restored | None = None
    for record in _history(records, upto):
        event = record.event
        if isinstance(event, e.Snapshotted | e.Restored) and event.step == step and event.tree:
            found = event
    return found


def _history(records: Sequence[e.Record], upto: int) -> list[e.Record]:
    """Returns the records up to `upto` that counted then, and those up to the next step."""
    history = live([record for record in records if record.seq <= upto])
    for record in records:
        if record.seq > upto:
            if isinstance(record.event, e.Proposed | e.Rewound):
                break
            history.append(record)
    return history


def place_of(records: Sequence[e.Record]) -> str | None:
    """Returns the folder in which the run continues; "" if the run has no folder of its own.

    None: the run was rewound, and its process ended before the files were restored.
    """
    place: str | None = ""
    stores = stores_files(records)
    for record in records:
        match record.event:
            case e.Restored(folder=folder):
                place = folder or place or ""
            case e.Rewound() if stores:
                place = None
            case _:
                pass
    return place


def worktree_of(records: Sequence[e.Record]) -> e.Restored | None:
    """Returns the state and folder with which a run began in a worktree of its parent's files."""
    first = records[1].event if len(records) > 1 else None
    started = records[0].event if records else None
    is_child = isinstance(started, e.RunStarted) and started.parent
    return first if is_child and isinstance(first, e.Restored) else None


@dataclass(frozen=True, slots=True)
class OutsideEffect:
    """A call whose effect a state of files does not hold."""

    run: str
    key: str
    index: int
    step: int
    """The step of the call, counted from 1."""
    action: Action
    seq: int
    """The event of its first start."""
    at: int = 0
    """The time of that event, in milliseconds."""
    path: tuple[str, ...] = ()
    """The calls that led to a child run, by tool; empty for a call of the run itself."""
    observation: Observation | None = None
    """Its result. None if none is recorded: it may have happened."""
    undo: str = ""
    """The status of its undoing: "" or that of the last `Compensated`."""

    @property
    def done(self) -> bool:
        """False if its end is not recorded: it may have happened."""
        return self.observation is not None

    @property
    def name(self) -> str:
        """The step and the tool of the call, after the calls that led to a child run."""
        return f"{''.join([f'{name}: ' for name in self.path])}step {self.step}: {self.action.tool}"

    @property
    def line(self) -> str:
        """The call on one line."""
        doubt = "" if self.done else ", which may have happened"
        if self.undo == "started":
            doubt = ", whose undoing was interrupted and may have happened"
        parameters = text.parameters(self.action.parameters, 80)
        return f"{self.name} {parameters}{doubt}".replace(" ,", ",")


def _owner(records: Sequence[e.Record], seq: int) -> str:
    """Returns the run that made the call of a record: a copied or imported one is of another."""
    for record in reversed(records):
        if isinstance(record.event, e.Forked) and record.seq > seq:
            return record.event.run
    started = records[0].event
    if isinstance(started, e.RunStarted) and started.imported and seq < started.imported.events:
        return started.imported.source
    return records[0].run


def effects_after(records: Sequence[e.Record], upto: int) -> list[OutsideEffect]:
    """Returns the started calls after the event `upto` that may have changed more than files.

    In the order of their first start. Calls of tools that only read are left out.
    """
    found: dict[tuple[str, int], OutsideEffect] = {}
    steps = 0
    proposed: dict[str, tuple[int, Sequence[Action]]] = {}
    results: dict[tuple[str, int], Observation] = {}
    undone = {
        record.event.start: record.event.status
        for record in records
        if isinstance(record.event, e.Compensated) and not record.event.run
    }
    state = RunState()
    for record in live(records):
        event = record.event
        match event:
            case e.Proposed():
                proposed[event.key] = (steps + 1, event.actions)
            case e.Decided(action=Action() as action):
                number, actions = proposed[event.key]
                changed = list(actions)
                changed[event.index] = action
                proposed[event.key] = (number, changed)
            case e.StartedOnce() if record.seq > upto:
                number, actions = proposed[event.key]
                call = (event.key, event.index)
                action = actions[event.index]
                if call not in found:
                    undo = undone.get(record.seq, "")
                    owner = _owner(records, record.seq)
                    effect = OutsideEffect(
                        owner, *call, number, action, record.seq, record.at, undo=undo
                    )
                    found[call] = effect
            case e.Observed():
                results[event.key, event.index] = event.observation
            case e.Snapshotted():
                for call in event.held:
                    found.pop(call, None)
            case _:
                pass
        state = reduce(state, record)
        steps = len(state.steps)
    known = [
        replace(effect, observation=results.get(call), undo=effect.undo.replace("declined", ""))
        for call, effect in found.items()
    ]
    return [effect for effect in known if effect.undo != "done"]
