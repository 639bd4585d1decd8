from pydantic_ai import Agent
from pydantic_ai.capabilities import LocalWorkspace
from pydantic_ai_harness import FileSystem, RepoContext

context = RepoContext(nested_traversal=True, nested_inject="contents")
agent = Agent("openai:gpt-5", capabilities=[LocalWorkspace("."), FileSystem(), context])
print(agent.run_sync("What does src/price.py define?").output)
