"""Numbered contracts that every log must pass.

    @pytest.mark.parametrize("contract", contracts(persistent=True), ids=lambda c: c.__name__)
    def test_my_log_keeps(contract, tmp_path):
        asyncio.run(contract(lambda: MyLog(tmp_path / "log")))

A contract gets a function that opens the log of one store, which is empty at first. A persistent
store is opened again after closing, or twice at the same time. A contract raises `Broken` if it is
not kept. Knows nothing about the implementation of a log.

An opener that can be pickled (`functools.partial(MyLog, path)`) is also raced by two processes, not
only by two threads. An opener that is a `Medium` has its power cut.

Payloads: text may hold any Unicode scalar value, including NUL, and be megabytes long. A log may
keep values that JSON does not have (a lone surrogate, an integer beyond 64 bits, an object, a NaN),
or refuse the whole batch with `LogError`. A NaN may come back as None, a tuple or a set as a list.
"""

from typing import Final

from taofold.testing.log_conformance import durability, leases, records
from taofold.testing.log_conformance.checks import Broken, Contract, Opener, numbered
from taofold.testing.log_conformance.durability import Medium

__all__ = ["Broken", "Contract", "Medium", "Opener", "contracts"]

_CONTRACTS: Final[dict[int, Contract]] = numbered(vars(records), vars(durability), vars(leases))
_PERSISTENT: Final = (22, 23, 36)


def contracts(*, persistent: bool) -> tuple[Contract, ...]:
    """Returns the contracts for a log; a `persistent` one must also outlive its closing."""
    return tuple([c for n, c in _CONTRACTS.items() if persistent or n not in _PERSISTENT])
