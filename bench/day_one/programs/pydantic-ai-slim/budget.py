from pydantic_ai import Agent, RunContext, UsageLimitExceeded, UsageLimits

inner = Agent("openai-chat:fake")
agent = Agent("openai-chat:fake")
limits = UsageLimits(request_limit=5)


@agent.tool
async def helper(ctx: RunContext, goal: str) -> str:
    """Counts."""
    return (await inner.run(goal, usage=ctx.usage, usage_limits=limits)).output


print(agent.run_sync("Ask the helper. script=parent;", usage_limits=limits).output)
try:
    agent.run_sync("Ask the helper for ever. script=endless;", usage_limits=limits)
except UsageLimitExceeded as error:
    print("limited", error)
