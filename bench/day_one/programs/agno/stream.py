from agno.agent import Agent
from agno.models.openai import OpenAIChat

for event in Agent(model=OpenAIChat(id="fake")).run("Count. script=talk;", stream=True):
    if event.event == "RunContent":
        print(event.content, end="")
