"""The routes of policy tests: an agent's policy as text, and another one on its stored runs.

A test reads only runs that the caller may read. The text is data: it is parsed, it opens no file
and runs no code, and no run is changed. The work is bounded before it begins. One test runs at a
time on a server.
"""

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any, Final

from taofold.backtest import StoredAgents, backtest
from taofold.backtest.stored_agents import muted
from taofold.backtest.stored_calls import is_trial, period_start
from taofold.core.errors import ConfigError
from taofold.core.events import RunStarted
from taofold.core.json_values import is_object
from taofold.files.policy import parse_policy, policy_text
from taofold.log.log import RunRow
from taofold.policy import Policy
from taofold.server.api import schemas
from taofold.server.api.runs import offered_agent, sources
from taofold.server.catalog import SETTINGS, AnyAgent
from taofold.server.client_tools import CLIENT_TOOLS, tools_of
from taofold.server.endpoint import ApiCall, Problem, Routes, visible_run

routes: Final = Routes("policy")

MOST_RUNS: Final = 1_000
MOST_EVENTS: Final = 100_000
"""Events of all runs of one test."""
_MOST_BUDGETS: Final = 50
_MOST_CHANGES: Final = 200
_NEEDS_RIGHT: Final = "budgets (this needs the right budgets)"


def _sees_budgets(call: ApiCall) -> bool:
    return not call.server.settings.policy.lacks(call.principal, "budgets")


@routes.get("/policy", right="read", query=schemas.PolicyQuery)
async def current(call: ApiCall) -> schemas.PolicyText:
    """Shows the policy of an agent as the text of a policy file.

    Amounts need the right `budgets`.
    """
    name, agent = offered_agent(call.server, call.query.agent)
    policy = agent.policy if _sees_budgets(call) else replace(agent.policy, budgets=())
    return schemas.PolicyText(agent=name, text=policy_text(policy))


@routes.post("/policy/test", right="read", body=schemas.TestedPolicy, errors=(404, 503))
async def tested(call: ApiCall) -> schemas.PolicyTest:
    """Shows what another policy would have allowed, asked about or denied in stored runs."""
    server, body = call.server, call.body
    name, agent = offered_agent(server, body.agent)
    policy = parse_policy(body.policy, "policy")
    if len(policy.budgets) > _MOST_BUDGETS:
        raise Problem(422, "too_much", f"a test takes at most {_MOST_BUDGETS} budgets")
    sees_budgets = _sees_budgets(call)
    if not sees_budgets:
        policy = replace(policy, budgets=agent.policy.budgets)
    if server.testing.locked():
        raise Problem(
            503, "busy", "another policy is tested: try again", headers={"Retry-After": "2"}
        )
    async with server.testing:
        rows, left_out = await _rows(call, agent)
        agents = StoredAgents(server.log, _Maker(name, agent, policy))
        result = await backtest(server.log, _each(rows), agents, policy, is_operators=False)
    view = result.as_json()
    if not sees_budgets:
        kept = [each for each in view["findings"] if not each["rule"].startswith("budgets.")]
        view |= {"findings": kept, "untested": [*view["untested"], _NEEDS_RIGHT]}
    names = schemas.PolicyTest.model_fields.keys() & view.keys()
    shown = {key: view[key] for key in names} | {"changes": view["changes"][:_MOST_CHANGES]}
    return schemas.PolicyTest(
        **shown,
        further=len(view["changes"]) - len(shown["changes"]),
        left_out=left_out,
    )


class _Maker:
    """Makes the agents of root runs: the tested agent with another policy, muted."""

    def __init__(self, name: str, agent: AnyAgent, policy: Policy) -> None:
        self._name = name
        # Muted first: a copy with the agent's own tools would open them again.
        self._agent = muted(agent).replace(policy=policy)

    def __call__(self, started: RunStarted) -> AnyAgent:
        settings: Any = started.settings.get(SETTINGS)
        if not is_object(settings) or settings.get("agent") != self._name:
            raise ConfigError(
                "of runs that this agent of the server did not begin, such as those of the command "
                "line: test them with `taofold policy test`"
            )
        definitions: Any = settings.get(CLIENT_TOOLS)
        if not definitions:
            return self._agent
        try:
            return self._agent.replace(tools=[*self._agent.tools, *tools_of(definitions)])
        except (TypeError, ValueError, LookupError):
            raise ConfigError("the tools of its client are damaged") from None


async def _each(rows: Sequence[RunRow]) -> AsyncIterator[RunRow]:
    for row in rows:
        yield row


async def _rows(call: ApiCall, agent: AnyAgent) -> tuple[list[RunRow], int]:
    """Returns the rows of the runs, with the child runs of those of a period.

    The second value is the number of forks of a recheck, which a period leaves out.

    Raises:
        Problem: 404, a named run is not visible; 422, there are too many runs or events.
    """
    if call.body.runs:
        names = list(dict.fromkeys(call.body.runs))
        return _bounded([await visible_run(call, run) for run in names]), 0
    found: dict[str, RunRow] = {}
    roots = await _roots(call, agent)
    waiting = [row for row in roots if not is_trial(row)]
    left_out = len(roots) - len(waiting)
    while waiting:
        row = waiting.pop()
        if row.run in found:
            continue
        found[row.run] = row
        _bounded(list(found.values()))
        waiting += await call.server.log.rows(parent=row.run, limit=MOST_RUNS + 1)
    return sorted(found.values(), key=lambda row: -row.place), left_out


async def _roots(call: ApiCall, agent: AnyAgent) -> list[RunRow]:
    """Returns the visible root runs of the agent since the start of the period."""
    log = call.server.log
    since = period_start(call.body.since, call.server.now())
    found: dict[str, RunRow] = {}
    for source in sources(call, agent.name):
        before = 0
        while rows := await log.rows(**source, before=before, limit=MOST_RUNS):
            recent = [row for row in rows if row.created_at >= since]
            # An imported run is older than its place, so only a whole page ends the search.
            if not recent:
                break
            found |= {row.run: row for row in recent if not row.parent}
            _bounded(list(found.values()))
            before = rows[-1].place
    return list(found.values())


def _bounded(rows: list[RunRow]) -> list[RunRow]:
    """Returns the rows.

    Raises:
        Problem: 422, there are too many runs or events.
    """
    if len(rows) > MOST_RUNS or sum([row.events for row in rows]) > MOST_EVENTS:
        raise Problem(
            422,
            "too_much",
            f"more than {MOST_RUNS:,} runs or {MOST_EVENTS:,} events: choose a shorter period, "
            "name the runs, or use `taofold policy test`",
        )
    return rows
