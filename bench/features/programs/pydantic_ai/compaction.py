from pydantic_ai import Agent
from pydantic_ai_harness import SummarizingCompaction

compaction = SummarizingCompaction(max_fraction=0.9, keep_messages=6)
agent = Agent("openai:gpt-4", capabilities=[compaction])


@agent.tool_plain
def page(number: int) -> str:
    """Read a page of the diary."""
    return f"Page {number}. " + "The sea was calm, and the crew mended the nets. " * 100


print(agent.run_sync("Which page names a harbour?").output)
