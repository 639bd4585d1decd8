import json

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    Runner,
    ToolGuardrailFunctionOutput,
    function_tool,
    tool_input_guardrail,
    tool_output_guardrail,
)
from openai import AsyncOpenAI


@tool_input_guardrail
def refuse(data):
    if json.loads(data.context.tool_arguments).get("number") == 1:
        return ToolGuardrailFunctionOutput.reject_content("customer 1 is the chief's")
    return ToolGuardrailFunctionOutput.allow()


@tool_output_guardrail
def withhold(data):
    if isinstance(data.output, dict) and "iban" in data.output:
        hidden = json.dumps({**data.output, "iban": "(withheld)"})
        return ToolGuardrailFunctionOutput.reject_content(hidden)
    return ToolGuardrailFunctionOutput.allow()


@function_tool(tool_input_guardrails=[refuse], tool_output_guardrails=[withhold])
def customer(number: int) -> dict:
    """Look up a customer."""
    print("looked up", number)
    return {"number": number, "iban": "NO9386011117947"}


model = OpenAIChatCompletionsModel("fake", AsyncOpenAI())
agent = Agent("agent", model=model, tools=[customer])
print(Runner.run_sync(agent, "Who are 1 and 7? script=customers;").final_output)
