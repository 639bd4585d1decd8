"""`SignedLog`: a log that signs the chain of a run whenever the run rests or ends.

`chain_of` and `sign_run` work with any log that chains records. Knows nothing about keys.
"""

import importlib
import logging
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from taofold.core.errors import ConfigError, LogError
from taofold.core.events import Record, RunFinished, decode
from taofold.core.state import ENDED, fold
from taofold.evidence.chain import ChainHead, RunChain
from taofold.evidence.statement import Signer, keys_of, signed
from taofold.foreign_code import contained
from taofold.log.log import Claim, Log, RunRow, WrappedLog
from taofold.log.open import innermost

_logger: Final = logging.getLogger(__name__)


class SignedLog(WrappedLog):
    """A wrapper of `log` that signs the head of a run at each write that lets the run rest.

    A signer that fails leaves the head unsigned and reports it to the log of this module; the run
    itself is not affected. `taofold runs sign` signs it later.

    Args:
        log: The log, which must chain its records.
        signer: The holder of the key.
    """

    def __init__(self, log: Log, signer: Signer) -> None:
        super().__init__(log)
        self.signer = signer

    def __getattr__(self, name: str) -> Any:
        """Returns an attribute of the log beyond the protocol."""
        return getattr(self.log, name)

    async def create(self, row: RunRow, *, records: Sequence[Record] = (), **named: Any) -> Claim:
        """Registers a run with its first records."""
        claim = await self.log.create(row, records=records, **named)
        if records and row.status != "running":
            await self._sign(row.run, claim.epoch, records, row.status)
        return claim

    async def append(
        self,
        run: str,
        epoch: int,
        records: Sequence[Record],
        *,
        status: str = "",
        **named: Any,
    ) -> bool:
        """Writes the records, and signs the chain if the run rests."""
        written = await self.log.append(run, epoch, records, status=status, **named)
        if written and status not in ("", "running"):
            await self._sign(run, epoch, records, status)
        return written

    async def _sign(self, run: str, epoch: int, records: Sequence[Record], status: str) -> None:
        """Signs the head at the last record. The cost does not depend on the length of the run."""
        try:
            with contained():
                if status in ENDED and not any([type(it.event) is RunFinished for it in records]):
                    # An end is a record, and this one was written before.
                    await sign_run(self.log, run, self.signer)
                    return
                seq = records[-1].seq if records else await self._last(run, epoch)
                if seq >= 0:
                    inner = _chained(self.log)
                    chain: RunChain = await inner.tip(run, seq)
                    if self.signer.keyid not in keys_of(chain.heads[0]):
                        await _attest(inner, chain, chain.heads[0], self.signer, status)
        except Exception as error:  # noqa: BLE001 - a key service may raise anything
            _logger.warning("the chain of run %r is not signed: %s", run, error)

    async def _last(self, run: str, epoch: int) -> int:
        """Returns the number of the last record; -1 if there is none, or another owner wrote it."""
        row = await self.log.row(run)
        # That owner signs when it lets the run rest.
        return row.events - 1 if row.epoch == epoch else -1


def _chained(log: Log) -> Any:
    inner: Any = innermost(log)
    if not chains(log):
        raise ConfigError(f"{type(inner).__name__} does not chain its records", path="log")
    return inner


def chains(log: Log) -> bool:
    """Returns whether the log chains its records."""
    return hasattr(innermost(log), "store_head")


async def chain_of(log: Log, run: str) -> RunChain:
    """Returns the chain of a run.

    Raises:
        ConfigError: The log does not chain its records.
        UnknownRun: There is no such run.
    """
    chain: RunChain = await _chained(log).chain(run)
    return chain


async def tip_of(log: Log, run: str) -> RunChain:
    """Returns the chain of a run with one head, that of its last record, and no records.

    Raises:
        ConfigError: The log does not chain its records.
        UnknownRun: There is no such run.
    """
    chain: RunChain = await _chained(log).tip(run)
    return chain


async def _attest(
    log: Any, chain: RunChain, head: ChainHead, signer: Signer, status: str
) -> ChainHead:
    """Signs a head of a chain beside its other signers, and returns it."""
    done = replace(head, envelope=signed(chain, head, signer, status))
    await log.attest(chain.run, done, head.envelope)
    return done


async def _status(log: Any, chain: RunChain) -> str:
    """Returns the status of a run at the end of its chain.

    An end is a record. Only the row has the status of a run that has not ended.
    """
    try:
        records = [
            Record(chain.run, each.seq, each.at, decode(each.body, each.schema))
            for each in chain.records
        ]
    except (msgspec.DecodeError, KeyError, RecursionError) as error:
        raise LogError(f"a record of run {chain.run!r} is damaged: {error}") from error
    status = fold(records).status
    if status in ENDED:
        return status
    listed: str = (await log.row(chain.run)).status
    return "running" if listed in ENDED else listed


async def sign_run(log: Log, run: str, signer: Signer, authority: str = "") -> RunChain:
    """Signs the last record of a run. Returns the chain.

    The statement has the status that the run has at this record. Signatures of other keys are kept;
    a second one of the same key is not made.

    `authority` is the URL of a time-stamping authority that stamps the signature.

    Raises:
        ConfigError: The log does not chain its records, or the run has none. Or the record has
            another signed statement, a time stamp of another signature, or too many signatures.
        Conflict: Another process signed it at the same time.
        LogError: The records do not follow from each other.
        UnknownRun: There is no such run.
    """
    inner = _chained(log)
    chain: RunChain = await inner.store_head(run)
    if not chain.records:
        raise ConfigError(f"run {run!r} has no records to sign")
    # Another process may have appended since: the head at the last record read here is signed.
    last = chain.records[-1].seq
    head = next(each for each in chain.heads if each.seq == last)
    if signer.keyid not in keys_of(head):
        head = await _attest(inner, chain, head, signer, await _status(inner, chain))
    if authority and not head.stamp:
        if len(keys_of(head)) > 1:
            raise ConfigError(
                f"record {last} of run {run!r} has several signatures, and a time stamp covers one"
            )
        timestamp = importlib.import_module("taofold.evidence.timestamp")
        head = replace(head, stamp=timestamp.stamp(head.envelope, authority))
        await inner.attest(run, head, head.envelope)
    return replace(chain, heads=tuple([head if it.seq == last else it for it in chain.heads]))
