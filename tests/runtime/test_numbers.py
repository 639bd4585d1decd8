"""NaN and Infinity are not JSON numbers. No entry point stores one in a run.

Mutants: the redactor passes them; encoded values are not checked; templates emit them; an action's
update is not checked.
"""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from taofold import Limits, Outcome, Store, tool
from taofold.core import events as e
from taofold.core.errors import ConfigError, LogError
from taofold.core.events import encode
from taofold.files.expressions.template import Template, Unrenderable
from taofold.log.formats.ndjson import dumps
from taofold.testing.replay import assert_replays

from .kit import LOGS, act, finish, sqlite
from .payer import agent

pytestmark = pytest.mark.anyio


@tool(effect="read")
def measure() -> Outcome:
    """Measure."""
    return Outcome({"v": [math.nan, 1.5]}, update=("best", -math.inf))


@pytest.mark.parametrize("log", LOGS)
async def test_what_a_run_keeps_is_json_and_the_same_from_every_log(
    log: str, tmp_path: Path
) -> None:
    one = agent(act("measure"), finish(), tools=[measure], log=LOGS[log](tmp_path))
    result = await one.run("goal", data={"x": math.nan, "y": [math.inf]}, settings={"z": math.nan})
    assert dict(result.state.data) == {"x": "nan", "y": ["inf"], "best": "-inf"}
    assert result.steps[0].observations[0].result == {"v": ["nan", 1.5]}
    assert result.log is not None
    records = await result.log.read(result.run_id)
    assert records == list(result.records)
    for line in dumps(records).splitlines():
        json.loads(line, parse_constant=pytest.fail)
    assert isinstance(records[0].event, e.RunStarted)
    assert records[0].event.settings["z"] == "nan"
    await assert_replays(one, result)


def test_what_would_be_stored_as_null_is_refused() -> None:
    with pytest.raises(ValueError, match="NaN"):
        encode(e.Updated(name="n", value={"deep": [1, math.nan]}))
    assert b"null" in encode(e.Updated(name="n", value={"deep": [1, None]}))


async def test_a_log_on_disk_refuses_it_with_the_whole_batch(tmp_path: Path) -> None:
    one = agent(finish(), log=sqlite(tmp_path))
    result = await one.run("goal")
    assert result.log is not None
    claim = await result.log.claim(result.run_id, "")
    bad = e.Record(result.run_id, len(result.records), 1, e.Updated(name="n", value=math.inf))
    with pytest.raises(LogError, match="JSON"):
        await result.log.append(result.run_id, claim.epoch, [bad])


def test_an_action_of_the_programmers_is_told() -> None:
    def broken(data: dict[str, Any]) -> tuple[str, Any]:
        return "n", {"mean": math.nan}

    with pytest.raises(ConfigError, match="no NaN"):
        Store().dispatch(broken)


@pytest.mark.parametrize(
    "text",
    [
        "{{ 'nan' | float }}",
        "{{ [1e308, 1e308] | sum }}",
        "{{ {'a': 1e308 * 10} }}",
        "x {{ 1e999 }}",
    ],
)
def test_a_template_makes_none(text: str) -> None:
    with pytest.raises(Unrenderable, match="not finite"):
        Template(text).render({})


def test_a_limit_without_end_is_no_limit() -> None:
    assert Limits(usd=math.inf, seconds=math.inf) == Limits()
