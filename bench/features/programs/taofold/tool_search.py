import sys

from taofold import Agent
from taofold.bridges.mcp import McpServer

crm = McpServer.stdio(sys.executable, "crm.py", name="crm", trust=True)
agent = Agent("openai:gpt-5", tools=[crm], log="runs.db")

if __name__ == "__main__":
    print(agent.run_sync("Get refund R7.").output)
