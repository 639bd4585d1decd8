import asyncio
import sys
from pathlib import Path

from agents import Agent, OpenAIChatCompletionsModel, Runner, RunState, function_tool
from openai import AsyncOpenAI


@function_tool(needs_approval=True)
def send_invoice(customer: str, euros: int) -> str:
    """Send an invoice."""
    print(f"sent {euros} to {customer}")
    return "sent"


model = OpenAIChatCompletionsModel("fake", AsyncOpenAI())
agent = Agent("agent", model=model, tools=[send_invoice])
kept = Path("state.json")


async def main():
    if sys.argv[1] == "ask":
        result = await Runner.run(agent, "Bill Ada. script=bill;")
        kept.write_text(result.to_state().to_string())
        print("waiting", result.interruptions[0].name)
        return
    state = await RunState.from_string(agent, kept.read_text())
    for asked in state.get_interruptions():
        state.approve(asked)
    print((await Runner.run(agent, state)).final_output)


asyncio.run(main())
