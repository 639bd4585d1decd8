from pydantic_ai import Agent
from pydantic_ai.capabilities import LocalWorkspace
from pydantic_ai_harness import FileSystem, Skills

agent = Agent("openai:gpt-5", capabilities=[LocalWorkspace("."), FileSystem(), Skills("skills")])
print(agent.run_sync("Write the report for May.").output)
