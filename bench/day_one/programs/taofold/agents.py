from taofold import Agent

helper = Agent("openai-chat:fake", name="helper", description="Counts.")
agent = Agent("openai-chat:fake", tools=[helper])
print(agent.run_sync("Ask the helper. script=parent;").output)
