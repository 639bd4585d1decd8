from pydantic_ai import Agent
from pydantic_ai.capabilities import LocalWorkspace
from pydantic_ai_harness import Shell, Skills

agent = Agent("openai:gpt-5", capabilities=[LocalWorkspace("."), Shell(), Skills("skills")])
print(agent.run_sync("Add 2 and 4 for the report for May.").output)
