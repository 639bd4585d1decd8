from agents import Agent, OpenAIChatCompletionsModel, Runner
from openai import AsyncOpenAI

agent = Agent("agent", model=OpenAIChatCompletionsModel("fake", AsyncOpenAI()))
first = Runner.run_sync(agent, "I am Ada. script=first;")
said = [*first.to_input_list(), {"role": "user", "content": "Who am I? script=second;"}]
print(Runner.run_sync(agent, said).final_output)
