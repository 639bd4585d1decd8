from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_openai import ChatOpenAI


class Spent(Exception):
    pass


class Budget(AgentMiddleware):
    calls = 0

    def before_model(self, state, runtime):
        self.calls -= 1
        if self.calls < 0:
            raise Spent("no model call is left")


model = ChatOpenAI(model="fake")
budget = Budget()
inner = create_agent(model, [], middleware=[budget])


def ask(agent, goal):
    return agent.invoke({"messages": [{"role": "user", "content": goal}]})["messages"][-1].content


def helper(goal: str) -> str:
    """Counts."""
    return ask(inner, goal)


agent = create_agent(model, [helper], middleware=[budget])
budget.calls = 5
print(ask(agent, "Ask the helper. script=parent;"))
try:
    budget.calls = 5
    ask(agent, "Ask the helper for ever. script=endless;")
except Spent as error:
    print("limited", error)
