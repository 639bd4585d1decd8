from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

agent = Agent("openai:gpt-5", toolsets=[MCPToolset(Path("crm.py")).defer_loading()])
print(agent.run_sync("Get refund R7.").output)
