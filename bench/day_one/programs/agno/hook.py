from agno.agent import Agent
from agno.models.openai import OpenAIChat


def customer(number: int) -> dict:
    """Look up a customer."""
    print("looked up", number)
    return {"number": number, "iban": "NO9386011117947"}


def privacy(function_name, function_call, arguments):
    if arguments.get("number") == 1:
        return "customer 1 is the chief's"
    return {**function_call(**arguments), "iban": "(withheld)"}


agent = Agent(model=OpenAIChat(id="fake"), tools=[customer], tool_hooks=[privacy])
print(agent.run("Who are 1 and 7? script=customers;").content)
