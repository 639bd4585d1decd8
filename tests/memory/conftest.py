"""A log of each kind, and the scripts of models that use a notebook."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taofold.log.log import Log
from taofold.log.memory import MemoryLog
from taofold.log.open import open_log
from tests import postgres


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    """An empty log of each kind."""
    opened: Log
    if request.param == "memory":
        opened = MemoryLog()
    elif request.param == "sqlite":
        opened = open_log(tmp_path / "log.db")
    else:
        pytest.importorskip("psycopg", reason="psycopg is not installed")
        opened = open_log(postgres.server().url())
    yield opened
    asyncio.run(opened.close())


def act(tool: str, **parameters: Any) -> str:
    """Returns a reply that calls a tool."""
    return json.dumps({"thought": "next", "action": {"tool": tool, "parameters": parameters}})
