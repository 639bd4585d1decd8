from langchain.agents import create_agent
from langchain_openai import ChatOpenAI

model = ChatOpenAI(model="fake")
inner = create_agent(model, [])


def helper(goal: str) -> str:
    """Counts."""
    return inner.invoke({"messages": [{"role": "user", "content": goal}]})["messages"][-1].content


agent = create_agent(model, [helper])
goal = {"role": "user", "content": "Ask the helper. script=parent;"}
print(agent.invoke({"messages": [goal]})["messages"][-1].content)
