import os
import sys

from taofold import Agent
from taofold.bridges.mcp import McpServer

weather = McpServer.stdio(sys.executable, os.environ["MCP_SERVER"], prefix="", trust=True)
agent = Agent("openai-chat:fake", base_url=os.environ["OPENAI_BASE_URL"], tools=[weather])
print(agent.run_sync("Oslo tomorrow? script=weather;").output)
