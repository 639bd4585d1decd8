import asyncio
import os
import sys

from agno.agent import Agent
from agno.models.openai import OpenAIChat
from agno.tools.mcp import MCPTools


async def main():
    async with MCPTools(f"{sys.executable} {os.environ['MCP_SERVER']}") as weather:
        agent = Agent(model=OpenAIChat(id="fake"), tools=[weather])
        print((await agent.arun("Oslo tomorrow? script=weather;")).content)


asyncio.run(main())
