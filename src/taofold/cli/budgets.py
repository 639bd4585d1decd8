"""Commands `taofold budget list|lift`: the shared spending of runs, and lifts by their owner."""

from typing import TYPE_CHECKING, Annotated

import typer

from taofold.cli import options
from taofold.cli.output import give_json, say
from taofold.cli.runs.find import with_log

if TYPE_CHECKING:
    from taofold.log.log import Log
    from taofold.policy import Policy
    from taofold.policy.budgets import BudgetUse
    from taofold.runtime.budgets import BudgetRow

app = typer.Typer(
    no_args_is_help=True,
    help="List budgets, and lift one. They are those of the operator's policy, or with --agent "
    "those of an agent as well.",
)


def _policy(agent: str) -> "Policy":
    """Returns the operator's policy, or that of the agent, which includes it."""
    from taofold.cli.agent_argument import chosen, make
    from taofold.cli.project import operator_policy
    from taofold.files.flow.unasked import UnaskedModel

    return make(chosen(agent), stand_in=UnaskedModel()).policy if agent else operator_policy()


@app.command("list")
def list_(agent: options.AgentName = "", json: options.Json = False) -> None:
    """List the spending of the present periods."""
    import msgspec

    from taofold.cli.project import has_log
    from taofold.runtime.budgets import budget_rows

    policy = _policy(agent)
    # Budgets are configured before the first run, which makes the log.
    rows = with_log(lambda log: budget_rows(log, policy)) if policy.budgets and has_log() else []
    if json:
        give_json(msgspec.to_builtins(rows))
    elif rows:
        _table(rows)
    elif policy.budgets:
        names = ", ".join(budget.name for budget in policy.budgets)
        say(f"nothing was spent in the present periods; the budgets are {names}")
    else:
        say("no budgets: add `budgets:` to your policy file, or name an agent with --agent")


def _table(rows: "list[BudgetRow]") -> None:
    from taofold.cli.render.tables import table
    from taofold.core.text import line
    from taofold.policy.budgets import utc

    cells = [
        (
            row.name,
            f"{row.share:.0%}",
            "; ".join(_amounts(row)),
            utc(row.until),
            f"by {line(row.lifted.by, 30)}" if row.lifted else "",
            line(row.scope, 80),
        )
        for row in sorted(rows, key=lambda row: (row.name, -row.share))
    ]
    table(("budget", "share", "spent", "free again", "lifted", "scope"), cells)


def _amounts(row: "BudgetRow") -> list[str]:
    amounts: list[str] = []
    if row.usd is not None:
        amounts.append(f"${row.spent_usd:,.4f} of ${row.usd:,.2f}")
    if row.tokens is not None:
        amounts.append(f"{row.spent_tokens:,} of {row.tokens:,} tokens")
    if row.unpriced_tokens:
        amounts.append(f"{row.unpriced_tokens:,} tokens without a price")
    return amounts


@app.command("lift")
def lift_(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name from `budget list`.")],
    scope: Annotated[
        str, typer.Argument(metavar="[SCOPE]", help="Such as principal:ada; not for `all`.")
    ] = "",
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Reason for the log.")
    ] = "",
    agent: options.AgentName = "",
) -> None:
    """Allow a budget's amount once more in the present period."""
    from taofold.core.errors import Refused
    from taofold.core.values import Principal
    from taofold.runtime.budgets import lift, never_spent
    from taofold.runtime.inbox import environment_redactor

    policy = _policy(agent)
    if not agent and all(budget.name != name for budget in policy.budgets):
        names = ", ".join(budget.name for budget in policy.budgets) or "none"
        raise Refused(
            f"there is no budget {name!r} in the operator's policy; there are: {names}. "
            "For a budget of an agent add --agent FILE"
        )

    async def lifted(log: "Log") -> "tuple[BudgetUse, bool]":
        redactor = environment_redactor()
        use = await lift(log, policy, name, scope, by=Principal(), reason=reason, redactor=redactor)
        return use, use.scope != "all" and await never_spent(log, use)

    use, unknown = with_log(lifted)
    say(f"lifted: {name} of {use.scope!r} has its amount once more until {use.free_at}")
    if unknown:
        say(f"note: nothing has been spent by {use.scope!r} yet: check the spelling")
