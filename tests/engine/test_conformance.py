"""Every engine keeps the contracts of engines, against the real thing behind it."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from taofold import MemoryLog
from taofold.engine import Engine, open_engine
from taofold.log.log import Log
from taofold.testing.engine_conformance import EngineContract, contracts
from tests import postgres
from tests.engine import restate

QUICK: dict[str, Any] = {"look_s": 0.05, "agents": ["worker"]}


def local(log: Log, advance: Any, **options: Any) -> Engine:
    return open_engine("local", log, advance, **options, **QUICK)


def names(contract: EngineContract) -> str:
    return contract.__name__


@pytest.mark.parametrize("contract", contracts(), ids=names)
def test_local(contract: EngineContract) -> None:
    asyncio.run(contract(local, MemoryLog()))  # type: ignore[arg-type]


def on_postgres(contract: EngineContract, make: Callable[..., Engine]) -> None:
    pytest.importorskip("psycopg")
    from taofold.log.postgres import PostgresLog

    async def main() -> None:
        log = PostgresLog(postgres.server().url())
        await contract(make, log)
        await log.close()

    asyncio.run(main())


@pytest.mark.parametrize("contract", contracts(), ids=names)
def test_local_on_postgres(contract: EngineContract) -> None:
    on_postgres(contract, local)


@pytest.mark.parametrize("contract", contracts(several=False), ids=names)
def test_dbos(contract: EngineContract) -> None:
    pytest.importorskip("dbos", reason="dbos is not installed (pip install 'taofold[dbos]')")

    def make(log: Log, advance: Any, **options: Any) -> Engine:
        return open_engine("dbos", log, advance, **options, **QUICK)

    on_postgres(contract, make)


@pytest.mark.parametrize("contract", contracts(), ids=names)
def test_restate(contract: EngineContract) -> None:
    pytest.importorskip("restate", reason="restate-sdk is not installed")
    server = restate.server()

    def make(log: Log, advance: Any, **options: Any) -> Engine:
        return open_engine(server.engine(), log, advance, **options, **QUICK)

    on_postgres(contract, make)
