import asyncio

from taofold import Agent


async def main():
    async with Agent("openai-chat:fake").stream("Count. script=talk;") as stream:
        async for text in stream.text():
            print(text, end="")


asyncio.run(main())
