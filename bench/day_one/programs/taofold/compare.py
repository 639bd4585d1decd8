import asyncio
import os

from taofold import Agent
from taofold.evals import Case, compare, evaluate

url = os.environ["OPENAI_BASE_URL"]
cases = [Case(f"script=case; Question {n}", expect=f"yes {n}") for n in range(1, 9)]


async def main():
    strong = await evaluate(Agent("openai-chat:fake", base_url=url), cases)
    weak = await evaluate(Agent("openai-chat:weak", base_url=url), cases)
    print(strong.rate, weak.rate, compare(strong, weak).p)


asyncio.run(main())
