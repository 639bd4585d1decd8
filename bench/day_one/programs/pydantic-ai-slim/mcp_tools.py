import os

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

agent = Agent("openai-chat:fake", toolsets=[MCPToolset(os.environ["MCP_SERVER"])])
print(agent.run_sync("Oslo tomorrow? script=weather;").output)
