from agents import Agent, Runner, SQLiteSession, function_tool


@function_tool
def find_order(order: int) -> str:
    """Find an order."""
    return f"order {order} cost 30 euros"


billing = Agent(
    name="billing", model="gpt-5", instructions="You answer about orders.", tools=[find_order]
)
triage = Agent(
    name="triage",
    model="gpt-5",
    instructions="Hand questions about orders over.",
    handoffs=[billing],
)
session = SQLiteSession("ada", "runs.db")

result = Runner.run_sync(triage, "What did order 7 cost?", session=session)
print(result.final_output)
result = Runner.run_sync(result.last_agent, "And order 8?", session=session)
print(result.final_output)
