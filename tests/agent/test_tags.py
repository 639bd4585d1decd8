"""Tags of runs: checked and recorded at the start, and what lists are filtered by."""

from typing import Any

import pytest

from taofold import Agent, ConfigError
from taofold.testing.models import ScriptedModel

pytestmark = pytest.mark.anyio

SECRET = "correct-horse-battery"


def agent(**more: Any) -> Agent:
    return Agent(ScriptedModel(["yes"] * 5), log="memory", **more)


async def test_tags_are_recorded_and_runs_are_found_by_them() -> None:
    one = agent()
    first = await one.run("g", tags={"team": "x", "stage": "live"})
    await one.run("g", tags={"team": "y"})
    await one.run("g")
    assert first.state.started is not None
    assert first.state.started.tags == {"team": "x", "stage": "live"}
    assert one.opened_log is not None
    assert [row.run for row in await one.opened_log.rows(tag="team=x")] == [first.run_id]


async def test_a_run_that_is_begun_and_the_runs_of_a_batch_are_tagged() -> None:
    one = agent()
    run = await one.begin("g", tags={"team": "x"})
    batch = await one.map(["a", "b"], tags={"team": "x"})
    assert one.opened_log is not None
    found = {row.run for row in await one.opened_log.rows(tag="team=x")}
    assert found == {run, *batch.run_ids}


async def test_a_fork_has_the_tags_of_its_source() -> None:
    one = agent()
    result = await one.run("g", tags={"team": "x"})
    fork = await one.fork(result)
    assert one.opened_log is not None
    rows = await one.opened_log.rows(tag="team=x")
    assert [row.run for row in rows] == [fork.run_id, result.run_id]


async def test_a_secret_in_a_tag_is_not_written() -> None:
    one = agent(secrets=[SECRET])
    result = await one.run("g", tags={"key": SECRET})
    assert one.opened_log is not None
    assert (await one.opened_log.row(result.run_id)).tags == {"key": "[redacted]"}


@pytest.mark.parametrize(
    ("tags", "said"),
    [
        (["team"], "must be a mapping"),
        ("team=x", "must be a mapping"),
        ({"a=b": "x"}, "is not a valid tag name"),
        ({"": "x"}, "is not a valid tag name"),
        ({"n" * 65: "x"}, "is not a valid tag name"),
        ({1: "x"}, "is not a valid tag name"),
        ({"team": ""}, "a text of 1 to 200"),
        ({"team": 3}, "a text of 1 to 200"),
        ({"team": "x" * 201}, "a text of 1 to 200"),
        ({"team": "x\n"}, "unprintable"),
        ({"team": "\x00"}, "unprintable"),
        ({"team": "\udcff"}, "unprintable"),
        ({f"t{n}": "x" for n in range(17)}, "at most 16 tags"),
    ],
)
async def test_what_is_no_tag_is_a_configuration_error_and_no_run(tags: Any, said: str) -> None:
    one = agent()
    with pytest.raises(ConfigError, match=f"tags: .*{said}"):
        await one.run("g", tags=tags)
    assert one.opened_log is not None
    assert await one.opened_log.rows() == []
