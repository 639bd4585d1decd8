from pydantic_ai import Agent
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import EqualsExpected

cases = [
    Case(name=str(n), inputs=f"script=case; Question {n}", expected_output=f"yes {n}")
    for n in range(1, 9)
]
dataset = Dataset(name="questions", cases=cases, evaluators=[EqualsExpected()])


def rate(model):
    agent = Agent(model)

    async def answer(goal):
        return (await agent.run(goal)).output

    return dataset.evaluate_sync(answer, progress=False).averages().assertions


print(rate("openai-chat:fake"), rate("openai-chat:weak"))
