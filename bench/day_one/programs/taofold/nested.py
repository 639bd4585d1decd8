import os

from taofold import Agent

model = {"model": "openai-chat:fake", "base_url": os.environ["OPENAI_BASE_URL"]}
helper = Agent(**model, name="helper", description="Counts.")
agent = Agent(**model, tools=[helper])
print(agent.run_sync("Ask the helper. script=parent;").output)
