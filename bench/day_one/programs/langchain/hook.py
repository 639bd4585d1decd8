from langchain.agents import create_agent
from langchain.agents.middleware import wrap_tool_call
from langchain.messages import ToolMessage
from langchain_openai import ChatOpenAI


def customer(number: int) -> dict:
    """Look up a customer."""
    print("looked up", number)
    return {"number": number, "iban": "NO9386011117947"}


@wrap_tool_call
def privacy(request, handler):
    if request.tool_call["args"].get("number") == 1:
        return ToolMessage("customer 1 is the chief's", tool_call_id=request.tool_call["id"])
    result = handler(request)
    result.content = result.content.replace("NO9386011117947", "(withheld)")
    return result


agent = create_agent(ChatOpenAI(model="fake"), [customer], middleware=[privacy])
goal = {"messages": [{"role": "user", "content": "Who are 1 and 7? script=customers;"}]}
print(agent.invoke(goal)["messages"][-1].content)
