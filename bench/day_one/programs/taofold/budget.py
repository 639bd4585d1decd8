import os

from taofold import Agent, Limits

model = {"model": "openai-chat:fake", "base_url": os.environ["OPENAI_BASE_URL"]}
helper = Agent(**model, name="helper", description="Counts.")
agent = Agent(**model, tools=[helper], limits=Limits(model_calls=5))
print(agent.run_sync("Ask the helper. script=parent;").output)
print(agent.run_sync("Ask the helper for ever. script=endless;").status)
