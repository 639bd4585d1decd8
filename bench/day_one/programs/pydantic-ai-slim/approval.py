import sys
from pathlib import Path

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ModelMessagesTypeAdapter

agent = Agent("openai-chat:fake", output_type=[str, DeferredToolRequests])


@agent.tool_plain(requires_approval=True)
def send_invoice(customer: str, euros: int) -> str:
    """Send an invoice."""
    print(f"sent {euros} to {customer}")
    return "sent"


kept = Path("messages.json")
if sys.argv[1] == "ask":
    result = agent.run_sync("Bill Ada. script=bill;")
    kept.write_bytes(result.all_messages_json())
    print("waiting", result.output.approvals[0].args)
else:
    messages = ModelMessagesTypeAdapter.validate_json(kept.read_bytes())
    approved = {call.tool_call_id: True for call in messages[-1].tool_calls}
    results = DeferredToolResults(approvals=approved)
    print(agent.run_sync(message_history=messages, deferred_tool_results=results).output)
