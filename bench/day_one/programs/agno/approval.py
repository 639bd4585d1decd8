import sys

from agno.agent import Agent
from agno.db.sqlite import SqliteDb
from agno.models.openai import OpenAIChat
from agno.tools import tool


@tool(requires_confirmation=True)
def send_invoice(customer: str, euros: int) -> str:
    """Send an invoice."""
    print(f"sent {euros} to {customer}")
    return "sent"


agent = Agent(model=OpenAIChat(id="fake"), tools=[send_invoice], db=SqliteDb(db_file="runs.db"))
if sys.argv[1] == "ask":
    run = agent.run("Bill Ada. script=bill;", run_id="bill-ada", session_id="bill")
    print("waiting", run.is_paused)
else:
    run = agent.get_run_output(run_id="bill-ada", session_id="bill")
    for requirement in run.active_requirements:
        requirement.confirm()
    done = agent.continue_run(run_id="bill-ada", session_id="bill", requirements=run.requirements)
    print(done.content)
