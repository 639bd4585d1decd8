"""A price that is unknown is shown as unknown, never as $0.00."""

import asyncio
from pathlib import Path

from taofold import Agent
from taofold.core.reply import Usage
from taofold.core.text import dollars
from taofold.core.values import Reply
from taofold.testing.models import FunctionModel


def answering(usd: tuple[float, float] | None) -> Agent[None, str]:
    return Agent(FunctionModel(lambda _: Reply("ok", usage=Usage(10, 5)), usd=usd))


def test_tokens_without_a_price_make_the_cost_unknown() -> None:
    result = answering(None).run_sync("go")
    assert result.usage.tokens == 15
    assert result.usage.usd is None
    assert dollars(result.usage.usd) == "unknown cost"


def test_a_price_of_zero_is_known() -> None:
    assert answering((0.0, 0.0)).run_sync("go").usage.usd == 0.0


def test_a_sum_with_an_unknown_part_is_unknown() -> None:
    assert (Usage(1, 1, usd=0.5) + Usage(1, 1, usd=None)).usd is None
    assert (Usage(1, 1, usd=0.5) + Usage(1, 1, usd=0.25)).usd == 0.75


def test_a_run_with_an_unknown_price_reloads_from_its_log(tmp_path: Path) -> None:
    agent = answering(None).replace(log=tmp_path / "runs.db")
    run = agent.run_sync("go").run_id
    assert asyncio.run(agent.replay(run)).usage.usd is None
