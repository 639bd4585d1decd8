from agents import Agent, OpenAIChatCompletionsModel, Runner
from openai import AsyncOpenAI

model = OpenAIChatCompletionsModel("fake", AsyncOpenAI())
helper = Agent("helper", model=model).as_tool(tool_name="helper", tool_description="Counts.")
agent = Agent("agent", model=model, tools=[helper])
print(Runner.run_sync(agent, "Ask the helper. script=parent;").final_output)
