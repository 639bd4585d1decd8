import sys

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command


def send_invoice(customer: str, euros: int) -> str:
    """Send an invoice."""
    print(f"sent {euros} to {customer}")
    return "sent"


config = {"configurable": {"thread_id": "bill-ada"}}
with SqliteSaver.from_conn_string("runs.db") as saver:
    agent = create_agent(
        ChatOpenAI(model="fake"),
        [send_invoice],
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"send_invoice": True})],
        checkpointer=saver,
    )
    if sys.argv[1] == "ask":
        goal = {"messages": [{"role": "user", "content": "Bill Ada. script=bill;"}]}
        print("waiting", agent.invoke(goal, config)["__interrupt__"])
    else:
        decided = Command(resume={"decisions": [{"type": "approve"}]})
        print(agent.invoke(decided, config)["messages"][-1].content)
