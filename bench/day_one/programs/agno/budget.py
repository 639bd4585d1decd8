from agno.agent import Agent
from agno.models.openai import OpenAIChat


class Spent(Exception):
    pass


class Counted(OpenAIChat):
    calls = 5

    def invoke(self, *args, **kwargs):
        Counted.calls -= 1
        if Counted.calls < 0:
            raise Spent("no model call is left")
        return super().invoke(*args, **kwargs)


inner = Agent(model=Counted(id="fake"))


def helper(goal: str) -> str:
    """Counts."""
    return inner.run(goal).content


agent = Agent(model=Counted(id="fake"), tools=[helper])
print(agent.run("Ask the helper. script=parent;").content)
Counted.calls = 5
result = agent.run("Ask the helper for ever. script=endless;")
print("limited" if result.status == "ERROR" else "not limited", result.content)
