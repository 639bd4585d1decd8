from taofold import Agent, tool


@tool(effect="read")
def find_order(order: int) -> str:
    """Find an order."""
    return f"order {order} cost 30 euros"


billing = Agent(
    "openai:gpt-5", name="billing", instructions="You answer about orders.", tools=[find_order]
)
agent = Agent(
    "openai:gpt-5",
    name="triage",
    instructions="Hand questions about orders over.",
    handoffs=[billing],
    log="runs.db",
)

if __name__ == "__main__":
    print(agent.run_sync("What did order 7 cost?", session="ada").output)
    print(agent.run_sync("And order 8?", session="ada").output)
