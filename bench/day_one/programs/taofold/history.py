import os

from taofold import Agent

agent = Agent("openai-chat:fake", base_url=os.environ["OPENAI_BASE_URL"])
first = agent.run_sync("I am Ada. script=first;")
history = [
    {"role": "user", "content": "I am Ada. script=first;"},
    {"role": "assistant", "content": first.output},
]
print(agent.run_sync("Who am I? script=second;", history=history).output)
