from dataclasses import replace

from pydantic_ai import Agent, ModelSettings
from pydantic_ai.capabilities import AbstractCapability


class Frugal(AbstractCapability):
    async def before_model_request(self, ctx, request_context):
        return replace(request_context, model_settings=ModelSettings(max_tokens=500))

    async def before_tool_execute(self, ctx, *, call, tool_def, args):
        return {**args, "limit": 10} if call.tool_name == "search" else args


agent = Agent("openai:gpt-5", capabilities=[Frugal()])


@agent.tool_plain
def search(query: str, limit: int = 100) -> str:
    """Search the web."""
    return f"{limit} pages about {query}"


print(agent.run_sync("Find apples.").output)
