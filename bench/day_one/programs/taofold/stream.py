import asyncio
import os

from taofold import Agent


async def main():
    agent = Agent("openai-chat:fake", base_url=os.environ["OPENAI_BASE_URL"])
    async for text in agent.stream("Count. script=talk;").text():
        print(text, end="")


asyncio.run(main())
