import asyncio
import os
import sys

from agents import Agent, OpenAIChatCompletionsModel, Runner
from agents.mcp import MCPServerStdio
from openai import AsyncOpenAI


async def main():
    params = {"command": sys.executable, "args": [os.environ["MCP_SERVER"]]}
    async with MCPServerStdio(params) as weather:
        model = OpenAIChatCompletionsModel("fake", AsyncOpenAI())
        agent = Agent("agent", model=model, mcp_servers=[weather])
        print((await Runner.run(agent, "Oslo tomorrow? script=weather;")).final_output)


asyncio.run(main())
