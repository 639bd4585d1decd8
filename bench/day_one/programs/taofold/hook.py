import os

from taofold import Agent, Hook, Reject, Replace, tool


@tool(effect="read")
def customer(number: int) -> dict:
    """Look up a customer."""
    print("looked up", number)
    return {"number": number, "iban": "NO9386011117947"}


class Privacy(Hook):
    async def before_tool(self, context, action):
        if action.parameters.get("number") == 1:
            return Reject("customer 1 is the chief's")
        return None

    async def after_tool(self, context, action, result):
        if isinstance(result, dict) and "iban" in result:
            return Replace({**result, "iban": "(withheld)"})
        return None


model = {"model": "openai-chat:fake", "base_url": os.environ["OPENAI_BASE_URL"]}
agent = Agent(**model, tools=[customer], hooks=[Privacy()])
print(agent.run_sync("Who are 1 and 7? script=customers;").output)
