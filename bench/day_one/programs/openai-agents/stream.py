import asyncio

from agents import Agent, OpenAIChatCompletionsModel, Runner
from openai import AsyncOpenAI


async def main():
    agent = Agent("agent", model=OpenAIChatCompletionsModel("fake", AsyncOpenAI()))
    result = Runner.run_streamed(agent, "Count. script=talk;")
    async for event in result.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            print(event.data.delta, end="")


asyncio.run(main())
