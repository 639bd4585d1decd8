from agents import Agent, OpenAIChatCompletionsModel, RunHooks, Runner
from openai import AsyncOpenAI


class Spent(Exception):
    pass


class Budget(RunHooks):
    def __init__(self, calls):
        self.calls = calls

    async def on_llm_start(self, *_):
        self.calls -= 1
        if self.calls < 0:
            raise Spent("no model call is left")


def team(budget):
    model = OpenAIChatCompletionsModel("fake", AsyncOpenAI())
    helper = Agent("helper", model=model).as_tool(
        tool_name="helper",
        tool_description="Counts.",
        hooks=budget,
        failure_error_function=None,
    )
    return Agent("agent", model=model, tools=[helper])


budget = Budget(5)
print(Runner.run_sync(team(budget), "Ask the helper. script=parent;", hooks=budget).final_output)
try:
    budget = Budget(5)
    Runner.run_sync(team(budget), "Ask the helper for ever. script=endless;", hooks=budget)
except Exception as error:
    print("limited", error)
