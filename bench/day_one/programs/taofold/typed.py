import os

from pydantic import BaseModel

from taofold import Agent, tool


class Sum(BaseModel):
    total: int
    unit: str


@tool(effect="read")
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


agent = Agent("openai-chat:fake", base_url=os.environ["OPENAI_BASE_URL"], tools=[add], output=Sum)
result = agent.run_sync("How many apples are 2 and 3? script=typed;").output
print(result.total, result.unit)
