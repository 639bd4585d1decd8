import asyncio

from pydantic_ai import Agent


async def main():
    async with Agent("openai-chat:fake").run_stream("Count. script=talk;") as result:
        async for text in result.stream_text(delta=True):
            print(text, end="")


asyncio.run(main())
