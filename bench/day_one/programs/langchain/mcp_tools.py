import asyncio
import os
import sys

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI


async def main():
    server = {"command": sys.executable, "args": [os.environ["MCP_SERVER"]], "transport": "stdio"}
    tools = await MultiServerMCPClient({"weather": server}).get_tools()
    agent = create_agent(ChatOpenAI(model="fake"), tools)
    goal = {"messages": [{"role": "user", "content": "Oslo tomorrow? script=weather;"}]}
    print((await agent.ainvoke(goal))["messages"][-1].content)


asyncio.run(main())
