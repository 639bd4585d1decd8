from decimal import Decimal

from pydantic_ai import Agent
from pydantic_ai_harness import SpendLimits
from pydantic_ai_harness.spend import Budget, SpendLimitExceeded

day = Budget(usd=Decimal(1), window="day", scope=lambda ctx: ctx.deps, name="user")
agent = Agent("openai:gpt-5", deps_type=str, capabilities=[SpendLimits[str](budgets=[day])])
for user in ("ada", "ada", "bob"):
    try:
        print(user, agent.run_sync("Say hello.", deps=user).output)
    except SpendLimitExceeded as error:
        print(user, error)
