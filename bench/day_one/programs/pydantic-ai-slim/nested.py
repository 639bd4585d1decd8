from pydantic_ai import Agent

inner = Agent("openai-chat:fake")
agent = Agent("openai-chat:fake")


@agent.tool_plain
async def helper(goal: str) -> str:
    """Counts."""
    return (await inner.run(goal)).output


print(agent.run_sync("Ask the helper. script=parent;").output)
