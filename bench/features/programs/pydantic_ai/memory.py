from pydantic_ai import Agent
from pydantic_ai_harness import Memory
from pydantic_ai_harness.memory import SqliteMemoryStore

store = SqliteMemoryStore(database="memory.db")
memory = Memory[str](store, namespace=lambda ctx: ctx.deps)
agent = Agent("openai:gpt-5", deps_type=str, capabilities=[memory])
print(agent.run_sync("Remember: I drink tea at four.", deps="ada").output)
print(agent.run_sync("When do I drink tea?", deps="ada").output)
print(agent.run_sync("When do I drink tea?", deps="bob").output)
