from pydantic_ai import Agent, ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel


def backwards(messages, info):
    return ModelResponse(parts=[TextPart(messages[-1].parts[-1].content[::-1])])


print(Agent(FunctionModel(backwards)).run_sync("olleh").output)
