from pydantic_ai import Agent
from pydantic_ai.capabilities import Hooks
from pydantic_ai.exceptions import SkipToolExecution

hooks = Hooks()
agent = Agent("openai-chat:fake", capabilities=[hooks])


@agent.tool_plain
def customer(number: int) -> dict:
    """Look up a customer."""
    print("looked up", number)
    return {"number": number, "iban": "NO9386011117947"}


@hooks.on.before_tool_execute
async def refuse(ctx, *, call, tool_def, args):
    if args.get("number") == 1:
        raise SkipToolExecution("customer 1 is the chief's")
    return args


@hooks.on.after_tool_execute
async def withhold(ctx, *, call, tool_def, args, result):
    return {**result, "iban": "(withheld)"} if isinstance(result, dict) else result


print(agent.run_sync("Who are 1 and 7? script=customers;").output)
