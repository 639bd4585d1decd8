from pydantic_ai import Agent

agent = Agent("openai-chat:fake")
first = agent.run_sync("I am Ada. script=first;")
print(agent.run_sync("Who am I? script=second;", message_history=first.all_messages()).output)
