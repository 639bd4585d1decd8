from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

agent = create_agent(ChatOpenAI(model="fake"), [])
first = agent.invoke({"messages": [{"role": "user", "content": "I am Ada. script=first;"}]})
said = [*first["messages"], {"role": "user", "content": "Who am I? script=second;"}]
print(agent.invoke({"messages": said})["messages"][-1].content)
