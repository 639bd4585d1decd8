import asyncio
import os
import sys

from taofold import Agent, Decision, decide, tool


@tool(effect="once", tier=3)
def send_invoice(customer: str, euros: int) -> str:
    """Send an invoice."""
    print(f"sent {euros} to {customer}")
    return "sent"


model = {"model": "openai-chat:fake", "base_url": os.environ["OPENAI_BASE_URL"]}
agent = Agent(**model, tools=[send_invoice], log="runs.db")
if sys.argv[1] == "ask":
    print(agent.run_sync("Bill Ada. script=bill;", run_id="bill-ada").status)
else:
    asked = asyncio.run(agent.result("bill-ada")).pending[0]
    asyncio.run(decide(agent.opened_log, asked.id, Decision("approve")))
    print(agent.resume_sync("bill-ada").output)
