from agno.agent import Agent
from agno.models.openai import OpenAIChat

inner = Agent(model=OpenAIChat(id="fake"))


def helper(goal: str) -> str:
    """Counts."""
    return inner.run(goal).content


agent = Agent(model=OpenAIChat(id="fake"), tools=[helper])
print(agent.run("Ask the helper. script=parent;").content)
