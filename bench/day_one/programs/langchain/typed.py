from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from pydantic import BaseModel


class Sum(BaseModel):
    total: int
    unit: str


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


agent = create_agent(ChatOpenAI(model="fake"), [add], response_format=Sum)
goal = {"role": "user", "content": "How many apples are 2 and 3? script=typed;"}
result = agent.invoke({"messages": [goal]})["structured_response"]
print(result.total, result.unit)
