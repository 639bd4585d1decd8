import pytest

from taofold.tools import RunContext


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def ctx() -> RunContext[None]:
    return RunContext(None, effect_id="run#0")
