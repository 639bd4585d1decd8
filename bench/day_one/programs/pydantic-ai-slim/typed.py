from pydantic import BaseModel
from pydantic_ai import Agent


class Sum(BaseModel):
    total: int
    unit: str


agent = Agent("openai-chat:fake", output_type=Sum)


@agent.tool_plain
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


result = agent.run_sync("How many apples are 2 and 3? script=typed;").output
print(result.total, result.unit)
