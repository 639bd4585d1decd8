from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

agent = create_agent(ChatOpenAI(model="fake"), [])
goal = {"role": "user", "content": "Count. script=talk;"}
for piece, _ in agent.stream({"messages": [goal]}, stream_mode="messages"):
    print(piece.content, end="")
