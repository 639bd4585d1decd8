import os
import sys

from taofold import Agent

agent = Agent("openai-chat:fake", base_url=os.environ["OPENAI_BASE_URL"], log="runs.db")
goals = [f"script=case; Question {n}" for n in range(int(sys.argv[1]))]
batch = agent.map_sync(goals, name="survey", concurrency=5)
print(len(batch.outputs), batch.outputs[-1])
