from agno.agent import Agent
from agno.models.openai import OpenAIChat
from pydantic import BaseModel


class Sum(BaseModel):
    total: int
    unit: str


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


agent = Agent(model=OpenAIChat(id="fake"), tools=[add], output_schema=Sum)
result = agent.run("How many apples are 2 and 3? script=typed;").content
print(result.total, result.unit)
