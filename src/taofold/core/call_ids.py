"""Ids derived from a place in a run: of a call, of the child run it starts, and of its samples.

A place is the `key` of an effect in its strategy plus the index of a call in its batch, so a resume
and a replay derive the same ids. After a `Rewound` the same place yields new ids. `branch` returns
the fork branch of a key and `place_in_branch` its position there; neither is an id.
"""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

from taofold.core.errors import LogError
from taofold.core.state import RunState

IDENTITY: Final = "identity"
"""Key in `RunStarted.settings`. Its value is unique to the run, whereas run names may repeat."""


def effect_id(run: str, state: RunState, key: str, index: int) -> str:
    """Returns the id of the call at this place, equal for all attempts of this call.

    The id is unique across logs that use the same run name, and across a rewind of the place. Runs
    started by the Rust runtime have no identity in it.
    """
    own = str(state.started.settings.get(IDENTITY, "")) if state.started else ""
    life = f"{run}\x1f{own}\x1f{state.rewinds}" if own else run
    return blake2b(f"{life}\x1f{key}\x1f{index}".encode(), digest_size=12).hexdigest()


def child_id(run: str, key: str, index: int, rewinds: int = 0) -> str:
    """Returns the id of the child run that the call at this place of `run` starts.

    `rewinds` is the number of rewinds of the parent; each makes it another call and another run.
    """
    life = f"r{rewinds}" if rewinds else ""
    return f"{run}.{key.replace('.', '-')}-{index}{life}"


def sample_id(run: str, key: str, index: int, number: int) -> str:
    """Returns the run id of the sampling request `number` made by the tool called at this place."""
    return f"{child_id(run, key, index)}s{number}"


def branch(key: str) -> str:
    """Returns the fork branch that the effect `key` belongs to, or "" outside every fork."""
    return key.rpartition(".")[0]


def place_in_branch(key: str) -> tuple[str, int]:
    """Returns the branch of the effect `key`, and its position in it.

    Raises:
        LogError: The key is not a place, so no release wrote it.
    """
    branch_key, _, at = key.rpartition(".")
    try:
        return branch_key, int(at)
    except ValueError:
        raise LogError(f"{key!r} is not a place in a run: its log was modified") from None


def places_around(key: str) -> Iterator[tuple[str, str, int]]:
    """Yields the effect `key` and each fork around it: key, branch, and position in the branch.

    >>> list(places_around("3.1.0"))
    [('3.1.0', '3.1', 0), ('3', '', 3)]

    Raises:
        LogError: The key is not a place, so no release wrote it.
    """
    while key:
        branch_key, at = place_in_branch(key)
        yield key, branch_key, at
        # Two segments less: "3.1.0" is effect 0 of branch 1 of the fork at "3".
        key = branch_key.rpartition(".")[0]
