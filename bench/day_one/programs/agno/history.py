from agno.agent import Agent
from agno.db.in_memory import InMemoryDb
from agno.models.openai import OpenAIChat

agent = Agent(model=OpenAIChat(id="fake"), db=InMemoryDb(), add_history_to_context=True)
agent.run("I am Ada. script=first;", session_id="ada")
print(agent.run("Who am I? script=second;", session_id="ada").content)
