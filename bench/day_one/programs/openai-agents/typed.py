from agents import Agent, OpenAIChatCompletionsModel, Runner, function_tool
from openai import AsyncOpenAI
from pydantic import BaseModel


class Sum(BaseModel):
    total: int
    unit: str


@function_tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


model = OpenAIChatCompletionsModel("fake", AsyncOpenAI())
agent = Agent("agent", model=model, tools=[add], output_type=Sum)
result = Runner.run_sync(agent, "How many apples are 2 and 3? script=typed;").final_output
print(result.total, result.unit)
