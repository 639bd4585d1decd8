"""LangChain: its tools as ours, and our tools and agents as its.

    Agent("openai:gpt-5", tools=[ReadFileTool(root_dir="notes")])          # as they are
    Agent("openai:gpt-5", tools=[*tools_of(toolkit, reads=["read_file"]).values()])

`tools`: a tool of theirs as one of ours, and which of its parameters a model may write. `call`: one
call of it, with LangGraph's `interrupt` as a question to a person. `export` is the other direction.
LangChain's tools are known by their shape: its package is imported only to give something to it.
"""

from taofold.bridges.langchain.export import langchain_tool
from taofold.bridges.langchain.tools import tool_of, tools_of

__all__ = ["langchain_tool", "tool_of", "tools_of"]
