"""The ids that a place in a run gives: of a call, of the child run that it begins, of its samples.

A place is the `key` of an effect in its strategy and the index of a call in its batch, so a resume
and a replay give the same ids. A `Rewound` gives its places anew: what is called there afterwards
has ids of its own. `branch` is no id: it says in which branch of a fork a place lies.
"""

from hashlib import blake2b
from typing import Final

from taofold.core.state import RunState

IDENTITY: Final = "identity"
"""A setting of `RunStarted`: a word that no other run has. Names of runs may recur."""


def effect_id(run: str, state: RunState, key: str, index: int) -> str:
    """The id of the call at this place, as tools know it: the same for every attempt at this call.

    No other call has it: not one of a run of the same name in another log, nor one that stands at
    the same place after what was there has been taken back. Runs that the Rust runtime began have
    no identity in it.
    """
    own = str(state.started.settings.get(IDENTITY, "")) if state.started else ""
    life = f"{run}\x1f{own}\x1f{state.rewinds}" if own else run
    return blake2b(f"{life}\x1f{key}\x1f{index}".encode(), digest_size=12).hexdigest()


def child_id(run: str, key: str, index: int, rewinds: int = 0) -> str:
    """The id of the run that the call at this place of `run` begins, if it is an agent's.

    After `rewinds` of the run the call is another one, and so is the run that it begins.
    """
    life = f"r{rewinds}" if rewinds else ""
    return f"{run}.{key.replace('.', '-')}-{index}{life}"


def sample_id(run: str, key: str, index: int, number: int) -> str:
    """The id of the run in which a model answers a question of the tool called at this place."""
    return f"{child_id(run, key, index)}s{number}"


def branch(key: str) -> str:
    """The branch of the strategy in which the effect `key` stands: "" outside every fork."""
    return key.rpartition(".")[0]
